"""A fleet that is stepped: :class:`FleetSimulator` holds what a task's fleets share, :class:`Fleet` is one.

Plain Python; :class:`simulator.autoscaling.compiled.CompiledFleet` gives the same numbers as machine code.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from inferencegym.errors import InvalidValueError
from simulator.autoscaling.control import clear_fleet
from simulator.autoscaling.kernel import play_interval
from simulator.autoscaling.plan import WARM_UP_INTERVALS, FleetConfig, Plan, draw_plan
from simulator.autoscaling.replica import DEFAULT_REPLICA, ReplicaConfig, ReplicaTable, replica_table
from simulator.autoscaling.rows import Fleets, Rules, put_plan
from simulator.packs.on_offer import pack_name
from simulator.packs.trace_table import DEFAULT_PACK_PATH, load_trace_table

__all__ = ["Fleet", "FleetSimulator", "SteppedFleet", "check_rows"]


class FleetSimulator:
    """Traffic, faults and replicas of one task on one GPU.

    Args:
        config: traffic and faults.
        trace_path: trace pack that says how fast a replica is and what a GPU-hour costs.
        replica: engine configuration of every replica, and the mean request.

    Raises:
        TracePackError: the pack cannot be read.
    """

    def __init__(
        self,
        config: FleetConfig,
        trace_path: str | Path = DEFAULT_PACK_PATH,
        replica: ReplicaConfig = DEFAULT_REPLICA,
    ) -> None:
        self.config = config
        self.replica = replica
        self.trace_pack = pack_name(Path(trace_path))
        """Name of the pack that the replicas' speed comes from."""
        self.table: ReplicaTable = replica_table(replica, trace_path)
        self.rules = Rules.of(config)
        pack = load_trace_table(Path(trace_path))
        self.metadata, self.trace_pack_sha256 = pack.metadata, pack.sha256
        self.usd_per_replica_second = self.metadata.cents_per_gpu_hour / 360_000.0

    def plan(self, seed: int) -> Plan:
        """The episode of a seed."""
        return draw_plan(np.random.default_rng(seed), self.config, self.table.peak_rps)


class SteppedFleet(Protocol):
    """One fleet in one episode."""

    @property
    def plan(self) -> Plan: ...

    @property
    def count(self) -> list[int]:
        """Whole numbers by ``COUNT``."""
        ...

    @property
    def result(self) -> list[float]:
        """The last interval by ``RESULT``."""
        ...

    def play(self, move: int, total: int = 0) -> None:
        """Serve the next interval: ``move`` is -1, 0 or 1; ``total`` above 0 sets the target instead."""
        ...

    def measured(self, interval: int) -> list[float]:
        """What monitoring saw in an interval that was played, by ``MEASURED``."""
        ...

    def snapshot(self) -> Any: ...

    def restore(self, state: Any) -> None: ...


class Fleet:
    """See :class:`SteppedFleet`. Starts with the warm-up intervals served."""

    def __init__(self, simulator: FleetSimulator, plan: Plan) -> None:
        self.plan = plan
        self._table, self._rules = simulator.table, simulator.rules
        self._fleets = Fleets.empty(1).as_lists()
        put_plan(self._fleets, 0, plan)
        clear_fleet(self._fleets, 0, plan.initial_replicas)
        for _ in range(WARM_UP_INTERVALS):
            self.play(0)

    @property
    def count(self) -> list[int]:
        """See :class:`SteppedFleet`."""
        return self._fleets.count[0]

    @property
    def result(self) -> list[float]:
        """See :class:`SteppedFleet`."""
        return self._fleets.result[0]

    def play(self, move: int, total: int = 0) -> None:
        """See :class:`SteppedFleet`."""
        play_interval(self._table, self._rules, self._fleets, 0, move, total)

    def measured(self, interval: int) -> list[float]:
        """See :class:`SteppedFleet`."""
        return self._fleets.history[0][interval]

    def snapshot(self) -> dict[str, list[Any]]:
        """Copies of all rows that change."""
        return {name: _copy(getattr(self._fleets, name)[0]) for name in CHANGING}

    def restore(self, state: dict[str, list[Any]]) -> None:
        """Back to a snapshot of a fleet with the same plan; the snapshot stays usable."""
        for name, row in state.items():
            getattr(self._fleets, name)[0] = _copy(row)


CHANGING = (
    *("phase", "old", "running", "clock", "progress", "waiting", "waits"),
    *("count", "carry", "needed", "result", "history", "rates"),
)
"""Fields of ``Fleets`` that an interval writes."""


def check_rows(field: str, state: object, own: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """The rows of a fleet's snapshot as arrays, shaped like those of ``own``, a snapshot of such a fleet.

    Raises:
        InvalidValueError: they are something else; names ``field`` and the row.
    """
    if not isinstance(state, Mapping) or set(cast("Mapping[Any, Any]", state)) != set(own):
        raise InvalidValueError(
            field, type(cast("object", state)).__name__, "what snapshot() of such a fleet gave"
        )
    given = cast("Mapping[str, Any]", state)
    rows: dict[str, npt.NDArray[Any]] = {}
    for name, mine in own.items():
        wanted = np.shape(mine)
        try:
            rows[name] = np.asarray(given[name])
        except ValueError:
            raise InvalidValueError(f"{field}.{name}", "lists of uneven length", f"shape {wanted}") from None
        if (
            type(given[name]) is not type(mine)
            or rows[name].shape != wanted
            or rows[name].dtype.kind not in "iuf"
        ):
            raise InvalidValueError(
                f"{field}.{name}", f"shape {rows[name].shape}", f"numbers of shape {wanted}"
            )
    return rows


def _copy(row: list[Any]) -> list[Any]:
    return [entry[:] if isinstance(entry, list) else entry for entry in row]
