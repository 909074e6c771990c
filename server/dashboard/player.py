"""The component that plays a scene in the browser."""

from __future__ import annotations

from typing import Any

import gradio as gr

from server.dashboard.components import scripts

__all__ = ["player"]

_TEMPLATE = """
<section class="ig-player" hidden aria-label="Run">
  <h2 class="ig-title"></h2>
  <div class="ig-controls">
    <button type="button" class="ig-toggle">Play</button>
    <label>Speed <select class="ig-speed" aria-label="Speed">
      <option value="2">2 steps/s</option><option value="10" selected>10 steps/s</option>
      <option value="30">30 steps/s</option><option value="100">100 steps/s</option>
    </select></label>
    <input class="ig-seek" type="range" min="0" value="0" aria-label="Step shown">
    <span class="ig-place"></span>
  </div>
  <div class="ig-actions"></div>
  <div class="ig-key"></div>
  <div class="ig-tiles"></div>
  <div class="ig-outcomes" hidden></div>
  <div class="ig-charts"></div>
</section>"""


def player() -> Any:
    """A component that takes ``Scene.to_json()`` as its value.

    The buttons of ``Scene.actions`` raise its event ``act``, whose data has ``id`` and ``step``: the button
    and the step that was shown. (Gradio would write a stub file beside a subclass.)
    """
    html: Any = gr.HTML  # its parameters are partly untyped
    return html(
        value=None,
        html_template=_TEMPLATE,
        js_on_load="inferenceGym.player(element, props, (what) => trigger('act', what), watch);",
        head=scripts("plotly.min.js", "charts.js", "player.js"),
        apply_default_css=False,
    )
