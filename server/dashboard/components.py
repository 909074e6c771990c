"""Components that several tabs have, and how they load what is served at ../web-assets/."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from env.protocols import TaskInfo
from inferencegym.registry import EnvSpec

__all__ = ["environment_field", "id_and_name", "scripts"]


def environment_field(specs: Sequence[EnvSpec], chosen: EnvSpec, min_width: int = 180) -> Any:
    """A field that names the environments and gives the id of one."""
    choices = [(spec.title, spec.id) for spec in specs]
    return gr.Dropdown(choices, value=chosen.id, label="Environment", min_width=min_width)


def id_and_name(task: TaskInfo) -> tuple[str, str]:
    """Label and value of a task in a field."""
    return f"{task.id} · {task.name}", task.id


def scripts(*names: str) -> str:
    """What loads these scripts, in this order and each once a page."""
    return "".join(f'<script src="../web-assets/{name}"></script>' for name in names)
