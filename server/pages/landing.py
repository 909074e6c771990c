"""The address without a path: JSON for programs, for people the page at /web or, without it, a short one."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from env.protocols import listed_tasks
from server.api.raw import Handler, json_response
from server.bound import BoundEnv

__all__ = ["landing_page"]

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem;color:#1b1f24}"
    "pre{background:#f4f5f7;padding:1rem;overflow-x:auto;border-radius:6px}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem .3rem 0;"
    "vertical-align:top;border-bottom:1px solid #e3e6ea}a{color:#0b57d0}"
    "@media(prefers-color-scheme:dark){body{background:#14171a;color:#e6e8ea}pre{background:#1f2429}"
    "td,th{border-color:#30363d}a{color:#8ab4f8}}"
)


def landing_page(bound: BoundEnv, others: Sequence[BoundEnv], web: bool) -> Handler:
    """GET /: for browsers on to /web, JSON for programs, by the Accept header.

    Args:
        bound: the environment at this mount.
        others: environments at other mounts, to be listed.
        web: whether there is a /web.
    """

    async def landing(request: Request) -> Response:
        root = request.scope.get("root_path", "")
        if "text/html" not in request.headers.get("accept", ""):
            return json_response(_summary(bound, others, root, web))
        if web:
            return RedirectResponse(f"{root}/web/", headers={"vary": "accept"})
        return HTMLResponse(_landing_html(bound, others, root))

    return landing


def _summary(bound: BoundEnv, others: Sequence[BoundEnv], root: str, web: bool) -> dict[str, Any]:
    return {
        "id": bound.spec.id,
        "title": bound.spec.title,
        "description": bound.spec.description,
        "version": bound.spec.version,
        "docs": f"{root}/docs",
        "openapi": f"{root}/openapi.json",
        **({"web": f"{root}/web"} if web else {}),
        "tasks": list(listed_tasks(bound.tasks)),
        "other_environments": {other.spec.id: other.spec.mount or "/" for other in others},
    }


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)} · InferenceGym</title><style>{_STYLE}</style></head>"
        f"<body>{body}</body></html>"
    )


def _landing_html(bound: BoundEnv, others: Sequence[BoundEnv], root: str) -> str:
    spec = bound.spec
    body = (
        f"<h1>InferenceGym</h1><p>Environments in which an agent learns to run LLM inference, over plain "
        f"HTTP, on a CPU, with physics taken from measured GPUs.</p>"
        f"<h2>{html.escape(spec.title)} <small>{html.escape(spec.id)}</small></h2>"
        f"<p>{html.escape(spec.description)}</p>{_tasks_html(bound)}"
        f'<p><a href="{root}/docs">API documentation</a> · <a href="{root}/info">Schemas and '
        f'provenance</a> · <a href="{root}/baseline">Baseline scores</a></p>'
    )
    if others:
        links = "".join(
            f'<li><a href="{other.spec.mount}/">{html.escape(other.spec.title)}</a>: '
            f"{html.escape(other.spec.description)}</li>"
            for other in others
        )
        body += f"<h2>Other environments</h2><ul>{links}</ul>"
    return _page(spec.title, body)


def _tasks_html(bound: BoundEnv) -> str:
    rows = "".join(
        f"<tr><td><code>{html.escape(task.id)}</code></td><td>{html.escape(task.name)}</td>"
        f"<td>{task.difficulty}</td><td>{html.escape(task.description)}</td></tr>"
        for task in listed_tasks(bound.tasks).values()
    )
    return f"<table><tr><th>task</th><th>name</th><th></th><th></th></tr>{rows}</table>"
