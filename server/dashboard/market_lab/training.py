"""What the Market lab's buttons for training do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, NamedTuple

import gradio as gr

from agents.market.policies import PriceParameters
from inferencegym.errors import InferenceGymError, UnknownNameError
from server.dashboard.door import costs_steps
from server.dashboard.market_lab.objective import checked_objective
from server.dashboard.market_lab.playing import shown
from server.dashboard.market_lab.report import bar, report
from server.dashboard.market_lab.retrain import (
    BEAT_S,
    COMPILED,
    GENERATIONS_MAX,
    LIMITS,
    POPULATION_MAX,
    POPULATION_MIN,
    check_size,
    retrain,
)
from server.dashboard.market_lab.retrain_order import Order, Trained
from server.dashboard.market_lab.run import CHOICES, RETRAINED, Run, checked_setup
from server.dashboard.message import NO_MESSAGE, message
from server.dashboard.typed import checked_number
from server.guard.clients import visitor_of
from simulator.market.kernel import SCALE

__all__ = ["STARTS", "cancelled", "train"]

RESULTS = 8
"""Outputs of a finished training: the policy, both choices, and those of a run."""
STARTS = {"the evolved policy": "evolved", "the untrained policy": "untrained"}


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
    objective: tuple[Any, ...] = ()


@costs_steps(12000)
async def train(request: gr.Request, *values: Any) -> AsyncGenerator[tuple[Any, ...]]:
    """Train a policy on the chosen market, show how it comes along, then play it against the evolved one.

    Args:
        request: of the visitor.
        *values: see :class:`Wanted`; those of the objective come last.
    """
    plain = len(Wanted._fields) - 1
    wanted = Wanted(*values[:plain], objective=values[plain:])
    try:
        order = _order(wanted)
        yield NO_MESSAGE, gr.update(), *_busy(), *_nothing()
        async with aclosing(retrain(order, visitor=visitor_of(request))) as steps:
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
    sides = (gr.update(choices=[*CHOICES, RETRAINED], value=name) for name in run.policies)
    return NO_MESSAGE, report(order, trained), *_idle(), found, *sides, *shown(run, run.play())


def _order(wanted: Wanted) -> Order:
    setup = checked_setup(wanted.scenario, wanted.gpus, wanted.rate, wanted.objective)
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
        objective=checked_objective(setup.scenario, wanted.objective) if wanted.objective else None,
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


async def cancelled() -> tuple[Any, ...]:
    """Say so, and let the next one begin."""
    # What the training said last may still be on its way to the browser.
    await asyncio.sleep(BEAT_S)
    return (
        "<p class='ig-lab-status' role='status'>The training was cancelled; nothing was changed.</p>",
        *_idle(),
    )
