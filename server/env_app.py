"""The application of one environment: REST endpoints, OpenEnv's endpoints, pages, one OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import Mount

from server.api.errors import install_handlers
from server.api.pipeline import GymApp
from server.api.routes import add_rest_routes
from server.api.schemas import ErrorReply
from server.bound import BoundEnv
from server.dashboard.mount import WebPage
from server.openenv.routes import OpenEnvRoutes, openenv_routes
from server.pages.docs_page import add_docs_page
from server.pages.landing import landing_page
from server.services import Services

__all__ = ["build_env_app"]

_DESCRIPTION = """{description}

Start an episode with `POST /reset`, act with `POST /step`, grade with `POST /grader`. Errors are
`{{"error": {{"code", "message", "hint"}}}}`. OpenEnv clients use the WebSocket at `/ws`."""


def build_env_app(
    bound: BoundEnv, others: Sequence[BoundEnv], services: Services, mounts: Sequence[Mount] = ()
) -> tuple[GymApp, OpenEnvRoutes]:
    """The application of ``bound``.

    Args:
        bound: the environment.
        others: environments at other mounts, linked from the landing page.
        services: shared by all environments of the server.
        mounts: applications of other environments to be served below this one.
    """
    spec = bound.spec
    app = GymApp(
        title=f"InferenceGym · {spec.title}",
        version=spec.version,
        description=_DESCRIPTION.format(description=spec.description),
        docs_url=None,
        redoc_url=None,
        # FastAPI's own OpenTelemetry hooks: asking at every request whether they are wanted is not free.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    install_handlers(app)
    add_rest_routes(app, bound, services)
    # Before OpenEnv's Task API, whose paths start with a parameter and would match a mount's name.
    app.router.routes.extend(mounts)
    openenv = openenv_routes(bound, services)
    services.socket_counts.append(openenv.count_sessions)
    web = services.settings.web
    app.add_route("/", landing_page(bound, others, web), methods=["GET"], include_in_schema=False)
    add_docs_page(app)
    app.router.routes.extend(openenv.routes)
    if web:
        # After the Task API: /web/splits asks for an environment of that name, which there is not.
        page = WebPage(bound, [bound, *others], services)
        app.router.routes.extend(page.routes())
        openenv.on_shutdown.append(page.close)
    app.openapi = lambda: _document(app)
    return app, openenv


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, in which every error has the one format."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        schemas = document["components"]["schemas"]
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        error = {"schema": {"$ref": f"#/components/schemas/{ErrorReply.__name__}"}}
        for path, operations in document["paths"].items():
            for operation in operations.values():
                _use_error_format(cast("dict[str, Any]", operation), path, {"application/json": error})
        app.openapi_schema = document
    return app.openapi_schema


def _use_error_format(operation: dict[str, Any], path: str, content: dict[str, Any]) -> None:
    responses = operation["responses"]
    responses.setdefault("429", {"description": "Rate limit"})
    if "{" in path:
        responses.setdefault("400", {"description": "Bad index"})
        responses.setdefault("404", {"description": "Unknown environment"})
    if "requestBody" in operation or path == "/mcp":
        responses.setdefault("413", {"description": "Body too large"})
        responses.setdefault("415", {"description": "Body compressed or not declared as JSON"})
    if path == "/mcp":
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": _JSON_RPC}}}
    for status, response in responses.items():
        if status.startswith("4"):
            response["content"] = content
    if path == "/mcp":
        responses["202"] = {"description": "A notification; there is no answer"}
        rpc_error = {"application/json": {"schema": {"type": "object", "required": ["jsonrpc", "error"]}}}
        responses["404"] = {"description": "The Mcp-Session-Id is unknown", "content": rpc_error}


_JSON_RPC = {
    "type": "object",
    "title": "JsonRpcRequest",
    "required": ["jsonrpc", "method"],
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "method": {"type": "string"},
        "params": {"type": "object"},
        "id": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    },
}
