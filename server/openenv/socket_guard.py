"""Stands before OpenEnv's /ws and /mcp: keeps out what would end a session, and ends idle sockets.

OpenEnv closes a session at a message that is not a JSON object, at a binary frame and at nesting that
its parser cannot take; the guard answers those itself, and the session goes on unchanged. OpenEnv's own
idle timeout frees the environment but leaves the socket open; the guard closes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import orjson
from pydantic_core import from_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.errors import in_words
from server.api.raw import dumped
from server.guard.clients import client_of, current_client

__all__ = ["SocketGuard", "UnreadableError", "json_object", "rpc_error"]

GOING_AWAY = 1001
JSON_RPC_PARSE_ERROR = -32700
JSON_RPC_INVALID = -32600
JSON_RPC_SERVER_ERROR = -32000


class SocketGuard:
    """Pure ASGI wrapper of one application that has OpenEnv's routes."""

    def __init__(self, app: ASGIApp, idle_timeout_s: float) -> None:
        self._app = app
        self._idle_timeout_s = idle_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        current_client.set(client_of(scope))
        if scope["type"] == "websocket":
            frame = _rpc_error if path.endswith("/mcp") else _ws_error
            await self._app(scope, self._screened(receive, send, frame), send)
        else:
            await self._app(scope, receive, send)

    def _screened(self, receive: Receive, send: Send, frame: Callable[[str, int], str]) -> Receive:
        timer = _IdleTimer(self._idle_timeout_s)

        async def screened() -> Message:
            while True:
                message = await timer.wait_for(receive)
                if message is None:
                    text = f"No message for {timer.timeout_s:g} s; the session has ended."
                    text = frame(text, JSON_RPC_SERVER_ERROR)
                    await send({"type": "websocket.send", "text": text})
                    return {"type": "websocket.disconnect", "code": GOING_AWAY}
                if message["type"] != "websocket.receive":
                    return message
                try:
                    json_object(message.get("text"))
                except UnreadableError as error:
                    await send({"type": "websocket.send", "text": frame(str(error), error.rpc_code)})
                else:
                    return message

        return screened


class _IdleTimer:
    """A timeout on every wait of one socket, for the price of a clock reading.

    One timer handle runs for all waits. When it fires too early, because messages came in between, it is
    set again; a timeout of its own for every message would cost more than parsing the message.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._deadline_s = 0.0
        self._waiting: asyncio.Task[Any] | None = None
        self._expired = False
        self._handle: asyncio.TimerHandle | None = None

    async def wait_for(self, receive: Receive) -> Message | None:
        """The next message, or None after ``timeout_s`` seconds without one."""
        if not self.timeout_s:
            return await receive()
        loop = asyncio.get_running_loop()
        self._deadline_s = loop.time() + self.timeout_s
        self._waiting = task = asyncio.current_task()
        if self._handle is None:
            self._handle = loop.call_at(self._deadline_s, self._check, loop)
        try:
            message = await receive()
        except asyncio.CancelledError:
            if not self._expired:
                self._stop()
                raise
            assert task is not None
            task.uncancel()
            return None
        finally:
            self._waiting = None
        if message["type"] == "websocket.disconnect":
            self._stop()
        return message

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        self._handle = None
        if self._waiting is None:
            return
        if loop.time() < self._deadline_s:
            self._handle = loop.call_at(self._deadline_s, self._check, loop)
            return
        self._expired = True
        self._waiting.cancel()

    def _stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class UnreadableError(ValueError):
    """A message that is not one JSON object."""

    def __init__(self, message: str, rpc_code: int = JSON_RPC_PARSE_ERROR) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code


def json_object(text: str | bytes | None) -> dict[str, Any]:
    """The object that a message is. Raises UnreadableError, which says what it is instead."""
    if text is None:
        raise UnreadableError("A message must be text, not binary.")
    try:
        document = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise UnreadableError(f"The message is not valid JSON: {in_words(str(error))}.") from None
    if not isinstance(document, dict):
        raise UnreadableError("A message must be one JSON object; there are no batches.", JSON_RPC_INVALID)
    return cast("dict[str, Any]", document)


def rpc_error(code: int, message: str, id: Any = None) -> bytes:  # noqa: A002 (JSON-RPC's word)
    """A JSON-RPC error message."""
    return dumped({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})


def _ws_error(message: str, rpc_code: int) -> str:
    code = "SESSION_ERROR" if rpc_code == JSON_RPC_SERVER_ERROR else "INVALID_JSON"
    return orjson.dumps({"type": "error", "data": {"message": message, "code": code}}).decode()


def _rpc_error(message: str, rpc_code: int) -> str:
    return rpc_error(rpc_code, message).decode()
