"""The process in which a visitor's policy is trained: reads an order, writes JSON lines.

``python -m server.dashboard.market_lab.retrain_worker`` reads an order as JSON from standard input (see
:mod:`~server.dashboard.market_lab.retrain_order`). It writes ``{"generation": n, "best": x}`` after each of
its generations and at last a ``Trained``. When nobody reads any more, the next line ends the process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from agents.compare.compare import Mean
from agents.market.files import load_parameters
from agents.market.plain_arena import GAINS, RULE, PlainArena
from agents.market.policies import PARAMETER_NAMES, PriceParameters
from agents.market.train import HELD_OUT_SEEDS, TrainingSettings, evolve, make_arena
from server.dashboard.market_lab.retrain_order import Order, Standing, Trained
from simulator.market.kernel import DEAD, SCALE

__all__ = ["train"]

NICENESS = 5
"""The server's other work goes first."""


def train(order: Order, on_generation: Callable[[int, int], None]) -> Trained:
    """Search from the order's start and measure what was found. ``on_generation``: see
    :func:`agents.market.train.evolve`.

    Raises InferenceGymError: numba is missing, or the order asks for what is not allowed.
    """
    setup = order.setup()
    arena = make_arena(setup, order.hours, 1) if order.compiled else PlainArena(setup, order.hours)
    settings = TrainingSettings(order.generations, order.population, order.seeds, hours=order.hours)
    evolved = load_parameters(order.scenario)
    start = evolved if order.start == "evolved" else None
    found, fitness = evolve(setup, settings, on_generation=on_generation, arena=arena, start=start)
    others = {"evolved": evolved}
    if order.before is not None:
        others["retrained before"] = PriceParameters(*order.before)
    return Trained(
        found.values(), fitness / SCALE, len(HELD_OUT_SEEDS), _standings(arena, found, others, HELD_OUT_SEEDS)
    )


def _standings(
    arena: Any, found: PriceParameters, others: dict[str, PriceParameters], seeds: Sequence[int]
) -> list[Standing]:
    rule = arena.play(RULE, [[0] * len(PARAMETER_NAMES)], seeds)
    gains = arena.play(GAINS, [found.values(), *(other.values() for other in others.values())], seeds)
    rewards = np.concatenate([gains.reward, rule.reward]) / SCALE
    dead = np.concatenate([gains.totals, rule.totals])[:, :, DEAD].mean(axis=1)
    return [
        Standing(name, _interval(rewards[row]), _interval(rewards[0] - rewards[row]), float(dead[row]))
        for row, name in enumerate(("retrained here", *others, "rule"))
    ]


def _interval(values: Any) -> tuple[float, float]:
    mean = Mean.of(values)
    return mean.value, mean.half_width or 0.0


def main() -> None:
    """Read an order and work on it."""
    os.nice(NICENESS)
    order = Order(**json.loads(sys.stdin.read()))

    def say(line: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    say(asdict(train(order, lambda done, best: say({"generation": done, "best": best / SCALE}))))


if __name__ == "__main__":
    main()
