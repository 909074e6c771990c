"""GET /docs: Swagger UI from this machine. FastAPI's own page loads it from a CDN and is blank offline."""

from __future__ import annotations

from importlib.resources import files

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

__all__ = ["ASSETS_PATH", "add_docs_page"]

ASSETS_PATH = "/docs-assets"

_ASSETS = files("fastapi_offline") / "static"
"""Swagger UI as that package ships it; nothing else of it is used."""


def add_docs_page(app: FastAPI) -> None:
    """Serve the page at /docs and its script and style below ``ASSETS_PATH``, under the app's own mount."""

    async def docs(request: Request) -> Response:
        root = request.scope.get("root_path", "")
        return get_swagger_ui_html(
            openapi_url=f"{root}/openapi.json",
            title=app.title,
            swagger_js_url=f"{root}{ASSETS_PATH}/swagger-ui-bundle.js",
            swagger_css_url=f"{root}{ASSETS_PATH}/swagger-ui.css",
            swagger_favicon_url=f"{root}{ASSETS_PATH}/favicon.png",
        )

    app.router.routes.append(Mount(ASSETS_PATH, app=StaticFiles(directory=str(_ASSETS))))
    app.add_route("/docs", docs, methods=["GET"], include_in_schema=False)
