"""Fleets run by machine code: the same numbers as :mod:`simulator.autoscaling.kernel`, bit by bit.

Needs numba (extra ``gym``). The first call of a first process compiles for some seconds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from simulator.autoscaling.control import clear_fleet
from simulator.autoscaling.engine import CHANGING, FleetSimulator
from simulator.autoscaling.kernel import play_interval
from simulator.autoscaling.plan import WARM_UP_INTERVALS, Plan
from simulator.autoscaling.replica import ReplicaTable
from simulator.autoscaling.rows import Fleets, put_plan
from simulator.kernels.compiled import compiled

__all__ = ["CompiledFleet", "arrays_of", "start_rows"]


def _start_rows(table: Any, rules: Any, fleets: Any, rows: Any, initial: Any) -> None:
    for index in range(len(rows)):
        clear_fleet(fleets, rows[index], initial[index])
        for _ in range(WARM_UP_INTERVALS):
            play_interval(table, rules, fleets, rows[index], 0, 0)


def _play_alone(table: Any, rules: Any, fleets: Any, move: int, total: int) -> None:
    play_interval(table, rules, fleets, 0, move, total)


start_rows = compiled(_start_rows, keep=True)
"""Clear rows and serve their warm-up."""
_play = compiled(_play_alone, keep=True)


@lru_cache(maxsize=16)
def _arrays(simulator: FleetSimulator) -> ReplicaTable:
    return simulator.table.as_arrays()


def arrays_of(simulator: FleetSimulator) -> ReplicaTable:
    """The simulator's table for compiled code."""
    return _arrays(simulator)


class CompiledFleet:
    """See :class:`simulator.autoscaling.engine.SteppedFleet`."""

    def __init__(self, simulator: FleetSimulator, plan: Plan) -> None:
        self.plan = plan
        self._table, self._rules = arrays_of(simulator), simulator.rules
        self._fleets = Fleets.empty(1)
        put_plan(self._fleets, 0, plan)
        start_rows(
            self._table,
            self._rules,
            self._fleets,
            np.zeros(1, dtype=np.int64),
            np.asarray([plan.initial_replicas], dtype=np.int64),
        )

    @property
    def count(self) -> list[int]:
        """See :class:`SteppedFleet`."""
        return self._fleets.count[0].tolist()

    @property
    def result(self) -> list[float]:
        """See :class:`SteppedFleet`."""
        return self._fleets.result[0].tolist()

    def play(self, move: int, total: int = 0) -> None:
        """See :class:`SteppedFleet`."""
        _play(self._table, self._rules, self._fleets, move, total)

    def measured(self, interval: int) -> list[float]:
        """See :class:`SteppedFleet`."""
        return self._fleets.history[0, interval].tolist()

    def snapshot(self) -> dict[str, Any]:
        """Copies of all rows that change."""
        return {name: getattr(self._fleets, name).copy() for name in CHANGING}

    def restore(self, state: dict[str, Any]) -> None:
        """Back to a snapshot of a fleet with the same plan; the snapshot stays usable."""
        for name, row in state.items():
            getattr(self._fleets, name)[...] = row
