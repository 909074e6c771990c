"""What the Market lab's buttons Run, Surge and Shock do."""

from __future__ import annotations

from typing import Any

import gradio as gr

from agents.market.duel import EVENT_HOURS, Duel
from agents.market.policies import PriceParameters
from inferencegym.errors import InferenceGymError
from server.dashboard.door import costs_steps
from server.dashboard.download import file_of
from server.dashboard.market_lab.run import Run, checked_setup, too_late
from server.dashboard.market_lab.scene import scene_of
from server.dashboard.market_lab.tables import averages, parameters
from server.dashboard.message import NO_MESSAGE, message

__all__ = ["act", "play", "shown"]


@costs_steps(400)
def play(
    scenario: Any,
    gpus: Any,
    rate: Any,
    hours: Any,
    seed: Any,
    left: Any,
    right: Any,
    trained: PriceParameters | None,
    *objective: Any,
) -> tuple[Any, ...]:
    """Play a run from its beginning, without surges and shocks."""
    try:
        setup = checked_setup(scenario, gpus, rate, objective)
        run = Run.checked(setup, hours, seed, (left, right), trained)
    except InferenceGymError as error:
        return _refused(error)
    return shown(run, run.play())


@costs_steps(400)
def act(run: Run | None, event: gr.EventData) -> tuple[Any, ...]:
    """Play the run again with one more surge or shock, and show it from that hour on."""
    try:
        kind, hour = _pressed(event)
        run, duel = _pressed_run(run, kind, hour)
    except InferenceGymError as error:
        return _refused(error)
    last = min(hour + EVENT_HOURS, run.hours)
    return shown(run, duel, hour, f"{kind.capitalize()} in hours {hour + 1} to {last}.")


def _pressed_run(run: Run | None, kind: Any, hour: Any) -> tuple[Run, Duel]:
    if run is None:
        raise InferenceGymError(
            "This run is no longer kept: the server was restarted since, or many others came.",
            "Press Run to start anew.",
        )
    run = run.pressed(kind, hour)
    duel = run.play()
    if hour >= duel.hour:  # both markets died before
        raise too_late(kind)
    return run, duel


def _refused(error: InferenceGymError) -> tuple[Any, ...]:
    """The message; everything else stays as it is."""
    return gr.update(), message(error), gr.update(), gr.update(), gr.update()


def _pressed(event: gr.EventData) -> tuple[Any, Any]:
    data: Any = event
    return data.id, data.step


def shown(run: Run, duel: Duel, start: int = 0, status: str = "") -> tuple[Any, ...]:
    left, right = run.policies
    name = f"market_{run.setup.scenario}_seed{run.seed}_{left}_{right}.csv".replace(" ", "_")
    return (
        scene_of(run, duel, start).to_json(),
        f"<p class='ig-lab-status' role='status'>{status}</p>" if status else NO_MESSAGE,
        run,
        averages(run, duel) + parameters(run.setup, run.parameters()),
        file_of(name, duel.csv(), "text/csv"),
    )
