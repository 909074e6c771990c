"""Plays many pricing policies on many seeds at once, for training and sweeps. Needs numba (extra ``gym``)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.market.plain_arena import CONSTANT, GAINS, RULE, Outcomes
from agents.market.policies import gain_price, rule_price
from env.market.reward import TERMS, goal_of, weigh_hour
from simulator.kernels.compiled import compiled
from simulator.market.config import MarketSetup
from simulator.market.kernel import BUSY, COUNTS, DEAD, HOUR_COUNTS, OPENING_HOURS, PRICE, WAITING
from simulator.market.rows import HOUR, Markets, MarketTables, open_market, play_hour

__all__ = ["CONSTANT", "GAINS", "RULE", "MarketArena", "Outcomes"]

IntArray = npt.NDArray[np.int64]


class MarketArena:
    """One market, played by compiled copies of its engine and of the policies.

    Args:
        setup: the market.
        hours: length of the episodes, without the opening hours.
        threads: that play episodes; machine code runs in them side by side.
    """

    def __init__(self, setup: MarketSetup, hours: int, threads: int = 1) -> None:
        self.setup = setup
        self._hours = hours
        self._tables = MarketTables.of(setup)
        self._goal = np.asarray(goal_of(setup), dtype=np.int64)
        self._prices = np.asarray([setup.opening_price, setup.min_price, setup.max_price], dtype=np.int64)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads)
        self._markets = [Markets.empty(1, setup.gpus, OPENING_HOURS + hours) for _ in range(threads)]

    def play(self, kind: int, parameters: Any, seeds: Sequence[int]) -> Outcomes:
        """Let every policy play every seed.

        Args:
            kind: CONSTANT, RULE or GAINS.
            parameters: (policies, 5), whole numbers.
            seeds: of the episodes.
        """
        rows = np.ascontiguousarray(np.asarray(parameters, dtype=np.int64))
        count = len(rows) * len(seeds)
        seeds_ = np.asarray(seeds, dtype=np.int64)
        reward, hours = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        totals = np.zeros((count, len(COUNTS)), dtype=np.int64)

        def part(thread: int) -> None:
            low, high = (count * edge // self._threads for edge in (thread, thread + 1))
            _play(
                low,
                high,
                kind,
                rows,
                seeds_,
                self._hours,
                self._tables,
                self._markets[thread],
                self._goal,
                self._prices,
                np.zeros(len(TERMS), dtype=np.int64),
                reward,
                totals,
                hours,
            )

        list(self._pool.map(part, range(self._threads)))
        shape = (len(rows), len(seeds))
        return Outcomes(reward.reshape(shape), totals.reshape(*shape, -1), hours.reshape(shape))


def propose(kind: int, parameters: Any, counts: Any, gpus: int, low: int, high: int) -> int:
    """The next price."""
    if kind == RULE:
        return rule_price(counts[PRICE], counts[BUSY], counts[WAITING], gpus, low, high)
    if kind == GAINS:
        return gain_price(parameters, counts[PRICE], counts[BUSY], counts[WAITING], gpus, low, high)
    return min(max(parameters[0], low), high)


def _play_rows(
    low: int,
    high: int,
    kind: int,
    parameters: Any,
    seeds: Any,
    hours: int,
    tables: Any,
    markets: Any,
    goal: Any,
    prices: Any,
    terms: Any,
    reward: Any,
    totals: Any,
    played: Any,
) -> None:
    for row in range(low, high):
        mine = parameters[row // len(seeds)]
        counts = markets.counts[0]
        open_market(tables, markets, 0, seeds[row % len(seeds)], prices[0])
        while markets.clock[0, HOUR] < OPENING_HOURS + hours and counts[DEAD] == 0:
            price = propose(kind, mine, counts, tables.constants[0], prices[1], prices[2])
            play_hour(tables, markets, 0, price)
            reward[row] += weigh_hour(goal, counts, terms)
            for index in range(HOUR_COUNTS, len(counts)):
                totals[row, index] += counts[index]
            totals[row, WAITING] += counts[WAITING]
        totals[row, DEAD] = counts[DEAD]
        played[row] = markets.clock[0, HOUR] - OPENING_HOURS


_play = compiled(_play_rows, keep=True)
