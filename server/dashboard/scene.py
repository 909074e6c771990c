"""What the page draws: charts, tiles and outcomes over the steps of a run, as JSON for ``assets/player.js``.

A scene holds a run from its first to its last step. The browser plays it: pause, speed and place are the
visitor's own, and the server keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any, Literal

__all__ = ["Action", "Chart", "Limit", "Line", "Outcome", "Scene", "Span", "Tile", "stretches"]

Values = list[float | None]


@dataclass(frozen=True, slots=True)
class Line:
    """A series, one value a step; ``side`` 0 or 1 gives its colour, ``dashed`` tells two of a side apart."""

    name: str
    values: Values
    side: int = 0
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """A horizontal line: an objective or a bound."""

    label: str
    value: float


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the x axis to be shaded; step k stands at k. What the visitor ``pressed`` has another
    shade. What befell one ``side`` alone has that side's colour, in its half of the chart."""

    first: float
    last: float
    label: str = "burst"
    pressed: bool = False
    side: int | None = None


def stretches(labels: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    """Place of the first, place after the last, and label of each run of one label; none of the label ""."""
    at = 0
    for label, run in groupby(labels):
        count = len(list(run))
        if label:
            yield at, at + count, label
        at += count


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over the steps. ``unit`` stands at the axis; "" for numbers without one."""

    title: str
    unit: str
    lines: list[Line]
    limits: list[Limit] = field(default_factory=list[Limit])
    log: bool = False


@dataclass(frozen=True, slots=True)
class Tile:
    """A value as it is at the step shown, for each side, and how the sides differ."""

    label: str
    unit: str
    digits: int
    values: list[Values]
    better: Literal["more", "less", ""] = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a side's run ended: its score, the parts of it, and the grader's sentence."""

    side: int
    name: str
    score: float
    parts: dict[str, float]
    sentence: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Action:
    """A button beside the player's controls; see :class:`server.dashboard.player.Player`."""

    id: str
    label: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """A run of one side or two.

    Args:
        title: what is played.
        sides: names of the sides.
        step_title: what a step is, with its unit, for the x axis, for example "simulated time (s)".
        steps: values in each line so far.
        length: steps of the whole run.
        done: whether ``steps`` is all there will be.
        start: step to show first.
        plays: whether it plays at once; if not, ``start`` is shown, of every further scene of the run too.
        actions: buttons.
        run: tells scenes of the same run, which grow while an agent plays, from those of another.
    """

    title: str
    sides: list[str]
    step_title: str
    steps: int
    length: int
    charts: list[Chart]
    tiles: list[Tile]
    spans: list[Span] = field(default_factory=list[Span])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    done: bool = True
    start: int = 0
    plays: bool = True
    actions: list[Action] = field(default_factory=list[Action])
    run: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain dictionaries and lists."""
        return asdict(self)
