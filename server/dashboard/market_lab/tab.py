"""Market lab: two pricing policies on the same customers, surges and shocks at the press of a button, and a
genetic algorithm that trains a visitor's own policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from server.bound import BoundEnv
from server.dashboard.download import download_button
from server.dashboard.market_lab.objective import objective_inputs, objective_of
from server.dashboard.market_lab.playing import act, play
from server.dashboard.market_lab.report import ENGINE
from server.dashboard.market_lab.retrain import (
    COMPILED,
    GENERATIONS_MAX,
    LIMITS,
    POPULATION_MAX,
    POPULATION_MIN,
)
from server.dashboard.market_lab.run import CHOICES, HOURS_MAX, HOURS_MIN
from server.dashboard.market_lab.training import STARTS, cancelled, train
from server.dashboard.message import NO_MESSAGE
from server.dashboard.player import player
from server.dashboard.typed import seed_field
from simulator.market.config import load_market
from simulator.market.kernel import SCALE

__all__ = ["market_lab_tab"]

RUNS_AT_ONCE = 4
FIRST_SCENARIO = "surge"


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
        seed = seed_field(0, "Seed of the customers", min_width=150)
    with gr.Row():
        left = gr.Dropdown(
            list(CHOICES), value="rule", label="Left policy", min_width=150, allow_custom_value=True
        )
        right = gr.Dropdown(
            list(CHOICES), value="evolved", label="Right policy", min_width=150, allow_custom_value=True
        )
        start = gr.Button("Run", variant="primary", min_width=110, elem_classes="ig-go")
    objective = objective_inputs(FIRST_SCENARIO)
    about = gr.Markdown(describe(FIRST_SCENARIO), elem_classes="ig-about")
    said = gr.HTML(NO_MESSAGE)
    shown = player()
    tables = plain_html()
    csv = download_button("Save all hours as CSV")
    current, trained = gr.State(None), gr.State(None)
    run_outputs: list[Any] = [shown, said, current, tables, csv]
    market: list[Any] = [scenario, gpus, rate, hours, seed]

    scenario.input(_scenario_numbers, scenario, [gpus, rate, about, *objective])
    start.click(
        play,
        [*market, left, right, trained, *objective],
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
    _training_part([*market, trained], objective, [trained, left, right, *run_outputs])


def _training_part(market: list[Any], objective: list[Any], results: list[Any]) -> None:
    gr.Markdown(
        "### Train a policy for this market\nA genetic algorithm searches the five parameters of the price "
        f"policy on {LIMITS.seeds} training seeds of the scenario, GPUs, arrival rate, length and objective "
        f"chosen above. The result is yours alone and is gone when you leave. {ENGINE}",
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
        [*market, generations, population, begin, *objective],
        [progress, standing, *buttons, *results],
        # Who waits for their turn only sleeps; the queue is in retrain.py.
        concurrency_limit=None,
        show_progress="hidden",
    )
    cancel.click(cancelled, None, [progress, *buttons], cancels=[training], show_progress="hidden")


def plain_html() -> Any:
    """A component for HTML that brings its own looks."""
    html: Any = gr.HTML  # its parameters are partly untyped
    return html("", apply_default_css=False)


def _scenario_numbers(scenario: str) -> tuple[Any, ...]:
    """GPUs, arrival rate, description and objective of a scenario."""
    found = load_market().scenarios.get(scenario)
    if found is None:
        return gr.update(), gr.update(), "", *(gr.update() for _ in objective_of(FIRST_SCENARIO))
    return found.gpus, found.arrival_rate, describe(scenario), *objective_of(scenario)


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
