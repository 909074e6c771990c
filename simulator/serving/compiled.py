"""An engine whose seconds are served by machine code: what :class:`ServingEngine` gives, bit by bit.

Needs numba (extra ``gym``). The first call of a first process compiles for some seconds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from simulator.kernels.compiled import compiled
from simulator.serving import kernel
from simulator.serving.engine import EngineModel, Knobs, SecondResult
from simulator.serving.rows import SECOND, Engines, Tables
from simulator.serving.traffic.vector_traffic import copy_traffic
from simulator.serving.traffic.workload import EpisodeTraffic
from simulator.serving.vector_engine import clear_engine, serve

__all__ = ["CompiledEngine"]


class CompiledEngine:
    """See :class:`simulator.serving.engine.ServingEngine`.

    Args:
        model: deployment constants.
        traffic: the episode's requests; second 0 has not been served yet.
    """

    def __init__(self, model: EngineModel, traffic: EpisodeTraffic) -> None:
        self.model = model
        self.traffic = traffic
        self._tables = _tables_of(model)
        self._engines = Engines.empty(1, max(1, len(traffic.arrival)), traffic.steps + 1)
        copy_traffic(self._engines, 0, traffic)
        _clear_one(self._engines)

    @property
    def second(self) -> int:
        """Next second to serve."""
        return int(self._engines.clock[0, SECOND])

    @property
    def running(self) -> int:
        """Sequences in the engine: decoding, or being prefilled."""
        ints = self._engines.ints[0]
        return int(ints[kernel.RUNNING]) + (1 if ints[kernel.PREFILLING] >= 0 else 0)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Requests arrived, finished and dropped since the start of the episode."""
        arrived, served, dropped = (int(self._engines.ints[0, index]) for index in kernel.COUNTERS)
        return arrived, served, dropped

    def snapshot(self) -> Engines:
        """Copy of everything."""
        return Engines._make(array.copy() for array in self._engines)

    def restore(self, state: Engines) -> None:
        """Back to a snapshot, which stays usable."""
        self._engines = Engines._make(array.copy() for array in state)

    def serve(self, knobs: Knobs) -> SecondResult:
        """Serve the next second under ``knobs`` (already valid) and advance the clock."""
        kv_budget, spec_length, batch_size, prefill_disagg, quant_tier = knobs
        _serve_one(
            self._tables,
            self._engines,
            float(kv_budget),
            int(spec_length),
            int(batch_size),
            bool(prefill_disagg),
            int(quant_tier),
        )
        values: list[Any] = self._engines.results[0].tolist()
        for index in _WHOLE:
            values[index] = int(values[index])
        values[_OOM] = values[_OOM] != 0.0
        return SecondResult(*values)


@lru_cache(maxsize=16)
def _tables_of(model: EngineModel) -> Tables:
    return Tables.of(model)


_OOM = SecondResult._fields.index("oom")
_WHOLE = [
    SecondResult._fields.index(name)
    for name in ("evictions", "violations", "queue_depth", "running", "arrived", "finished", "dropped")
]


def _serve_alone(
    tables: Any, engines: Any, kv_budget: float, spec_length: int, cap: int, disagg: bool, tier: int
) -> None:
    serve(tables, engines, 0, kv_budget, spec_length, cap, disagg, tier)


def _clear_alone(engines: Any) -> None:
    clear_engine(engines, 0)


_serve_one = compiled(_serve_alone, keep=True)
_clear_one = compiled(_clear_alone, keep=True)
