"""Evolve the five-parameter pricing policy of InferenceGym/Market-v0 with a genetic algorithm.

Everything is whole numbers and the draws come from a raw bit stream, so that a run gives the same parameters
on every platform. Candidates are ranked by fitness, the sum of rewards over the training seeds; of equals the
one whose parameter hash is lower comes first. Training and held-out seeds never overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from agents.compare.compare import Mean
from agents.market.plain_arena import CONSTANT, GAINS, RULE
from agents.market.policies import PARAMETER_NAMES, PriceParameters, parameter_bounds
from inferencegym.errors import InferenceGymError, InvalidValueError
from inferencegym.models.market import EPISODE_HOURS
from simulator.market.config import MarketFiles, MarketSetup
from simulator.market.kernel import DEAD, SCALE

__all__ = [
    "HELD_OUT_SEEDS",
    "TRAINING_SEEDS_FROM",
    "HeldOut",
    "TrainingSettings",
    "best_constants",
    "document",
    "evolve",
    "held_out",
    "make_arena",
]

TRAINING_SEEDS_FROM = 10_000
HELD_OUT_SEEDS = range(100, 200)
MIN_TRAINING_SEEDS = 12
"""With one to three seeds the search learns the seeds: it was seen to train to 235, against 112 on others."""

ELITE = 2
TOURNAMENT = 3
MUTATION_PERCENT = 30
SWEEP_STEP, SWEEP_PRICES = 10_000, 120
"""Constant prices are tried a cent apart, or so that there are about 120 of them."""
STEP_SHARES = (3, 10, 30)
"""A mutation moves by up to one in this many of the range: wide, usual, fine."""


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How to search."""

    generations: int = 50
    population: int = 30
    seeds: int = 24
    """Episodes that every candidate plays."""
    search_seed: int = 1
    hours: int = EPISODE_HOURS

    def __post_init__(self) -> None:
        least = {
            "generations": 0,
            "population": 4,
            "seeds": MIN_TRAINING_SEEDS,
            "search_seed": 0,
            "hours": 10,
        }
        for name, low in least.items():
            if not low <= getattr(self, name) <= 10_000:
                raise InvalidValueError(name, getattr(self, name), f"a whole number from {low} to 10000")

    @property
    def training_seeds(self) -> range:
        """Seeds that candidates are ranked on."""
        return range(TRAINING_SEEDS_FROM, TRAINING_SEEDS_FROM + self.seeds)


class _Draws:
    """Whole numbers from the raw stream of a bit generator."""

    def __init__(self, seed: int) -> None:
        self._source = np.random.PCG64(seed)

    def below(self, count: int) -> int:
        """From 0 to count - 1."""
        return int(self._source.random_raw()) % count

    def between(self, low: int, high: int) -> int:
        """From low to high."""
        return low + self.below(high - low + 1)


Genome = tuple[int, ...]
OnGeneration = Callable[[int, int], None]
"""Gets (generations done, best fitness: mean sum of rewards of an episode, at SCALE)."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its fitness."""

    genome: Genome
    fitness: int

    @property
    def key(self) -> tuple[int, str]:
        """Sorts the best first; ties by parameter hash."""
        return -self.fitness, PriceParameters(*self.genome).hash()


def make_arena(setup: MarketSetup, hours: int, threads: int) -> Any:
    """The compiled arena. Raises InferenceGymError when numba is missing."""
    try:
        from agents.market.arena import MarketArena
    except ImportError as error:
        raise InferenceGymError(
            f"Training needs {error.name}.", "Install the extra: pip install 'inferencegym[gym]'."
        ) from None
    return MarketArena(setup, hours, threads)


