"""What the page and the process that trains tell each other; light to import."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.market.config import MarketSetup, load_market

__all__ = ["Order", "Standing", "Trained"]


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be trained on what.

    Args:
        scenario, gpus, arrival_rate, hours: the market and the length of its episodes.
        generations, population, seeds: of the search.
        compiled: on the compiled engine (needs numba) or the plain one.
        start: the first candidate, ``evolved`` (the scenario's committed policy) or ``untrained``.
        before: parameters (whole numbers) that the visitor trained earlier, to be measured against.
        objective: what the visitor changed of the scenario's.
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
    objective: dict[str, dict[str, float]] | None = None

    def setup(self) -> MarketSetup:
        """The market."""
        return load_market().setup(self.scenario, self.gpus, self.arrival_rate, self.objective)


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
