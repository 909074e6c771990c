"""The market engine with its hour in machine code: the same numbers (needs numba, extra ``gym``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from inferencegym.models.market import LINE_CAPACITY
from simulator.kernels.compiled import compiled
from simulator.market.config import MarketSetup
from simulator.market.engine import Demand, HourCounts, MarketEngine
from simulator.market.kernel import COUNTS, trade_hour
from simulator.market.rows import IntArray, MarketTables

__all__ = ["CompiledMarketEngine"]


class CompiledMarketEngine(MarketEngine):
    """One provider's market; see :class:`~simulator.market.engine.MarketEngine`."""

    def __init__(self, setup: MarketSetup, demand: Demand) -> None:
        super().__init__(setup, demand)
        self._tables = MarketTables.of(setup)
        self._running: IntArray = np.zeros((3, setup.gpus), dtype=np.int64)
        self._line: IntArray = np.zeros((4, LINE_CAPACITY), dtype=np.int64)
        self._numbers: IntArray = np.zeros(len(COUNTS), dtype=np.int64)

    def trade(self, price: int) -> HourCounts:
        """Play an hour at ``price`` (micro-USD per GPU-hour, within the bounds)."""
        demand = self.demand
        hour: int = self.hour
        self._numbers[:] = self._counts
        _trade(
            self._tables,
            price,
            demand.rates[hour],
            demand.willing[hour],
            demand.word_rows[hour],
            self._running,
            self._line,
            self._numbers,
        )
        self._counts = self._numbers.tolist()
        self.hour += 1
        return HourCounts._make(self._counts)

    def snapshot(self) -> Any:
        """Copy of all that changes."""
        return self.hour, self._running.copy(), self._line.copy(), list(self._counts)

    def restore(self, snapshot: Any) -> None:
        """Back to a snapshot of this engine."""
        hour, running, line, counts = snapshot
        self.hour = int(hour)
        self._running[:], self._line[:], self._counts[:] = running, line, counts


def _trade_one(
    tables: Any, price: int, rate: int, willing: int, words: Any, running: Any, line: Any, counts: Any
) -> None:
    trade_hour(
        tables.constants,
        tables.limits,
        tables.size_shares,
        tables.length_shares,
        tables.lengths,
        price,
        rate,
        willing,
        words,
        0,
        running[0],
        running[1],
        running[2],
        line[0],
        line[1],
        line[2],
        line[3],
        counts,
    )


_trade = compiled(_trade_one, keep=True)
