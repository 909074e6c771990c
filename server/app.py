"""The application and its command line: ``python -m server.app``, or ``uvicorn server.app:app``."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import ValidationError

from inferencegym.errors import InferenceGymError
from inferencegym.registry import EnvSpec, all_specs
from server.operations.listening import why_not_listen
from server.operations.setting_checks import environment_problems
from server.operations.settings import Settings, told

if TYPE_CHECKING:
    from fastapi import FastAPI

    from server.bound import BoundEnv

__all__ = ["create_app", "main"]

SWITCH_INTERVAL_S = 0.0002
"""How long a thread that grades may keep the interpreter while a step waits for it. Python's default of 5 ms
would be ten times a step's time over HTTP."""

GC_THRESHOLDS = (20_000, 50, 100)
"""Python's default of (700, 10, 10) costs about 4 % of a step."""


def create_app(settings: Settings | None = None, specs: Sequence[EnvSpec] | None = None) -> FastAPI:
    """The server's ASGI application.

    Args:
        settings: by default read from the environment.
        specs: environments to serve, by default all of the registry; the one with mount "" is at "/".
    """
    # OpenEnv takes a second to import; whoever only imports this module does not pay.
    import anyio.to_thread
    from starlette.routing import Mount

    from server.openenv.light_openenv import import_openenv

    import_openenv()
    from server.bound import BoundEnv
    from server.env_app import build_env_app
    from server.operations.logs import configure_logging
    from server.services import Services

    settings = settings or Settings()
    log = configure_logging(settings.log_level)
    services = Services(settings)
    services.metrics.watch_log(lambda: log.dropped)
    bounds = [BoundEnv(spec) for spec in (all_specs() if specs is None else specs)]
    root = next(bound for bound in bounds if not bound.spec.mount)
    mounted = [
        (bound, *build_env_app(bound, [b for b in bounds if b is not bound], services))
        for bound in bounds
        if bound is not root
    ]
    app, openenv = build_env_app(
        root,
        [bound for bound, *_ in mounted],
        services,
        [Mount(bound.spec.mount, app=sub_app) for bound, sub_app, _ in mounted],
    )
    parts = [openenv, *(part for *_, part in mounted)]

    @asynccontextmanager
    async def lifespan(_app: Any) -> AsyncGenerator[None]:
        await anyio.to_thread.run_sync(_warm_up, bounds)
        for part in parts:
            for hook in part.on_startup:
                await hook()
        yield
        for part in parts:
            for hook in part.on_shutdown:
                await hook()

    app.router.lifespan_context = lifespan
    if settings.metrics:
        app.add_route("/metrics", services.metrics.endpoint, methods=["GET"], include_in_schema=False)
    app.put_behind(services)
    app.state.services = services
    return app


def _warm_up(bounds: Sequence[BoundEnv]) -> None:
    """Load every table before the first request, so that it is as fast as the second."""
    for bound in bounds:
        _ = bound.trial
    # The imported libraries are half a million objects that never go: keep the collector off them.
    gc.collect()
    gc.freeze()
    # What a step leaves behind is freed by its references; looking for cycles can wait longer.
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL_S)


def main() -> None:
    """Serve until interrupted. Settings come from environment variables; see the README."""
    import uvicorn

    logging.captureWarnings(True)  # Python would print them, and wait for who reads standard error
    try:
        settings = Settings()
    except ValidationError as error:
        _give_up(told(error))
    problems = environment_problems(web_llm=settings.web_llm)
    if problems:
        _give_up(problems)
    # Before the heavy part of the start, after which nobody looks for the reason any more.
    problem = why_not_listen(settings.host, settings.port)
    if problem:
        _give_up([problem])
    try:
        for spec in all_specs():
            spec.part("info")()
    except InferenceGymError as error:  # a setting of an environment, such as a trace pack that is not there
        _give_up([str(error)])
    from server.guard.connections import Connections, files_allowed
    from server.guard.guarded_http import protocols

    app = create_app(settings)
    connections = Connections(settings, files_allowed())
    app.state.services.metrics.registry.register(connections)
    uvicorn.run(
        app,
        host=settings.host,
        port=settings.port,
        **protocols(connections),
        ws_per_message_deflate=False,
        ws_max_size=settings.max_body_bytes,
        timeout_keep_alive=settings.keep_alive_s,
        timeout_graceful_shutdown=settings.shutdown_grace_s,
        forwarded_allow_ips=settings.forwarded_allow_ips,
        access_log=False,
        log_config=None,
        log_level=settings.log_level.lower(),
    )


def _give_up(lines: Sequence[str]) -> NoReturn:
    for line in lines:
        print(line, file=sys.stderr)  # noqa: T201
    raise SystemExit(2)


_made: dict[str, Any] = {}


def __getattr__(name: str) -> Any:
    """``server.app:app`` for uvicorn and OpenEnv: made when it is first asked for."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _made:
        _made[name] = create_app()
    return _made[name]


if __name__ == "__main__":
    main()
