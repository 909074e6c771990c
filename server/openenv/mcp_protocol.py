"""What MCP asks of a server around its tools: handshake, ping, notifications, a session for each client.

OpenEnv answers ``tools/…`` and its own ``openenv/session/…``; the rest is answered here, for POST /mcp and
for the WebSocket at /mcp. A client that only speaks MCP is given its session by ``initialize``, in the
header ``Mcp-Session-Id``, and its calls with that header are calls of that session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson
from openenv.core.env_server.exceptions import SessionCapacityError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inferencegym.errors import UnknownNameError
from inferencegym.registry import EnvSpec
from server.api.raw import dumped
from server.openenv.mcp_tools import require_tool
from server.openenv.server import EnvServer, without_connection
from server.openenv.socket_guard import UnreadableError, json_object, rpc_error

__all__ = ["McpInWs", "McpPost", "McpSocket"]

SESSION_HEADER = "mcp-session-id"
PROTOCOL_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions of MCP, newest first, that do not differ in what is served here."""
SESSION_GONE, INVALID_PARAMS = -32001, -32602

_SERVED_ELSEWHERE = ("tools/", "openenv/")


@dataclass(frozen=True, slots=True)
class _Answer:
    """What is sent back; ``body`` is None for a notification, which gets no answer."""

    body: dict[str, Any] | None
    starts_session: bool = False


def _answer(call: Mapping[str, Any], spec: EnvSpec) -> _Answer | None:
    """The answer to a call that is not OpenEnv's; None when OpenEnv answers, with an error perhaps."""
    method = call.get("method")
    if call.get("jsonrpc") != "2.0" or not isinstance(method, str):
        return None
    if method == "initialize":
        return _Answer(_success(call, _handshake(call.get("params"), spec)), starts_session=True)
    if method == "ping":
        return _Answer(_success(call, {}))
    unknown = _unknown_tool(call)
    if unknown is not None:
        return _Answer(unknown)
    # A call that OpenEnv serves is answered without an id too: many that are typed by hand have none.
    if "id" not in call and not method.startswith(_SERVED_ELSEWHERE):
        return _Answer(None)
    return None


def _unknown_tool(call: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer to a call of a tool that does not exist, which OpenEnv takes for an error of its own."""
    params: Any = call.get("params")
    if call.get("method") != "tools/call" or not isinstance(params, dict):
        return None
    name: Any = cast("dict[str, Any]", params).get("name")
    try:
        if name:  # OpenEnv says itself that there is none
            require_tool(name)
    except UnknownNameError as error:
        return orjson.loads(rpc_error(INVALID_PARAMS, str(error), call.get("id")))
    return None


def _success(call: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call.get("id"), "result": result}


def _handshake(params: Any, spec: EnvSpec) -> dict[str, Any]:
    asked = cast("dict[str, Any]", params).get("protocolVersion") if isinstance(params, dict) else None
    return {
        "protocolVersion": asked if asked in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": spec.id, "title": spec.title, "version": spec.version},
        "instructions": (
            "The tools play one episode of this session. Whoever runs the agent starts it by a reset over "
            "/ws?session_id=…, with the id in the Mcp-Session-Id header of this reply or one that "
            "openenv/session/create returns."
        ),
    }


class McpPost:
    """POST /mcp, in front of OpenEnv's handler."""

    def __init__(self, app: ASGIApp, server: EnvServer, spec: EnvSpec) -> None:
        self._app = app
        self._server = server
        self._spec = spec

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await Request(scope, receive).body()
        token = without_connection.set(True)
        try:
            response = await self._respond(body, Headers(scope=scope).get(SESSION_HEADER))
            if isinstance(response, Response):
                await response(scope, receive, send)
            else:
                await self._app(scope, _giving(response), send)
        finally:
            without_connection.reset(token)

    async def _respond(self, body: bytes, session_id: str | None) -> Response | bytes:
        """The response, or the body that OpenEnv is to answer."""
        try:
            call = json_object(body)
        except UnreadableError as error:
            return Response(rpc_error(error.rpc_code, str(error)), media_type="application/json")
        answer = _answer(call, self._spec)
        if answer is not None:
            headers = await self._new_session() if answer.starts_session else {}
            if answer.body is None:
                return Response(status_code=202)
            return Response(dumped(answer.body), media_type="application/json", headers=headers)
        params = call.get("params", {})
        if session_id is None or not isinstance(params, dict) or "session_id" in params:
            return body
        if not self._server.knows(session_id):
            text = f"Mcp-Session-Id: {session_id[:80]!r} is unknown or has ended; send initialize again."
            error = rpc_error(SESSION_GONE, text, call.get("id"))
            return Response(error, status_code=404, media_type="application/json")
        if call.get("method") == "openenv/session/create":
            return body
        return dumped({**call, "params": {**cast("dict[str, Any]", params), "session_id": session_id}})

    async def _new_session(self) -> dict[str, str]:
        try:
            return {SESSION_HEADER: await self._server.open_session()}
        except SessionCapacityError:
            # The tools can still be looked at.
            return {}


def _giving(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


class McpSocket:
    """The WebSocket at /mcp, in front of OpenEnv's handler."""

    def __init__(self, app: ASGIApp, spec: EnvSpec) -> None:
        self._app = app
        self._spec = spec

    def _reply(self, text: str) -> tuple[bool, dict[str, Any] | None]:
        """Whether a message is answered here, and with what, if anything."""
        answer = _answer(orjson.loads(text), self._spec)
        return (False, None) if answer is None else (True, answer.body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def screened() -> Message:
            while True:
                message = await receive()
                if message["type"] != "websocket.receive":
                    return message
                # The guard lets nothing but JSON objects pass.
                answered, body = self._reply(message["text"])
                if not answered:
                    return message
                if body is not None:
                    await send({"type": "websocket.send", "text": dumped(body).decode()})

        await self._app(scope, screened, send)


class McpInWs(McpSocket):
    """The WebSocket at /ws, whose messages of the type "mcp" carry calls."""

    def _reply(self, text: str) -> tuple[bool, dict[str, Any] | None]:
        if '"mcp"' not in text:  # steps are not parsed twice
            return False, None
        message: dict[str, Any] = orjson.loads(text)
        call: Any = message.get("data")
        if message.get("type") != "mcp" or not isinstance(call, dict):
            return False, None
        unknown = _unknown_tool(cast("dict[str, Any]", call))
        return unknown is not None, {"type": "mcp", "data": unknown}
