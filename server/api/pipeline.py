"""What every request goes through, outermost first; FastAPI is the innermost part."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from server.guard.middleware import BodyLimit, Cors, Observe, RateLimit
from server.guard.token_gate import TokenGate
from server.openenv.socket_guard import SocketGuard
from server.services import Services
from server.sessions.fast_lane import FastLane

__all__ = ["GymApp"]

_PAGES = ("/web", "/docs")


class GymApp(FastAPI):
    """A FastAPI application behind this server's own middleware.

    The middleware stands before FastAPI's and not inside it, so that a request on the fast lane passes
    none of FastAPI's layers.
    """

    pipeline: ASGIApp | None = None
    _mounts: frozenset[str] = frozenset()

    def put_behind(self, services: Services) -> None:
        """Put the middleware in front. Until then the application is plain FastAPI."""
        settings = services.settings
        # Every environment has /health.
        self._mounts = frozenset(
            path.removesuffix("/health") for _, path in services.fast_lane if path.endswith("/health")
        )
        app: ASGIApp = super().__call__
        app = FastLane(app, services.fast_lane)
        app = SocketGuard(app, settings.socket_timeout_s)
        app = BodyLimit(app, settings, services.costs)
        if settings.rate_limit != "off":
            app = RateLimit(app, settings.rate_limit, settings.limit_loopback)
        if settings.token is not None:
            # Behind CORS: a browser's question before the request carries no token.
            app = TokenGate(app, settings.token.get_secret_value(), self._mounts)
        if settings.cors_origins:
            app = Cors(app, settings.cors_origins)
        self.pipeline = Observe(app, services.metrics, log_requests=settings.log_level in ("DEBUG", "INFO"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.pipeline is None:
            await super().__call__(scope, receive, send)
            return
        if scope["type"] == "http" and scope["path"].endswith("/") and not self._is_page(scope["path"]):
            # An empty redirect is lost on most programs; what a trailing slash means is plain.
            scope["path"] = scope["path"].rstrip("/")
        await self.pipeline(scope, receive, send)

    def _is_page(self, path: str) -> bool:
        """Pages for browsers, which follow redirects and resolve links against the address."""
        stripped = path.rstrip("/")
        return stripped in self._mounts or stripped.endswith(_PAGES) or "/web/" in path
