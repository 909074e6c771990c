"""Pictures of an episode: some lines of text, or a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from env.protocols import TaskInfo
from inferencegym.errors import InferenceGymError
from inferencegym.gym.codec import GymCodec, Panel

__all__ = ["Frame", "draw_chart", "draw_text"]

_WIDTH_IN, _ROW_IN, _DPI = 8.0, 1.5, 80
_COLUMNS = 2
_NOTHING_YET = "Nothing to show before the first step."


@dataclass(frozen=True, slots=True)
class Frame:
    """One step, as it is drawn."""

    action: BaseModel
    reward: float
    metrics: Mapping[str, Any]

    def value(self, key: str) -> float:
        """A number of this step; not a number where there is none."""
        return self.reward if key == "reward" else float(self.metrics.get(key, np.nan))


def _title(task: TaskInfo, frames: Sequence[Frame]) -> str:
    total = sum(frame.reward for frame in frames)
    return f"{task.id} {task.name}: step {len(frames)} of {task.episode_length}, reward so far {total:.2f}"


def draw_text(task: TaskInfo, codec: GymCodec, frames: Sequence[Frame]) -> str:
    """The last step as text."""
    lines = [_title(task, frames)]
    if frames:
        last = frames[-1]
        action = ", ".join(f"{name}={_plain(value)}" for name, value in last.action)
        lines.append(f"action: {action}")
        lines += [f"{panel.label:>28}  {last.value(panel.key):.4g}" for panel in codec.panels]
    else:
        lines.append(_NOTHING_YET)
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(getattr(value, "name", value))


def draw_chart(task: TaskInfo, codec: GymCodec, frames: Sequence[Frame]) -> npt.NDArray[np.uint8]:
    """The episode so far: one small chart for each panel of the codec, over the steps."""
    try:
        backend = import_module("matplotlib.backends.backend_agg")
        figures = import_module("matplotlib.figure")
    except ImportError:
        raise InferenceGymError(
            "render_mode 'rgb_array' needs matplotlib.", 'Install it: pip install "inferencegym[demo]".'
        ) from None
    rows = -(-len(codec.panels) // _COLUMNS)
    figure: Any = figures.Figure(figsize=(_WIDTH_IN, 0.5 + rows * _ROW_IN), dpi=_DPI, layout="constrained")
    canvas: Any = backend.FigureCanvasAgg(figure)
    figure.suptitle(_title(task, frames), fontsize=10)
    axes: list[Any] = figure.subplots(rows, _COLUMNS, sharex=True, squeeze=False).ravel().tolist()
    for panel, axis in zip(codec.panels, axes, strict=False):
        _draw_panel(axis, panel, frames, task.episode_length)
    if not frames:
        figure.text(0.5, 0.5, _NOTHING_YET, ha="center", va="center", fontsize=11, backgroundcolor="white")
    for axis in axes[len(codec.panels) :]:
        axis.set_axis_off()
    for axis in axes[-_COLUMNS:]:
        axis.set_xlabel("step", fontsize=8)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def _draw_panel(axis: Any, panel: Panel, frames: Sequence[Frame], length: int) -> None:
    values = [frame.value(panel.key) for frame in frames]
    # A line through one point cannot be seen.
    marker = "o" if len(values) == 1 else None
    axis.plot(cast("Any", range(1, len(values) + 1)), values, linewidth=1.2, marker=marker, markersize=3)
    axis.set_title(panel.label, fontsize=8, loc="left", pad=2)
    axis.set_xlim(0, length)
    axis.tick_params(labelsize=7)
    axis.grid(visible=True, alpha=0.3)
    if panel.log and values and min(values) > 0.0:
        axis.set_yscale("log")
