"""The process in which a visitor's policy is trained: reads an order, writes JSON lines.

``python -m server.dashboard.market_retrain_worker`` reads an :class:`Order` as JSON from standard input. It
writes ``{"generation": n, "best": x}`` after each generation and at last a :class:`Trained`. When nobody
reads any more, the next line ends the process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from agents.compare import Mean
from agents.market_files import load_parameters
from agents.market_plain_arena import GAINS, RULE, PlainArena
from agents.market_policies import PARAMETER_NAMES, PriceParameters
from agents.market_train import HELD_OUT_SEEDS, TrainingSettings, evolve, make_arena
from simulator.market_config import MarketSetup, load_market
from simulator.market_kernel import DEAD, SCALE

__all__ = ["Order", "Standing", "Trained", "train"]

NICENESS = 5
"""The server's other work goes first."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be trained on what.

    Args:
        scenario, gpus, arrival_rate, hours: the market and the length of its episodes.
        generations, population, seeds: of the search.
        compiled: on the compiled engine (needs numba) or the plain one.
        start: the first candidate, ``evolved`` (the scenario's committed policy) or ``untrained``.
        before: parameters (whole numbers) that the visitor trained earlier, to be measured against.
    """

    scenario: str
    gpus: int
    arrival_rate: float
    hours: int
    generations: int
    population: int
    seeds: int
    compiled: bool
    start: str
    before: tuple[int, ...] | None = None

    def setup(self) -> MarketSetup:
        """The market."""
        return load_market().setup(self.scenario, self.gpus, self.arrival_rate)

    def settings(self) -> TrainingSettings:
        """Of the search."""
        return TrainingSettings(self.generations, self.population, self.seeds, hours=self.hours)


@dataclass(frozen=True, slots=True)
class Standing:
    """A policy on held-out seeds: mean sum of rewards, and the trained policy's minus it, paired by seed.

    Both with half the width of their 95 % interval.
    """

    policy: str
    reward: tuple[float, float]
    behind: tuple[float, float]
    death_rate: float


@dataclass(frozen=True, slots=True)
class Trained:
    """The best parameters (whole numbers), their fitness on the training seeds, and how they stand against
    other policies."""

    parameters: tuple[int, ...]
    fitness: float
    held_out_seeds: int
    standings: list[Standing]


def train(order: Order, on_generation: Callable[[int, int], None]) -> Trained:
    """Search from the order's start and measure what was found. ``on_generation``: see
    :func:`agents.market_train.evolve`.

    Raises InferenceGymError: numba is missing, or the order asks for what is not allowed.
    """
    setup = order.setup()
    arena = make_arena(setup, order.hours, 1) if order.compiled else PlainArena(setup, order.hours)
    evolved = load_parameters(order.scenario)
    start = evolved if order.start == "evolved" else None
    found, fitness = evolve(setup, order.settings(), on_generation=on_generation, arena=arena, start=start)
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
