"""The description of an environment's charts and tiles, and the one made for environments that have none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Any, Literal

from pydantic import BaseModel

from inferencegym.registry import EnvSpec, load

__all__ = ["REWARD", "Panel", "Signal", "View", "always", "view_of"]


@dataclass(frozen=True, slots=True)
class Signal:
    """A number of every step.

    Args:
        name: in the legend.
        path: where it stands, for example ``info.metrics.ttft_p50_ms``, ``observation.queue_depth``,
            ``reward``.
        fold: ``sum`` or ``mean`` of all steps so far instead of the step's own value.
        scale: factor, for example 100 for per cent.
        dashed: drawn dashed.
    """

    name: str
    path: str
    fold: Literal["", "sum", "mean"] = ""
    scale: float = 1.0
    dashed: bool = False

    def series(self, raw: Iterable[float | None]) -> list[float | None]:
        """What is drawn of the signal's own numbers, one a step; None where a step has none."""
        scaled = [None if value is None else self.scale * value for value in raw]
        if self.fold:
            sums = enumerate(accumulate(value or 0.0 for value in scaled), start=1)
            scaled = [total / count if self.fold == "mean" else total for count, total in sums]
        # More digits than anybody sees would only travel.
        return [None if value is None else float(f"{value:.7g}") for value in scaled]


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart, and with ``tile`` a tile of its first signal.

    ``limits`` gives labelled horizontal lines for a task id and the first step's info. What is ``shared`` is
    the same for both sides and is drawn once. ``unit_in`` gives the unit for a task id where tasks differ.
    """

    title: str
    unit: str
    signals: tuple[Signal, ...]
    limits: Callable[[str, Mapping[str, Any]], Mapping[str, float]] | None = None
    log: bool = False
    tile: bool = True
    digits: int = 0
    better: Literal["more", "less", ""] = ""
    shared: bool = False
    unit_in: Callable[[str], str] | None = None

    def of(self, task_id: str) -> Panel:
        """The panel with the unit of a task."""
        return replace(self, unit=self.unit_in(task_id)) if self.unit_in else self


@dataclass(frozen=True, slots=True)
class View:
    """What to draw of an environment.

    Args:
        step_title: what a step is, with its unit.
        panels: in order.
        span: label of the shading that a step's info asks for, "" for none.
        actions: labelled actions that OpenEnv's playground offers for one click, beside the default one.
        extra_tabs: further tabs of the page that belong to this environment, as title and
            ``"module:function"``; the function builds the tab's content inside a gradio context.
    """

    step_title: str
    panels: tuple[Panel, ...]
    span: Callable[[Mapping[str, Any]], str] = lambda info: ""
    actions: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    extra_tabs: tuple[tuple[str, str], ...] = ()


def always(limits: Mapping[str, float]) -> Callable[[str, Mapping[str, Any]], Mapping[str, float]]:
    """The same horizontal lines in every task."""
    return lambda _task_id, _info: limits


REWARD = Panel("Cumulative reward", "", (Signal("reward", "reward", fold="sum"),), digits=2, better="more")


@cache
def view_of(spec: EnvSpec) -> View:
    """The view named in the registry, or one of every number that the environment observes."""
    return load(spec.view) if spec.view else _plain_view(spec.part("observation_model"))


def _plain_view(observation: type[BaseModel]) -> View:
    kinds: tuple[Any, ...] = (int, float)
    numbers = [name for name, one in observation.model_fields.items() if one.annotation in kinds]
    panels = (
        Panel(name.replace("_", " ").capitalize(), "", (Signal(name, f"observation.{name}"),), tile=False)
        for name in numbers
    )
    return View("step", (REWARD, *panels))
