"""A button that saves text as a file, in the browser."""

from __future__ import annotations

from html import escape
from typing import Any

import gradio as gr

from server.dashboard.components import scripts

__all__ = ["download_button", "file_of"]


def download_button(label: str) -> Any:
    """A component that takes what :func:`file_of` gives; hidden while it has nothing."""
    html: Any = gr.HTML  # its parameters are partly untyped
    return html(
        value=None,
        html_template=f'<button type="button" class="ig-button" hidden>{escape(label)}</button>',
        js_on_load="inferenceGym.download(element, props, watch);",
        head=scripts("download.js"),
        apply_default_css=False,
        elem_classes="ig-lab-save",
    )


def file_of(name: str, text: str, media_type: str) -> dict[str, str]:
    """A file by its name and content."""
    return {"name": name, "text": text, "type": media_type}
