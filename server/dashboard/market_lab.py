"""Market lab: two pricing policies on the same customers, surges and shocks at the press of a button, and a
genetic algorithm that trains a visitor's own policy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

import gradio as gr

from agents.market_duel import EVENT_HOURS, Duel
from agents.market_play import POLICIES
from agents.market_policies import PriceParameters
from inferencegym.errors import InferenceGymError, UnknownNameError
from server.bound import BoundEnv
from server.dashboard.download import download_button, file_of
from server.dashboard.market_lab_run import (
    HOURS_MAX,
    HOURS_MIN,
    RETRAINED,
    Run,
    checked_number,
    checked_setup,
    too_late,
)
from server.dashboard.market_lab_scene import scene_of
from server.dashboard.market_lab_tables import averages, parameters
from server.dashboard.market_lab_training import ENGINE, bar, report
from server.dashboard.market_retrain import (
    BEAT_S,
    COMPILED,
    GENERATIONS_MAX,
    LIMITS,
    POPULATION_MAX,
    POPULATION_MIN,
    check_size,
    retrain,
)
from server.dashboard.market_retrain_worker import Order, Trained
from server.dashboard.message import NO_MESSAGE, message
from server.dashboard.player import player
from simulator.market_config import load_market
from simulator.market_kernel import SCALE

__all__ = ["act", "market_lab_tab", "play", "train"]

RUNS_AT_ONCE = 4
RESULTS = 8
"""Outputs of a finished training: the policy, both choices, and those of a run."""
FIRST_SCENARIO = "surge"
STARTS = {"the evolved policy": "evolved", "the untrained policy": "untrained"}


def market_lab_tab(bound: BoundEnv, bounds: Sequence[BoundEnv]) -> None:
    """Builds the tab."""
    first = load_market().scenarios[FIRST_SCENARIO]
    with gr.Row():
        scenario = gr.Dropdown(
            list(load_market().scenarios),
            value=FIRST_SCENARIO,
            label="Scenario",
            min_width=150,
            allow_custom_value=True,
        )
        gpus = gr.Number(first.gpus, label="GPUs", min_width=110)
        rate = gr.Number(first.arrival_rate, label="Arrival rate (jobs/h)", min_width=150)
        hours = gr.Number(200, label="Length (h)", min_width=110)
        seed = gr.Number(0, label="Seed of the customers", min_width=150)
    with gr.Row():
        left = gr.Dropdown(
            list(POLICIES), value="rule", label="Left policy", min_width=150, allow_custom_value=True
        )
        right = gr.Dropdown(
            list(POLICIES), value="evolved", label="Right policy", min_width=150, allow_custom_value=True
        )
        start = gr.Button("Run", variant="primary", min_width=110, elem_classes="ig-go")
    about = gr.Markdown(describe(FIRST_SCENARIO), elem_classes="ig-about")
    said = gr.HTML(NO_MESSAGE)
    shown = player()
    tables = plain_html()
    csv = download_button("Save all hours as CSV")
    current, trained = gr.State(None), gr.State(None)
    run_outputs: list[Any] = [shown, said, current, tables, csv]
    market: list[Any] = [scenario, gpus, rate, hours, seed]

    scenario.input(_scenario_numbers, scenario, [gpus, rate, about])
    start.click(
        play,
        [*market, left, right, trained],
        run_outputs,
        concurrency_limit=RUNS_AT_ONCE,
        concurrency_id="lab",
    )
    shown.act(
        act,
        current,
        run_outputs,
        concurrency_limit=RUNS_AT_ONCE,
        concurrency_id="lab",
        show_progress="hidden",
    )
    _training_part([*market, trained], [trained, left, right, *run_outputs])


def _training_part(market: list[Any], results: list[Any]) -> None:
    gr.Markdown(
        "### Train a policy for this market\nA genetic algorithm searches the five parameters of the price "
        f"policy on {LIMITS.seeds} training seeds of the scenario, GPUs, arrival rate and length chosen "
        f"above. The result is yours alone and is gone when you leave. {ENGINE}",
        elem_classes="ig-about",
    )
    with gr.Row():
        generations = gr.Number(
            LIMITS.generations, label="Generations", info=f"1 to {GENERATIONS_MAX}", min_width=130
        )
        population = gr.Number(
            LIMITS.population,
            label="Population (candidates)",
            info=f"{POPULATION_MIN} to {POPULATION_MAX}",
            min_width=150,
        )
        begin = gr.Dropdown(
            list(STARTS),
            # A small search does not come near the evolved policy from elsewhere.
            value=next(name for name, start in STARTS.items() if (start == "untrained") == COMPILED),
            label="Search starts from",
            info="the others of its first population are drawn",
            min_width=180,
            allow_custom_value=True,
        )
    with gr.Row():
        go = gr.Button("Apply scenario and retrain", variant="primary", min_width=200)
        cancel = gr.Button("Cancel training", interactive=False, min_width=140)
    progress, standing = plain_html(), plain_html()
    buttons: list[Any] = [go, cancel]
    training = go.click(
        train,
        [*market, generations, population, begin],
        [progress, standing, *buttons, *results],
        # Who waits for their turn only sleeps; the queue is market_retrain's.
        concurrency_limit=None,
        show_progress="hidden",
    )
    cancel.click(_cancelled, None, [progress, *buttons], cancels=[training], show_progress="hidden")


def plain_html() -> Any:
    """A component for HTML that brings its own looks."""
    html: Any = gr.HTML  # its parameters are partly untyped
    return html("", apply_default_css=False)


def play(
    scenario: Any,
    gpus: Any,
    rate: Any,
    hours: Any,
    seed: Any,
    left: Any,
    right: Any,
    trained: PriceParameters | None,
) -> tuple[Any, ...]:
    """Play a run from its beginning, without surges and shocks."""
    try:
        run = Run.checked(checked_setup(scenario, gpus, rate), hours, seed, (left, right), trained)
    except InferenceGymError as error:
        return _refused(error)
    return _shown(run, run.play())


def act(run: Run | None, event: gr.EventData) -> tuple[Any, ...]:
    """Play the run again with one more surge or shock, and show it from that hour on."""
    try:
        kind, hour = _pressed(event)
        run, duel = _pressed_run(run, kind, hour)
    except InferenceGymError as error:
        return _refused(error)
    last = min(hour + EVENT_HOURS, run.hours)
    return _shown(run, duel, hour, f"{kind.capitalize()} in hours {hour + 1} to {last}.")


def _pressed_run(run: Run | None, kind: Any, hour: Any) -> tuple[Run, Duel]:
    if run is None:
        raise InferenceGymError(
            "This run is not known any more: the server was restarted since.", "Press Run to start anew."
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


def _shown(run: Run, duel: Duel, start: int = 0, status: str = "") -> tuple[Any, ...]:
    left, right = run.policies
    name = f"market_{run.setup.scenario}_seed{run.seed}_{left}_{right}.csv".replace(" ", "_")
    return (
        scene_of(run, duel, start).to_json(),
        f"<p class='ig-lab-status' role='status'>{status}</p>" if status else NO_MESSAGE,
        run,
        averages(run, duel) + parameters(run.setup, run.parameters()),
        file_of(name, duel.csv(), "text/csv"),
    )


class Wanted(NamedTuple):
    """What a visitor typed, and what they trained before."""

    scenario: Any
    gpus: Any
    rate: Any
    hours: Any
    seed: Any
    trained: PriceParameters | None
    generations: Any
    population: Any
    begin: Any


async def train(*values: Any) -> AsyncGenerator[tuple[Any, ...]]:
    """Train a policy on the chosen market, show how it comes along, then play it against the evolved one.

    Args:
        *values: see :class:`Wanted`.
    """
    wanted = Wanted(*values)
    try:
        order = _order(wanted)
        yield NO_MESSAGE, gr.update(), *_busy(), *_nothing()
        async with aclosing(retrain(order)) as steps:
            async for step in steps:
                if isinstance(step, Trained):
                    yield await asyncio.to_thread(_finished, wanted, order, step)
                else:
                    yield bar(step), gr.update(), gr.update(), gr.update(), *_nothing()
    except InferenceGymError as error:
        yield message(error), gr.update(), *_idle(), *_nothing()


def _finished(wanted: Wanted, order: Order, trained: Trained) -> tuple[Any, ...]:
    found = PriceParameters(*trained.parameters)
    run = Run.checked(order.setup(), wanted.hours, wanted.seed, ("evolved", RETRAINED), found)
    sides = (gr.update(choices=[*POLICIES, RETRAINED], value=name) for name in run.policies)
    return NO_MESSAGE, report(order, trained), *_idle(), found, *sides, *_shown(run, run.play())


def _order(wanted: Wanted) -> Order:
    setup = checked_setup(wanted.scenario, wanted.gpus, wanted.rate)
    # Refused now rather than after the training.
    run = Run.checked(setup, wanted.hours, wanted.seed, ("evolved", "untrained"), None)
    if wanted.begin not in STARTS:
        raise UnknownNameError("start", wanted.begin, STARTS)
    generations = checked_number("Generations", wanted.generations, 1, GENERATIONS_MAX, whole=True)
    population = checked_number(
        "Population (candidates)", wanted.population, POPULATION_MIN, POPULATION_MAX, whole=True
    )
    order = Order(
        scenario=setup.scenario,
        gpus=setup.gpus,
        arrival_rate=setup.arrival_rate / SCALE,
        hours=run.hours,
        generations=int(generations),
        population=int(population),
        seeds=LIMITS.seeds,
        compiled=COMPILED,
        start=STARTS[wanted.begin],
        before=None if wanted.trained is None else wanted.trained.values(),
    )
    check_size(order.generations, order.population, order.hours)
    return order


def _nothing() -> tuple[Any, ...]:
    """The outputs of a training that shows no result (yet)."""
    return tuple(gr.update() for _ in range(RESULTS))


def _busy() -> tuple[Any, Any]:
    return gr.update(interactive=False), gr.update(interactive=True)


def _idle() -> tuple[Any, Any]:
    return gr.update(interactive=True), gr.update(interactive=False)


async def _cancelled() -> tuple[Any, ...]:
    # What the training said last may still be on its way to the browser.
    await asyncio.sleep(BEAT_S)
    return (
        "<p class='ig-lab-status' role='status'>The training was cancelled; nothing was changed.</p>",
        *_idle(),
    )


def _scenario_numbers(scenario: str) -> tuple[Any, Any, Any]:
    """GPUs, arrival rate and description of a scenario."""
    found = load_market().scenarios.get(scenario)
    return (found.gpus, found.arrival_rate, describe(scenario)) if found else (gr.update(), gr.update(), "")


def describe(scenario: str) -> str:
    """What a scenario's market is like, in a few sentences."""
    files = load_market()
    found, setup = files.scenarios[scenario], files.setup(scenario)
    events = [
        f"{event.name} (once in {event.period_h} h for {event.duration_h} h: customers × {event.arrivals:g}, "
        f"what they would pay × {event.limits:g})"
        for event in found.events
    ]
    return (
        f"**{scenario}**: {found.gpus} {found.card} GPUs and {found.arrival_rate:g} jobs/h unless changed. "
        f"Half of the customers would pay {found.median_limit:g} USD per GPU-hour or more; prices are held "
        f"between {setup.min_price / SCALE:g} and {setup.max_price / SCALE:g}. A job needs "
        f"{setup.job_gpu_hours / SCALE:.1f} GPU-hours on average. "
        f"{'Events: ' + '; '.join(events) + '.' if events else 'No events.'} "
        f"A run has {HOURS_MIN} to {HOURS_MAX} h; the episodes of the tasks have 200 h."
    )
