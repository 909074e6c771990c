"""The endpoints that OpenEnv's own HTTPEnvServer serves: /ws, /mcp, /schema, /metadata and the Task API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import FastAPI
from fastapi.routing import APIRoute, APIWebSocketRoute
from openenv.core.env_server.types import ServerMode
from starlette.routing import BaseRoute

from server.api.raw import JsonOnly
from server.bound import BoundEnv
from server.openenv.adapter import make_environment
from server.openenv.mcp_protocol import McpInWs, McpPost, McpSocket
from server.openenv.server import EnvServer
from server.services import Services

__all__ = ["OpenEnvRoutes", "openenv_routes"]

_OWN_PATHS = frozenset({"/health", "/reset", "/step", "/state"})
"""Paths of OpenEnv that this server answers itself. OpenEnv's own /reset and /step would build a new
environment for every request."""


@dataclass(frozen=True)
class OpenEnvRoutes:
    """What OpenEnv contributes to an application."""

    routes: list[BaseRoute]
    on_startup: list[Callable[[], Awaitable[None]]]
    on_shutdown: list[Callable[[], Awaitable[None]]]
    count_sessions: Callable[[], int]


def openenv_routes(bound: BoundEnv, services: Services) -> OpenEnvRoutes:
    """/ws, /mcp, /schema, /metadata and the Task API, as OpenEnv's own server builds them.

    They are registered on an application of their own and taken over one by one, so that no path is
    served (or documented) twice. (OpenEnv's production mode leaves out /reset, /step and /state too, but
    takes half a second to ask whether the environment is a harness.)
    """
    environment = make_environment(bound, services.sessions, services.costs)
    server = EnvServer(environment, services.settings)
    scratch = FastAPI(openapi_url=None)
    server.register_routes(scratch, mode=ServerMode.SIMULATION)
    for route in scratch.router.routes:
        if isinstance(route, APIRoute) and route.path == "/mcp":
            route.app = McpPost(route.app, server, bound.spec)
        elif isinstance(route, APIRoute) and "POST" in (route.methods or ()):
            route.app = JsonOnly(route.app)
        elif isinstance(route, APIWebSocketRoute) and route.path == "/mcp":
            route.app = McpSocket(route.app, bound.spec)
        elif isinstance(route, APIWebSocketRoute) and route.path == "/ws":
            route.app = McpInWs(route.app, bound.spec)
    return OpenEnvRoutes(
        routes=[route for route in scratch.router.routes if getattr(route, "path", "") not in _OWN_PATHS],
        on_startup=list(scratch.router.on_startup),
        on_shutdown=list(scratch.router.on_shutdown),
        count_sessions=lambda: server.active_sessions,
    )
