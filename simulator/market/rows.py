"""Many markets at once, in arrays: compiled copies of the kernel (needs numba, extra ``gym``).

Each market is the one of :mod:`simulator.market.engine` with the bit generator ``numpy.random.PCG64(seed)``;
tests hold the two to the same numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from inferencegym.models.market import LINE_CAPACITY
from simulator.kernels.compiled import inlined
from simulator.kernels.random import STATE_SIZE, next_word, seed_state
from simulator.market.config import MarketSetup
from simulator.market.kernel import (
    COUNTS,
    OPENING_HOURS,
    SCHEDULE_WORDS,
    WORDS_PER_HOUR,
    forget_silence,
    plan_hours,
    trade_hour,
)

__all__ = ["HOUR", "MarketTables", "Markets", "open_market", "play_hour"]

IntArray = npt.NDArray[np.int64]

HOUR = 0
"""Column of ``Markets.clock``."""


class MarketTables(NamedTuple):
    """A setup as arrays."""

    constants: IntArray
    limits: IntArray
    size_shares: IntArray
    length_shares: IntArray
    lengths: IntArray
    base_and_hourly: IntArray
    events: IntArray
    """(4, events): period, duration, factor on arrivals, factor on limits"""

    @classmethod
    def of(cls, setup: MarketSetup) -> MarketTables:
        """The arrays of a setup."""
        events = [(e.period_h, e.duration_h, e.arrivals, e.limits) for e in setup.events]
        return cls(
            _array([setup.gpus, setup.patience_h, setup.min_price, setup.max_price]),
            _array(setup.limits),
            _array(setup.size_shares),
            _array(setup.length_shares),
            _array(setup.lengths),
            _array([setup.arrival_rate, *setup.hourly_arrivals]),
            np.asarray(events, dtype=np.int64).reshape(-1, 4).T.copy(),
        )


class Markets(NamedTuple):
    """``count`` markets."""

    random: npt.NDArray[np.uint64]
    """(N, 6): bit generators"""
    words: IntArray
    """(N, words): those of the schedule or of the hour"""
    plan: IntArray
    """(N, 2, hours): expected arrivals and willingness of each hour"""
    running: IntArray
    """(N, 3, GPUs): GPUs, hours left and limit of running jobs"""
    line: IntArray
    """(N, 4, capacity): GPUs, hours, limit and hours waited of waiting jobs"""
    counts: IntArray
    """(N, counts): see ``COUNTS``"""
    clock: IntArray
    """(N, 1): hours played, the opening hours included"""

    @classmethod
    def empty(cls, count: int, gpus: int, hours: int) -> Markets:
        """Markets that have not been opened."""
        return cls(
            np.zeros((count, STATE_SIZE), dtype=np.uint64),
            np.zeros((count, max(SCHEDULE_WORDS, WORDS_PER_HOUR)), dtype=np.int64),
            np.zeros((count, 2, hours), dtype=np.int64),
            np.zeros((count, 3, gpus), dtype=np.int64),
            np.zeros((count, 4, LINE_CAPACITY), dtype=np.int64),
            np.zeros((count, len(COUNTS)), dtype=np.int64),
            np.zeros((count, 1), dtype=np.int64),
        )


def _array(values: Any) -> IntArray:
    return np.asarray(values, dtype=np.int64)


def draw(random: Any, words: Any, count: int) -> None:
    """The next ``count`` words, without their lowest bit."""
    for index in range(count):
        words[index] = np.int64(next_word(random) >> np.uint64(1))


@inlined
def open_market(tables: Any, markets: Any, i: int, seed: int, price: int) -> None:
    """Seed market ``i``, plan its hours, and play the opening hours at ``price``."""
    seed_state(seed, markets.random[i])
    draw(markets.random[i], markets.words[i], SCHEDULE_WORDS)
    plan_hours(
        tables.base_and_hourly[0],
        tables.base_and_hourly[1:],
        tables.events[0],
        tables.events[1],
        tables.events[2],
        tables.events[3],
        markets.words[i],
        markets.plan[i],
    )
    for index in range(markets.counts.shape[1]):
        markets.counts[i, index] = 0
    markets.clock[i, HOUR] = 0
    for _ in range(OPENING_HOURS):
        play_hour(tables, markets, i, price)
    forget_silence(markets.counts[i])


@inlined
def play_hour(tables: Any, markets: Any, i: int, price: int) -> None:
    """One hour of market ``i``."""
    hour = markets.clock[i, HOUR]
    draw(markets.random[i], markets.words[i], WORDS_PER_HOUR)
    running, line = markets.running[i], markets.line[i]
    trade_hour(
        tables.constants,
        tables.limits,
        tables.size_shares,
        tables.length_shares,
        tables.lengths,
        price,
        markets.plan[i, 0, hour],
        markets.plan[i, 1, hour],
        markets.words[i],
        0,
        running[0],
        running[1],
        running[2],
        line[0],
        line[1],
        line[2],
        line[3],
        markets.counts[i],
    )
    markets.clock[i, HOUR] = hour + 1
