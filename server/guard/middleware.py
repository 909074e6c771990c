"""Pure ASGI middleware: what is observed about a request, and what is refused before it is read."""

from __future__ import annotations

import math
import time

import limits
import structlog
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.errors import (
    BodyTooLargeError,
    ContentEncodingError,
    CostLimitError,
    RateLimitError,
    error_response,
    unexpected,
)
from server.api.raw import replayed
from server.guard.clients import client_of, is_limited
from server.guard.costs import Costs
from server.guard.refusal import refuse as _refuse
from server.operations.metrics import Metrics
from server.operations.settings import Settings
from server.sessions.fast_lane import ROUTE_KEY

__all__ = ["BodyLimit", "Cors", "Observe", "RateLimit"]

_GRADINGS = ("/grader", "/grade", "/grader/replay")
"""Endpoints whose bodies hold whole episodes."""


class Observe:
    """Outermost: counts and logs every request, and answers what nothing else caught."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log_requests: bool) -> None:
        self._app = app
        self._metrics = metrics
        self._log = structlog.get_logger().bind() if log_requests else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        started_s = time.perf_counter()
        status = 0

        async def noting_send(message: Message) -> None:
            nonlocal status
            kind = message["type"]
            if kind in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
            elif kind == "websocket.accept":
                status = 101
            elif kind == "websocket.close" and not status:
                status = 403
            await send(message)

        try:
            await self._app(scope, receive, noting_send)
        except Exception as error:  # noqa: BLE001 (the last line of defence: no caller sees a traceback)
            answer = unexpected(error, scope["path"])
            if not status and scope["type"] == "http":
                await error_response(answer)(scope, receive, noting_send)
        finally:
            self._note(scope, status, time.perf_counter() - started_s)
        return None

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope["method"] if scope["type"] == "http" else "WEBSOCKET"
        self._metrics.count(method, _route(scope), status, seconds)
        if self._log is not None:
            client = scope.get("client")
            self._log.info(
                "request",
                method=method,
                path=scope["path"],
                status=status,
                ms=round(seconds * 1000.0, 3),
                client=client[0] if client else None,
            )


def _route(scope: Scope) -> str:
    if ROUTE_KEY in scope:
        return scope[ROUTE_KEY]
    route = scope.get("route")
    if route is None:
        return "unmatched"
    return f"{scope.get('root_path', '')}{route.path}"


class Cors:
    """Starlette's CORS for requests that a browser sends from another origin; others pass it by."""

    def __init__(self, app: ASGIApp, origins: list[str]) -> None:
        self._app = app
        self._cors = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["Retry-After", "Mcp-Session-Id"],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        crosses = scope["type"] == "http" and any(name == b"origin" for name, _ in scope["headers"])
        await (self._cors if crosses else self._app)(scope, receive, send)


class RateLimit:
    """A fixed window for each client. Health checks, metrics and, by default, programs on this machine are
    never refused.

    Large rates are drawn from the window in blocks, since every draw costs some microseconds; a block
    divides the rate, so that the limit stays exact.
    """

    EXEMPT = ("/health", "/metrics")
    BLOCKS = (100, 10, 1)
    BLOCKS_PER_WINDOW = 100
    MAX_CLIENTS = 4096
    """Clients whose open blocks are remembered; beyond, the remembered blocks are given up."""

    def __init__(self, app: ASGIApp, rate: str, limit_loopback: bool = False) -> None:
        self._app = app
        self._limit_loopback = limit_loopback
        self._rate = rate
        self._item = limits.parse(rate)
        amount = self._item.amount
        self._block = next(
            size
            for size in self.BLOCKS
            if size == 1 or (amount >= size * self.BLOCKS_PER_WINDOW and amount % size == 0)
        )
        self._granted: dict[str, int] = {}
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and not scope["path"].endswith(self.EXEMPT):
            key = client_of(scope)
            if is_limited(key, self._limit_loopback) and not self._allows(key):
                return await _refuse(self._error(key), scope, receive, send)
        return await self._app(scope, receive, send)

    def _allows(self, key: str) -> bool:
        granted = self._granted.get(key, 0)
        if not granted:
            if not self._limiter.hit(self._item, key, cost=self._block):
                return False
            granted = self._block
            if len(self._granted) >= self.MAX_CLIENTS:
                self._granted.clear()
        self._granted[key] = granted - 1
        return True

    def _error(self, key: str) -> RateLimitError:
        window = self._limiter.get_window_stats(self._item, key)
        return RateLimitError(self._rate, max(1, math.ceil(window.reset_time - time.time())))


class BodyLimit:
    """Refuses compressed bodies and those above their endpoint's limit, by declared or actual length, and
    charges clients for long ones: by the declared length, before anything is read."""

    def __init__(self, app: ASGIApp, settings: Settings, costs: Costs) -> None:
        self._app, self._costs = app, costs
        self._limit = settings.max_body_bytes
        self._grader_limit = settings.grader_max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            return await self._app(scope, receive, send)
        limit = self._grader_limit if scope["path"].endswith(_GRADINGS) else self._limit
        declared, encoding = _declared(scope)
        if encoding not in ("", "identity"):
            return await _refuse(ContentEncodingError(encoding), scope, receive, send)
        if declared is None:
            try:
                body = await _read_up_to(receive, limit)
            except ClientDisconnect:
                # What came of the body is not what was meant: the application must not see it.
                return await self._app(scope, _gone, send)
            if body is None:
                return await _refuse(BodyTooLargeError(limit), scope, receive, send)
            receive, length = replayed(body, receive), len(body)
        elif declared > limit:
            return await _refuse(BodyTooLargeError(limit), scope, receive, send)
        else:
            length = declared
        try:
            self._costs.charge_body(client_of(scope), length)
        except CostLimitError as error:
            # Not even read: the connection, on which the body would come, is closed.
            return await _refuse(error, scope, receive, send, {"connection": "close"})
        return await self._app(scope, receive, send)


def _declared(scope: Scope) -> tuple[int | None, str]:
    """Content-Length, which the HTTP parser enforces (None for a chunked body), and Content-Encoding."""
    length, encoding = None, ""
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = int(value) if value.isdigit() else None
        elif name == b"content-encoding":
            encoding = value.decode("latin-1").strip().lower()
    return length, encoding


async def _read_up_to(receive: Receive, limit: int) -> bytes | None:
    """The whole body, or None when it is longer than ``limit`` bytes. Raises ClientDisconnect."""
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > limit:
            return None
        more = message.get("more_body", False)
    return b"".join(chunks)


async def _gone() -> Message:
    return {"type": "http.disconnect"}
