"""Many market episodes at once, in arrays: the same numbers as :class:`env.market.episode.MarketEnv`.

Needs numba (extra ``gym``). Tests hold every observation and reward to the single environment's bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from env.market.episode import COUNT_METRICS
from env.market.reward import TERMS, expected_wait, goal_of, weigh_hour
from inferencegym.models.market import EPISODE_HOURS
from simulator.kernels.compiled import compiled, inlined
from simulator.market.config import MarketSetup
from simulator.market.engine import fluid_revenue
from simulator.market.kernel import (
    BUSY,
    COUNTS,
    DEAD,
    DEATH_SILENCE,
    HOURS_PER_DAY,
    INTERRUPTED_GPUS,
    JOINED,
    OPENING_HOURS,
    PRICE,
    REVENUE,
    SCALE,
    SILENCE,
    STREAK,
    WAITING,
)
from simulator.market.rows import HOUR, Markets, MarketTables, open_market, play_hour

__all__ = ["METRIC_COLUMNS", "OBSERVATION_COLUMNS", "MarketBatch"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Spread = Callable[[Callable[[int, int], None], int], None]

OBSERVATION_COLUMNS = (
    *("price_level", "queue_depth", "utilization", "arrivals", "expected_wait_h", "interrupted_gpus"),
    *("zero_streak", "death_risk", "hour_of_day", "timestep", "price"),
)
"""Columns of an array of observations: fields of MarketObservation, and its property price_level."""

METRIC_COLUMNS = {
    name: column
    for column, name in enumerate(
        (
            *("price", "revenue", "utilization", "expected_wait_h", "death_risk", "fluid_revenue"),
            *("queue_depth", *COUNT_METRICS, "dead"),
        )
    )
}
"""Columns of ``results``."""

_FIRST_COUNT = METRIC_COLUMNS["queue_depth"]
_COUNT_COLUMNS = np.asarray([WAITING, *(COUNTS.index(name) for name in COUNT_METRICS), DEAD])
_FLUID = METRIC_COLUMNS["fluid_revenue"]


class MarketBatch:
    """``count`` episodes of one market, each with its own seed and its own clock.

    Args:
        setup: the market.
        count: episodes side by side.
    """

    def __init__(self, setup: MarketSetup, count: int) -> None:
        self.setup = setup
        self._tables = MarketTables.of(setup)
        self._markets = Markets.empty(count, setup.gpus, OPENING_HOURS + EPISODE_HOURS)
        self._goal = np.asarray(goal_of(setup), dtype=np.int64)
        self._prices = np.asarray([setup.opening_price, setup.min_price, setup.max_price], dtype=np.int64)
        self._terms = np.zeros((count, len(TERMS)), dtype=np.int64)
        self.observation = np.zeros((count, len(OBSERVATION_COLUMNS)))
        self.previous = np.zeros((count, len(OBSERVATION_COLUMNS)))
        self.reward = np.zeros(count)
        self.terms = np.zeros((count, len(TERMS)))
        self.results = np.zeros((count, len(METRIC_COLUMNS)))

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """(N,): hours played in each episode; below 0 before the first start."""
        return self._markets.clock[:, HOUR] - OPENING_HOURS

    @property
    def terminated(self) -> BoolArray:
        """(N,): markets that died."""
        return self._markets.counts[:, DEAD] != 0

    @property
    def truncated(self) -> BoolArray:
        """(N,): episodes that reached their length alive."""
        return (self.steps >= EPISODE_HOURS) & ~self.terminated

    def restart(self, rows: Sequence[int], seeds: Sequence[int], spread: Spread) -> None:
        """Start the episodes of ``rows`` over, each with its seed."""
        chosen, wanted = np.asarray(rows, dtype=np.int64), np.asarray(seeds, dtype=np.int64)

        def start(low: int, high: int) -> None:
            _restart(
                chosen[low:high],
                wanted[low:high],
                self._tables,
                self._markets,
                self._goal,
                self._prices,
                self.observation,
                self.previous,
            )

        spread(start, len(rows))
        for row in rows:
            rates, willing = self._markets.plan[row, :, OPENING_HOURS:].tolist()
            self.results[row, _FLUID] = fluid_revenue(self.setup, rates, willing) / SCALE

    def advance(self, low: int, high: int, knobs: FloatArray, stepped: BoolArray) -> None:
        """Trade for an hour in those episodes from ``low`` to ``high - 1`` for which ``stepped`` is true.

        ``knobs`` (N, 1) are relative changes of the price. Episodes that are over must not be stepped. Ranges
        that do not overlap may be advanced by different threads.
        """
        _advance(
            low,
            high,
            knobs,
            stepped,
            self._tables,
            self._markets,
            self._goal,
            self._prices,
            self._terms,
            self.observation,
            self.previous,
            self.reward,
            self.terms,
            self.results,
        )


# --- compiled ----------------------------------------------------------------------------------------------


@inlined
def observe(markets: Any, i: int, goal: Any, gpus: int, prices: Any, seen: Any) -> None:
    """Write row ``i`` of the observations. Quotients are those of whole numbers, as in the single one."""
    counts, step = markets.counts[i], markets.clock[i, HOUR] - OPENING_HOURS
    price, low, high = counts[PRICE] / SCALE, prices[1] / SCALE, prices[2] / SCALE
    seen[0] = (price - low) / (high - low)
    seen[1] = counts[WAITING]
    seen[2] = counts[BUSY] / gpus
    seen[3] = counts[JOINED]
    seen[4] = expected_wait(goal, counts[WAITING]) / SCALE
    seen[5] = counts[INTERRUPTED_GPUS]
    seen[6] = counts[STREAK]
    seen[7] = counts[SILENCE] / DEATH_SILENCE
    seen[8] = step % HOURS_PER_DAY
    seen[9] = step
    seen[10] = price


def _restart_rows(
    rows: Any, seeds: Any, tables: Any, markets: Any, goal: Any, prices: Any, observation: Any, previous: Any
) -> None:
    for index in range(len(rows)):
        i = rows[index]
        open_market(tables, markets, i, seeds[index], prices[0])
        observe(markets, i, goal, tables.constants[0], prices, observation[i])
        for column in range(observation.shape[1]):
            previous[i, column] = observation[i, column]


def _advance_rows(
    low: int,
    high: int,
    knobs: Any,
    stepped: Any,
    tables: Any,
    markets: Any,
    goal: Any,
    prices: Any,
    whole_terms: Any,
    observation: Any,
    previous: Any,
    reward: Any,
    terms: Any,
    results: Any,
) -> None:
    gpus = tables.constants[0]
    for i in range(low, high):
        if stepped[i]:
            change = np.int64(np.rint(knobs[i, 0] * SCALE))
            price = markets.counts[i, PRICE] * (SCALE + change) // SCALE
            play_hour(tables, markets, i, min(max(price, prices[1]), prices[2]))
            counts = markets.counts[i]
            reward[i] = weigh_hour(goal, counts, whole_terms[i]) / SCALE
            for term in range(terms.shape[1]):
                terms[i, term] = whole_terms[i, term] / SCALE
            for column in range(observation.shape[1]):
                previous[i, column] = observation[i, column]
            seen = observation[i]
            observe(markets, i, goal, gpus, prices, seen)
            results[i, 0] = seen[10]
            results[i, 1] = counts[REVENUE] / SCALE
            results[i, 2] = seen[2]
            results[i, 3] = seen[4]
            results[i, 4] = seen[7]
            for column in range(len(_COUNT_COLUMNS)):
                results[i, _FIRST_COUNT + column] = counts[_COUNT_COLUMNS[column]]


_restart = compiled(_restart_rows, keep=True)
_advance = compiled(_advance_rows, keep=True)
