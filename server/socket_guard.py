"""Stands before OpenEnv's /ws and /mcp: keeps out what would end a session, and ends idle sockets.

OpenEnv closes a session at a message that is not a JSON object, at a binary frame and at nesting that
its parser cannot take; the guard answers those itself, and the session goes on unchanged. OpenEnv's own
idle timeout frees the environment but leaves the socket open; the guard closes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
from pydantic_core import from_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["SocketGuard"]

GOING_AWAY = 1001
JSON_RPC_PARSE_ERROR = -32700
JSON_RPC_SERVER_ERROR = -32000


class SocketGuard:
    """Pure ASGI wrapper of one application that has OpenEnv's routes."""

    def __init__(self, app: ASGIApp, idle_timeout_s: float) -> None:
        self._app = app
        self._idle_timeout_s = idle_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if scope["type"] == "websocket":
            frame = _rpc_error if path.endswith("/mcp") else _ws_error
            await self._app(scope, self._screened(receive, send, frame), send)
        elif scope["type"] == "http" and path.endswith("/mcp") and scope["method"] == "POST":
            await self._app(scope, _screened_body(receive), send)
        else:
            await self._app(scope, receive, send)

    def _screened(self, receive: Receive, send: Send, frame: Callable[[str, bool], str]) -> Receive:
        timer = _IdleTimer(self._idle_timeout_s)

        async def screened() -> Message:
            while True:
                message = await timer.wait_for(receive)
                if message is None:
                    text = frame(f"No message for {timer.timeout_s:g} s; the session has ended.", True)
                    await send({"type": "websocket.send", "text": text})
                    return {"type": "websocket.disconnect", "code": GOING_AWAY}
                if message["type"] != "websocket.receive":
                    return message
                problem = _problem(message.get("text"))
                if problem is None:
                    return message
                await send({"type": "websocket.send", "text": frame(problem, False)})

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


def _problem(text: str | None) -> str | None:
    """Why a message cannot be passed on; None when it can."""
    if text is None:
        return "A message must be text, not binary."
    try:
        document = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        return f"The message is not valid JSON: {error}."
    if not isinstance(document, dict):
        return "A message must be a JSON object."
    return None


def _ws_error(message: str, ended: bool) -> str:
    code = "SESSION_ERROR" if ended else "INVALID_JSON"
    return orjson.dumps({"type": "error", "data": {"message": message, "code": code}}).decode()


def _rpc_error(message: str, ended: bool) -> str:
    code = JSON_RPC_SERVER_ERROR if ended else JSON_RPC_PARSE_ERROR
    error: dict[str, Any] = {"code": code, "message": message}
    return orjson.dumps({"jsonrpc": "2.0", "id": None, "error": error}).decode()


def _screened_body(receive: Receive) -> Receive:
    """Replace a body that is not a JSON object by one that OpenEnv answers with a parse error."""
    chunks: list[bytes] = []

    async def screened() -> Message:
        message = await receive()
        if message["type"] != "http.request":
            return message
        chunks.append(message.get("body", b""))
        if message.get("more_body", False):
            return {**message, "body": b""}
        body = b"".join(chunks)
        try:
            text: str | None = body.decode()
        except UnicodeDecodeError:
            text = None
        return {**message, "body": body if _problem(text) is None else b"?"}

    return screened
