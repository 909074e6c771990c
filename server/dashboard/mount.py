"""Serves the page at /web, built when it is first asked for.

Gradio takes longer to import than the rest of the server together and 80 MB. A server that only answers
programs never pays; the first visitor sees a line of text for some seconds, and nobody else waits.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from threading import Lock
from typing import Any

import anyio.to_thread
import structlog
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from server.bound import BoundEnv
from server.dashboard.door import check_open
from server.services import Services

__all__ = ["ASSETS", "WebPage"]

ASSETS = Path(__file__).with_name("assets")

REBUILD_AFTER_S = 30.0
"""After a page that could not be built, until the next visitor has it tried again."""
_BUILDING = Lock()

_WAIT = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>InferenceGym</title>
<meta http-equiv="refresh" content="1"><meta name="viewport" content="width=device-width,initial-scale=1">
<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:4rem auto;
max-width:32rem;padding:0 1rem}</style></head><body><h1>InferenceGym</h1>
<p>The page is being built. It takes some seconds, once.</p></body></html>"""

_BROKEN = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>InferenceGym</title></head>
<body><p>The page could not be built; the server's log says why. The API works all the same: see
<a href="../docs">its documentation</a>.</p></body></html>"""


class WebPage:
    """The page of one mount.

    Args:
        bound: the environment at this mount, shown first.
        bounds: all environments of the server.
        services: of the server.
    """

    def __init__(self, bound: BoundEnv, bounds: Sequence[BoundEnv], services: Services) -> None:
        self._bound, self._bounds, self._services = bound, bounds, services
        self._living: asyncio.Task[None] | None = None
        self._app: asyncio.Future[ASGIApp] | None = None
        self._stop = asyncio.Event()

    def routes(self) -> list[BaseRoute]:
        """/web, everything below it, what the page loads, and /ui, by which some know it."""
        return [
            Route("/web", _to_page, include_in_schema=False),
            Route("/ui", _to_page, include_in_schema=False),
            Route("/web-assets/plotly.min.js", _plotly, include_in_schema=False),
            Route("/favicon.ico", _icon, include_in_schema=False),
            Mount("/web-assets", StaticFiles(directory=ASSETS)),
            Route("/web/{rest:path}", self, methods=None, include_in_schema=False),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        check_open(scope)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        app = self._start()
        if path == "/web/" and not app.done():
            await HTMLResponse(_WAIT, headers={"cache-control": "no-store"})(scope, receive, send)
        else:
            # Cancelling one visitor's request must not cancel the building.
            with suppress(asyncio.CancelledError):  # a stream that is open when the server stops
                await (await asyncio.shield(app))(scope, receive, send)

    async def close(self) -> None:
        """End the page's background work, at shutdown."""
        self._stop.set()
        if self._living is not None:
            await asyncio.wait([self._living])

    def _start(self) -> asyncio.Future[ASGIApp]:
        if self._app is None:
            self._app = asyncio.get_running_loop().create_future()
            self._living = asyncio.create_task(self._live(self._app))
        return self._app

    async def _live(self, ready: asyncio.Future[ASGIApp]) -> None:
        try:
            app, life = await anyio.to_thread.run_sync(self._build)
        except Exception:  # noqa: BLE001 (whatever it is: visitors are told, and the API goes on)
            structlog.get_logger().exception("the page could not be built")
            ready.set_result(_broken)
            asyncio.get_running_loop().call_later(REBUILD_AFTER_S, self._forget)
            return
        async with life:
            ready.set_result(app)
            await self._stop.wait()

    def _forget(self) -> None:
        self._app = None

    def _build(self) -> Any:
        # The framework keeps what is being built in globals: two pages at once would mix.
        with _BUILDING:
            from server.dashboard.page import build_app

            styles = sorted(css.name for css in ASSETS.glob("*.css"))
            built = build_app(self._bound, self._bounds, self._services, styles)
        gc.collect()
        gc.freeze()
        return built


async def _to_page(request: Request) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '')}/web/")


async def _plotly(_request: Request) -> Response:
    """Plotly.js as the Python package ships it."""
    file = resources.files("plotly") / "package_data" / "plotly.min.js"
    return FileResponse(str(file), headers={"cache-control": "public, max-age=86400"})


async def _icon(_request: Request) -> Response:
    return FileResponse(ASSETS / "icon.svg", headers={"cache-control": "public, max-age=86400"})


async def _broken(scope: Scope, receive: Receive, send: Send) -> None:
    await HTMLResponse(_BROKEN, status_code=503)(scope, receive, send)
