"""The whole page: OpenEnv's web interface, whose hook for a custom interface gets our tabs."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

# Gradio asks at import time whether it may send usage data and look for newer versions.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import gradio as gr
import structlog
from gradio import queueing
from openenv.core.env_server import web_interface
from openenv.core.env_server.gradio_ui import build_gradio_app

from inferencegym.registry import load
from server.bound import BoundEnv
from server.dashboard.compare import compare_tab
from server.dashboard.connect.tab import connect_tab
from server.dashboard.door import PageDoor, prices, seal
from server.dashboard.play.tab import play_tab
from server.dashboard.playground import PlaygroundEnvironment
from server.dashboard.views.view import view_of
from server.dashboard.watch.tab import watch_tab
from server.openenv.adapter import make_environment
from server.services import Services

__all__ = ["build_app"]

TITLE = "InferenceGym"

WAITING_MAX = 100
"""Calls of the page's functions that may wait for their turn; one more is told that the page is busy."""


class _OneLine:
    """Where the framework prints a traceback, with what a visitor sent: a line of the log."""

    @staticmethod
    def print_exc() -> None:
        error = sys.exception()
        where = traceback.extract_tb(error.__traceback__)[-1] if error else None
        structlog.get_logger().warning(
            "page_function_failed",
            error=type(error).__name__,
            detail=str(error)[:200],
            where=f"{where.filename}:{where.lineno}" if where else "",
        )


def build_app(
    bound: BoundEnv, bounds: Sequence[BoundEnv], services: Services, styles: Sequence[str]
) -> tuple[PageDoor, AbstractAsyncContextManager[Any]]:
    """The ASGI application that serves /web/ and everything below it, and what lives as long as it does.

    Args:
        bound: the environment at this mount: preselected, and that of the playground.
        bounds: all environments.
        services: of the server.
        styles: names of the style sheets below ../web-assets/.
    """
    head = "".join(f'<link rel="stylesheet" href="../web-assets/{name}">' for name in styles)
    cast("Any", queueing).traceback = _OneLine
    # Web fonts would be fetched from elsewhere; the theme's next choice is the system's own.
    vars(web_interface.OPENENV_GRADIO_THEME)["_stylesheets"] = []
    environment = make_environment(bound, services.sessions, services.costs)
    playground = PlaygroundEnvironment(environment, services.settings.max_sockets)

    built: list[gr.Blocks] = []

    def tabs(manager: Any, fields: Any, _metadata: Any, is_chat: bool, title: str, _quick: str) -> gr.Blocks:
        with gr.Blocks(title=title, analytics_enabled=False) as page:
            page.queue(max_size=WAITING_MAX)
            # Gradio keeps what 10,000 visitors last saw, a megabyte and more each, present or not.
            page.state_session_capacity = services.settings.max_sessions
            gr.HTML(_header(bounds), head=head)
            with gr.Tabs():
                with _tab("Watch"):
                    play, inputs, outputs = watch_tab(bound, bounds, services.settings.web_llm)
                with _tab("Play"):
                    play_tab(bound, bounds)
                with _tab("Compare"):
                    compare_tab(bound, bounds)
                for name, where in _extra_tabs(bounds):
                    with _tab(name):
                        load(where)(bound, bounds)
                with _tab("Connect"):
                    connect_tab(bound, bounds)
                with gr.Tab("Playground"):
                    build_gradio_app(manager, fields, playground.get_metadata(), is_chat, title)
            # Something moves before anybody has chosen anything.
            page.load(play, inputs, outputs, concurrency_limit=None)

            def leave(request: gr.Request) -> None:
                playground.forget(str(request.session_hash))

            page.unload(leave)
        built.append(page)
        return page

    # It is typed for an instance but wants a factory.
    create: Any = vars(web_interface)["create_web_interface_app"]
    app = create(
        lambda: playground,
        environment.models.action,
        environment.models.observation,
        env_name=bound.spec.name,
        state_cls=environment.models.state,
        max_concurrent_envs=1,
        gradio_builder=tabs,
        show_default_tab=False,
        title_override=f"{TITLE} · {bound.spec.title}",
    )
    seal(built[0])
    return PageDoor(app, services.costs, prices(built[0])), app.router.lifespan_context(app)


def _extra_tabs(bounds: Sequence[BoundEnv]) -> Iterator[tuple[str, str]]:
    for each in bounds:
        yield from view_of(each.spec).extra_tabs


def _tab(name: str) -> Any:
    """A tab of ours, which dashboard.css knows from OpenEnv's."""
    return gr.Tab(name, elem_classes="ig-tab")


def _header(bounds: Sequence[BoundEnv]) -> str:
    return (
        f'<header class="ig-header"><h1>{TITLE}</h1>'
        "<p>Where agents learn to run LLM inference. Physics from measured GPUs, on a CPU.</p></header>"
    )
