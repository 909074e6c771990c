"""The scene of a run of the Market lab: both sides' charts and tiles, and what happened when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from uuid import uuid4

import numpy as np

from agents.market_duel import EVENT_HOURS, SHOCK_LIMITS, SURGE_ARRIVALS, Duel, Row
from agents.market_play import make_demand
from server.dashboard.market_lab.run import Run
from server.dashboard.scene import Action, Chart, Limit, Line, Scene, Span, Tile
from server.dashboard.views.market import VIEW
from server.dashboard.views.view import Panel
from simulator.market_config import MarketSetup, ScheduledEvent
from simulator.market_kernel import OPENING_HOURS, SCALE

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
    sides = [side.rows for side in duel.sides]
    panels = [panel for panel in VIEW.panels if _field(panel) in Row.__slots__]
    return Scene(
        title=_title(run),
        sides=names,
        step_title=VIEW.step_title,
        steps=duel.hour,
        length=duel.hour,
        charts=[_chart(panel, sides, names, setup) for panel in panels],
        tiles=[
            Tile(
                panel.title, panel.unit, panel.digits, [_values(panel, rows) for rows in sides], panel.better
            )
            for panel in panels
        ],
        spans=[span for span in _spans(run) if span.first < duel.hour],
        start=start,
        actions=list(ACTIONS),
        run=uuid4().hex,
    )


def _title(run: Run) -> str:
    setup = run.setup
    rate = f"{setup.arrival_rate / SCALE:g} jobs/h"
    return f"{setup.scenario} · {setup.gpus} GPUs · {rate} · {run.hours} h · seed {run.seed}"


def _field(panel: Panel) -> str:
    """The row's field that a panel shows: the metrics of an episode are called alike."""
    return panel.signals[0].path.rpartition(".")[2]


def _values(panel: Panel, rows: Sequence[Row]) -> list[float | None]:
    signal = panel.signals[0]
    values: list[float] = [signal.scale * getattr(row, _field(panel)) for row in rows]
    if signal.fold == "sum":
        values = list(accumulate(values))
    # More digits than anybody sees would only travel.
    return [float(f"{value:.7g}") for value in values]


def _chart(panel: Panel, sides: Sequence[Sequence[Row]], names: Sequence[str], setup: MarketSetup) -> Chart:
    lines = [
        Line(name, _values(panel, rows), side)
        for side, (name, rows) in enumerate(zip(names, sides, strict=True))
    ]
    limits = panel.limits(setup.scenario, {}).items() if panel.limits else ()
    return Chart(panel.title, panel.unit, lines, [Limit(*one) for one in limits], panel.log)


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
    differs = (with_it != without).any(axis=0)[OPENING_HOURS:].tolist()
    at = 0
    for active, hours in groupby(differs):
        count = len(list(hours))
        if active:
            yield at, at + count
        at += count


def _demand(run: Run, events: tuple[ScheduledEvent, ...]) -> np.ndarray:
    demand = make_demand(replace(run.setup, events=events), run.seed, run.hours)
    return np.asarray([demand.rates, demand.willing])