def evolve(
    setup: MarketSetup,
    settings: TrainingSettings,
    threads: int = 1,
    on_generation: OnGeneration = lambda done, best: None,
    *,
    arena: Any = None,
    start: PriceParameters | None = None,
) -> tuple[PriceParameters, int]:
    """Search, and return the best parameters with their fitness (mean sum of rewards of an episode, at
    SCALE).

    With no generations these are the parameters that the search starts from.

    Args:
        setup: the market.
        settings: of the search.
        threads: of the compiled arena.
        on_generation: called after each.
        arena: that plays, for example a :class:`~agents.market.plain_arena.PlainArena`; by default a compiled
            one.
        start: one of the first candidates; by default the untrained policy.

    Raises:
        InferenceGymError: numba is missing.
    """
    arena = arena or make_arena(setup, settings.hours, threads)
    bounds, draws = parameter_bounds(setup), _Draws(settings.search_seed)

    def rank(genomes: Sequence[Genome]) -> list[Ranked]:
        sums = arena.play(GAINS, genomes, settings.training_seeds).reward.sum(axis=1)
        found = [Ranked(genome, int(total)) for genome, total in zip(genomes, sums, strict=True)]
        return sorted(found, key=lambda one: one.key)

    first = (start or PriceParameters.untrained(setup)).values()
    if settings.generations == 0:
        return PriceParameters(*first), rank([first])[0].fitness // settings.seeds
    strangers = [tuple(draws.between(*bound) for bound in bounds) for _ in range(settings.population - 1)]
    ranked = rank([first, *strangers])
    for generation in range(settings.generations):
        children = [_child(ranked, bounds, draws) for _ in range(settings.population - ELITE)]
        ranked = sorted([*ranked[:ELITE], *rank(children)], key=lambda one: one.key)
        on_generation(generation + 1, ranked[0].fitness // settings.seeds)
    return PriceParameters(*ranked[0].genome), ranked[0].fitness // settings.seeds


def _child(ranked: Sequence[Ranked], bounds: Sequence[tuple[int, int]], draws: _Draws) -> Genome:
    """Each gene between those of two parents (and a little beyond), then perhaps moved."""
    mother, father = _parent(ranked, draws), _parent(ranked, draws)
    genes: list[int] = []
    for one, other, (low, high) in zip(mother, father, bounds, strict=True):
        spread = abs(one - other) // 4
        gene = draws.between(min(one, other) - spread, max(one, other) + spread)
        if draws.below(100) < MUTATION_PERCENT:
            reach = (high - low) // STEP_SHARES[draws.below(len(STEP_SHARES))]
            gene += draws.between(-reach, reach)
        genes.append(min(max(gene, low), high))
    return tuple(genes)


def _parent(ranked: Sequence[Ranked], draws: _Draws) -> Genome:
    """The best of a few drawn at random (``ranked`` has the best first)."""
    return ranked[min(draws.below(len(ranked)) for _ in range(TOURNAMENT))].genome


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A policy on held-out seeds: the sum of an episode's rewards, and what it is above the rule's."""

    policy: str
    reward: Mean
    minus_rule: Mean
    """Paired by seed"""
    death_rate: float
    """Share of episodes in which the market died"""


def held_out(
    setup: MarketSetup, parameters: PriceParameters, seeds: Sequence[int] = HELD_OUT_SEEDS, threads: int = 1
) -> list[HeldOut]:
    """The rule, the untrained policy and the given one on seeds that training never sees."""
    arena = make_arena(setup, EPISODE_HOURS, threads)
    rule = arena.play(RULE, [[0] * len(PARAMETER_NAMES)], seeds)
    gains = arena.play(GAINS, [PriceParameters.untrained(setup).values(), parameters.values()], seeds)
    rewards = np.concatenate([rule.reward, gains.reward]) / SCALE
    dead = np.concatenate([rule.totals, gains.totals])[:, :, DEAD].mean(axis=1)
    return [
        HeldOut(name, Mean.of(rewards[row]), Mean.of(rewards[row] - rewards[0]), float(dead[row]))
        for row, name in enumerate(("rule", "untrained", "evolved"))
    ]


def document(
    setup: MarketSetup,
    settings: TrainingSettings,
    parameters: PriceParameters,
    fitness: int,
    report: Sequence[HeldOut] = (),
) -> dict[str, Any]:
    """Parameters with their provenance and their report, ready for JSON."""
    words = [f"inferencegym market train-ga --scenario {setup.scenario}"]
    words += [f"--generations {settings.generations}", f"--population-size {settings.population}"]
    words += [f"--seeds {settings.seeds}", f"--search-seed {settings.search_seed}"]
    return {
        "made_by": " ".join(words),
        "scenario": setup.scenario,
        "parameters": parameters.natural(),
        "parameter_hash": parameters.hash(),
        "config_hash": setup.config_hash(),
        "settings": asdict(settings),
        "training_seeds": [settings.training_seeds[0], settings.training_seeds[-1]],
        "training_fitness": fitness / SCALE,
        "held_out_seeds": [HELD_OUT_SEEDS[0], HELD_OUT_SEEDS[-1]],
        "held_out": [asdict(row) for row in report],
    }


def best_constants(files: MarketFiles, threads: int = 1) -> dict[str, Any]:
    """The constant price of each scenario that is rewarded most on the training seeds, ready for JSON."""
    settings, prices = TrainingSettings(), dict[str, float]()
    for name in files.scenarios:
        setup = files.setup(name)
        step = max(SWEEP_STEP, (setup.max_price - setup.min_price) // SWEEP_PRICES)
        tried = list(range(setup.min_price, setup.max_price + 1, step))
        arena = make_arena(setup, settings.hours, threads)
        rows = [(price, *[0] * (len(PARAMETER_NAMES) - 1)) for price in tried]
        sums = arena.play(CONSTANT, rows, settings.training_seeds).reward.sum(axis=1)
        prices[name] = tried[int(sums.argmax())] / SCALE
    return {
        "made_by": "inferencegym market sweep",
        "training_seeds": [settings.training_seeds[0], settings.training_seeds[-1]],
        "prices": prices,
    }
