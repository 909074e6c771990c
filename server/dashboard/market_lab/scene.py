"""The scene of a run of the Market lab: both sides' charts and tiles, and what happened when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

import numpy as np

from agents.market.duel import EVENT_HOURS, SHOCK_LIMITS, SURGE_ARRIVALS, Duel, Row
from agents.market.play import make_demand
from server.dashboard.drawing import chart_of, tile_of
from server.dashboard.market_lab.run import Run
from server.dashboard.scene import Action, Scene, Span, stretches
from server.dashboard.views.market import VIEW
from server.dashboard.views.view import Panel, Signal
from simulator.market.config import ScheduledEvent
from simulator.market.kernel import OPENING_HOURS, SCALE

__all__ = ["ACTIONS", "scene_of"]

ACTIONS = (
    Action(
        "surge",
        "Surge",
        f"From the hour shown on, {SURGE_ARRIVALS / SCALE:g} times the customers for {EVENT_HOURS} hours",
    ),
    Action(
        "shock",
        "Shock",
        f"From the hour shown on, new customers would pay {SHOCK_LIMITS / SCALE:g} times as much "
        f"for {EVENT_HOURS} hours",
    ),
)


def scene_of(run: Run, duel: Duel, start: int = 0) -> Scene:
    """What is drawn of a run.

    Args:
        run: that was played.
        duel: as it was played.
        start: hour to show first.
    """
    setup, names = run.setup, [side.name for side in duel.sides]
    sides = [_Columns(side.rows) for side in duel.sides]
    panels = [panel for panel in VIEW.panels if _field(panel.signals[0]) in Row.__slots__]
    return Scene(
        title=_title(run),
        sides=names,
        step_title=VIEW.step_title,
        steps=duel.hour,
        length=duel.hour,
        charts=[chart_of(panel, sides, names, _limits(panel, setup.scenario)) for panel in panels],
        tiles=[tile_of(panel, sides) for panel in panels],
        spans=[span for span in _spans(run) if span.first < duel.hour],
        start=start,
        actions=list(ACTIONS),
        run=uuid4().hex,
    )


def _title(run: Run) -> str:
    setup = run.setup
    rate = f"{setup.arrival_rate / SCALE:g} jobs/h"
    return f"{setup.scenario} · {setup.gpus} GPUs · {rate} · {run.hours} h · seed {run.seed}"


def _field(signal: Signal) -> str:
    """The row's field that a signal shows: the metrics of an episode are called alike."""
    return signal.path.rpartition(".")[2]


class _Columns:
    """Series of a side."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def values(self, signal: Signal) -> list[float | None]:
        return signal.series(getattr(row, _field(signal)) for row in self._rows)


def _limits(panel: Panel, scenario: str) -> Mapping[str, float]:
    return panel.limits(scenario, {}) if panel.limits else {}


def _spans(run: Run) -> Iterator[Span]:
    """The hours of surges and shocks, then those of the scenario's own events."""
    for press in run.presses:
        last = min(press.hour + EVENT_HOURS, run.hours)
        yield Span(press.hour + 0.5, last + 0.5, f"{press.kind} (pressed)", pressed=True)
    for number, event in enumerate(run.setup.events):
        for first, last in _hours_of(run, number):
            yield Span(first + 0.5, last + 0.5, f"{event.name} (scenario)")


def _hours_of(run: Run, number: int) -> Iterator[tuple[int, int]]:
    """First hour (from 0) of one of the scenario's events and the hour after its last: where demand differs
    from that without it."""
    quiet = tuple(replace(event, arrivals=SCALE, limits=SCALE) for event in run.setup.events)
    alone = (*quiet[:number], run.setup.events[number], *quiet[number + 1 :])
    with_it, without = (_demand(run, events) for events in (alone, quiet))
    differs = (with_it != without).any(axis=0)[OPENING_HOURS:]
    for first, last, _ in stretches("differs" if each else "" for each in differs):
        yield first, last


def _demand(run: Run, events: tuple[ScheduledEvent, ...]) -> np.ndarray:
    demand = make_demand(replace(run.setup, events=events), run.seed, run.hours)
    return np.asarray([demand.rates, demand.willing])
