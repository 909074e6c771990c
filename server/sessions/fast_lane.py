"""Serves the REST endpoints before FastAPI's routing.

A request that names one of them exactly goes straight to its handler; everything else (other paths, other
methods, OpenEnv's endpoints) goes on to FastAPI, which also documents the same endpoints. On POST /step
FastAPI's stack of middleware, exit stacks and pattern matching would cost a third of the whole request.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from inferencegym.errors import InferenceGymError
from server.api.errors import CLIENT_GONE, error_response
from server.api.raw import Handler

__all__ = ["ROUTE_KEY", "FastLane"]

ROUTE_KEY = "inferencegym.route"
"""Where the scope tells the metrics which endpoint answered."""


class FastLane:
    """Pure ASGI: exact (method, path) to handler, the rest to ``app``."""

    def __init__(self, app: ASGIApp, handlers: Mapping[tuple[str, str], Handler]) -> None:
        self._app = app
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = None
        if scope["type"] == "http":
            if scope["method"] == "HEAD":
                await self._head(scope, receive, send)
                return
            handler = self._handlers.get((scope["method"], scope["path"]))
        if handler is None:
            await self._app(scope, receive, send)
            return
        scope[ROUTE_KEY] = scope["path"]
        try:
            response = await handler(Request(scope, receive))
        except InferenceGymError as error:
            response = error_response(error)
        except ClientDisconnect:
            response = Response(status_code=CLIENT_GONE)
        await response(scope, receive, send)

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as to GET; the HTTP server, which knows the method, leaves the body out."""
        as_get = {**scope, "method": "GET"}
        try:
            await self(as_get, receive, send)
        finally:
            # What was noted about the route, for the metrics.
            scope.update({**as_get, "method": "HEAD"})
