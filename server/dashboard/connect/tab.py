"""Connect: code to paste for this very address, and whether the server is well."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

import gradio as gr

from server.bound import BoundEnv
from server.dashboard.components import scripts
from server.dashboard.connect.snippets import Snippet, snippets_of

__all__ = ["CONNECT_HEAD", "connect_tab", "copy_block"]

CONNECT_HEAD = scripts("connect.js")
"""What makes the copy buttons work."""


def connect_tab(bound: BoundEnv, bounds: Sequence[BoundEnv]) -> None:
    """Builds the tab.

    The address is the browser's own: only it knows what stands before this server (a proxy, a Space, https).

    Args:
        bound: environment shown first; its mount is where the page is.
        bounds: all environments.
    """
    spec = bound.spec
    gr.HTML(
        _health_html(),
        js_on_load=f"inferenceGym.connect.health(element, {spec.mount!r});",
        head=CONNECT_HEAD,
        apply_default_css=False,
    )
    with gr.Row():
        choices = [(each.spec.title, each.spec.name) for each in bounds]
        environment = gr.Dropdown(choices, value=spec.name, label="Environment", filterable=False)
    gr.HTML(
        "".join(_section(each, shown=each is bound) for each in bounds),
        js_on_load=f"inferenceGym.connect.fill(element, {spec.mount!r});",
        head=CONNECT_HEAD,
        apply_default_css=False,
    )
    # In the browser alone: it works while the server does not.
    environment.change(None, environment, js="(name) => { inferenceGym.connect.show(name); }", queue=False)


def copy_block(text: str, language: str, label: str) -> str:
    """A text with a button that copies it, as HTML; ``label`` says what is copied to those who do not see."""
    return (
        f'<div class="ig-code"><div class="ig-code-bar"><span>{language}</span>'
        f'<button type="button" class="ig-copy" title="Copy {escape(label)}">Copy</button></div>'
        f'<pre tabindex="0" role="region" aria-label="{escape(label)}"><code>{escape(text)}</code></pre>'
        "</div>"
    )


def _section(bound: BoundEnv, *, shown: bool) -> str:
    spec = bound.spec
    address = (
        f'<p class="ig-address">{escape(spec.title)} is at <code>{{server}}{escape(spec.mount)}</code>, '
        f'its API in full at <a href="{{server}}{escape(spec.mount)}/docs">/docs</a>.</p>'
    )
    blocks = "".join(_block(snippet, spec.title) for snippet in snippets_of(bound))
    hidden = "" if shown else " hidden"
    return f'<section class="ig-snippets" data-env="{spec.name}"{hidden}>{address}{blocks}</section>'


def _block(snippet: Snippet, title: str) -> str:
    needs = re.sub("`(.+?)`", r"<code>\1</code>", escape(snippet.needs))
    return (
        f'<section class="ig-snippet"><h3>{escape(snippet.title)}</h3><p>{needs}</p>'
        f"{copy_block(snippet.text, snippet.language, f'{snippet.title} code for {title}')}</section>"
    )


def _health_html() -> str:
    tiles = "".join(
        f'<div class="ig-tile"><dt class="ig-tile-label">{label}</dt>'
        f'<dd class="ig-tile-value" data-field="{field}">–</dd></div>'
        for label, field in (
            ("Status", "status"),
            ("Version", "version"),
            ("Up for", "uptime_s"),
            ("Active sessions", "active_sessions"),
        )
    )
    return (
        '<section class="ig-health" data-state="asking" aria-label="Health of this server">'
        '<p class="ig-health-words" role="status">Asking the server …</p>'
        f'<dl class="ig-tiles">{tiles}</dl>'
        '<p class="ig-health-when"></p></section>'
    )
