"""Plays many pricing policies on many seeds in plain Python: what :mod:`agents.market.arena` compiles.

Some 30 times slower, with the same numbers; for where numba is not installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from agents.market.play import Policy, gain_policy, make_demand, rule_policy
from agents.market.policies import PriceParameters
from env.market.reward import TERMS, goal_of, weigh_hour
from simulator.market.config import MarketSetup
from simulator.market.engine import HourCounts, MarketEngine
from simulator.market.kernel import COUNTS, DEAD, HOUR_COUNTS, OPENING_HOURS, WAITING

__all__ = ["CONSTANT", "GAINS", "RULE", "Outcomes", "PlainArena"]

IntArray = npt.NDArray[np.int64]

CONSTANT, RULE, GAINS = range(3)
"""Kinds of policy: the base price for ever, the rule, the five parameters."""


class Outcomes(NamedTuple):
    """What policies (rows) did on seeds (columns)."""

    reward: IntArray
    """Sum of rewards, at SCALE"""
    totals: IntArray
    """(policies, seeds, counts): sums over the hours played, see ``COUNTS``; of dead the last value"""
    hours: IntArray
    """Hours played"""


class PlainArena:
    """One market on the plain engine.

    Args:
        setup: the market.
        hours: length of the episodes, without the opening hours.
    """

    def __init__(self, setup: MarketSetup, hours: int) -> None:
        self.setup = setup
        self._hours = hours
        self._goal = goal_of(setup)

    def play(self, kind: int, parameters: Any, seeds: Sequence[int]) -> Outcomes:
        """Let every policy play every seed; see :meth:`agents.market.arena.MarketArena.play`."""
        rows: list[tuple[int, ...]] = [tuple(map(int, row)) for row in parameters]
        shape = len(rows), len(seeds)
        reward, hours = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        totals = np.zeros((*shape, len(COUNTS)), dtype=np.int64)
        for column, seed in enumerate(seeds):
            for row, played in enumerate(self._play_seed(kind, rows, seed)):
                reward[row, column], totals[row, column], hours[row, column] = played
        return Outcomes(reward, totals, hours)

    def _play_seed(
        self, kind: int, rows: Sequence[tuple[int, ...]], seed: int
    ) -> Iterator[tuple[int, list[int], int]]:
        """Reward, totals and hours of each policy. The opening day is the same for all and played once."""
        engine = MarketEngine(self.setup, make_demand(self.setup, seed, self._hours))
        opened, start = engine.open(), engine.snapshot()
        for row in rows:
            engine.restore(start)
            yield self._play(engine, self._policy(kind, row), opened)

    def _play(self, engine: MarketEngine, policy: Policy, counts: HourCounts) -> tuple[int, list[int], int]:
        setup, terms, reward, totals = self.setup, [0] * len(TERMS), 0, [0] * len(COUNTS)
        while not engine.over:
            counts = engine.trade(setup.clamped(policy(counts)))
            reward += weigh_hour(self._goal, counts, terms)
            for index in (WAITING, *range(HOUR_COUNTS, len(COUNTS))):
                totals[index] += counts[index]
        totals[DEAD] = counts[DEAD]
        return reward, totals, engine.hour - OPENING_HOURS

    def _policy(self, kind: int, row: tuple[int, ...]) -> Policy:
        if kind == RULE:
            return rule_policy(self.setup)
        if kind == GAINS:
            return gain_policy(self.setup, PriceParameters(*row))
        return lambda last: row[0]
