"""State of N fleets as arrays (or lists), one row each: what :mod:`simulator.autoscaling.kernel` works on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from inferencegym.models.autoscaling import MAX_REPLICAS
from simulator.autoscaling.plan import INTERVAL_S, INTERVALS, FleetConfig, Plan

__all__ = ["COUNT", "MEASURED", "RESULT", "SLOTS", "TIMEOUT_S", "WAIT_BINS", "Fleets", "Rules", "put_plan"]

TIMEOUT_S = 30
"""Clients that wait longer than this for their first token give up."""

WAIT_BINS = 32
"""Requests wait by the second of their arrival, modulo this. Of waits, the last bin is "gave up"."""

SLOTS = 6 * MAX_REPLICAS
"""Replicas at once: a doubled fleet in a rolling update, and draining ones."""


def _columns(text: str) -> dict[str, int]:
    return {name: index for index, name in enumerate(text.split())}


COUNT = _columns(
    "live now target queued launched paused direction changed old ready pending draining warming"
)
"""Whole numbers of a fleet. ``direction`` and ``changed``: sign and interval of the last change of target."""

MEASURED = _columns(
    "latency cpu error_rate traffic queue_depth arrival_rate_rps concurrency concurrency_6s cpu_steady "
    "kv_occupancy arrival_rate_5m_rps arrival_trend_rps_per_min"
)
"""What monitoring reports about an interval; it reaches the agent late."""

_HAPPENED = _columns(
    "arrived served timed_out failed corrupted running ttft_p50_ms ttft_p95_ms tpot_ms "
    "replicas_ready replicas_pending replicas_draining replicas_target target_change reversal "
    "replica_seconds required_replicas cheapest_replica_seconds outage healthy"
)

RESULT = MEASURED | {name: len(MEASURED) + column for name, column in _HAPPENED.items()}
"""What really happened in an interval."""


class Rules(NamedTuple):
    """What every fleet of a task has in common."""

    warm_up_s: float
    start_up_cpu: float
    mean_cold_start_s: float

    @classmethod
    def of(cls, config: FleetConfig) -> Rules:
        """The rules of a task."""
        low, high = config.cold_start_s
        return cls(config.warm_up_s, config.start_up_cpu, 0.5 * (low + high))


class Fleets(NamedTuple):
    """N fleets and their plans, row by row. Slots 0 to ``live - 1`` of a row are its replicas."""

    phase: Any
    """(N, SLOTS) PENDING, READY or DRAINING"""
    old: Any
    """(N, SLOTS) 1 for a replica that a rolling update is to replace"""
    running: Any
    """(N, SLOTS) requests in the replica"""
    clock: Any
    """(N, SLOTS) seconds until a pending replica is ready; seconds since, afterwards"""
    progress: Any
    """(N, SLOTS) share of the next request to finish that is done"""
    waiting: Any
    """(N, WAIT_BINS) requests in the queue by second of arrival"""
    waits: Any
    """(N, WAIT_BINS) requests of this interval by seconds waited"""
    count: Any
    """(N, COUNT)"""
    carry: Any
    """(N, 2) fractions of a request carried over: prefills allowed, responses corrupted"""
    needed: Any
    """(N, MAX_REPLICAS + 1) interval in which the k-th replica was last needed"""
    result: Any
    """(N, RESULT)"""
    history: Any
    """(N, INTERVALS, MEASURED)"""
    rates: Any
    """(N, INTERVALS) arrivals per second of each interval"""
    rate: Any
    noise: Any
    cold: Any
    crashes: Any
    zone: Any
    sick: Any
    source: Any
    update: Any
    pause: Any

    @classmethod
    def empty(cls, count: int) -> Fleets:
        """Zeros for ``count`` fleets."""
        whole = {"phase": SLOTS, "old": SLOTS, "running": SLOTS, "waiting": WAIT_BINS, "waits": WAIT_BINS}
        whole |= {"count": len(COUNT), "needed": MAX_REPLICAS + 1}
        whole |= dict.fromkeys(("crashes", "source", "update", "pause"), INTERVALS)
        real = {"clock": SLOTS, "progress": SLOTS, "carry": 2, "result": len(RESULT)}
        real |= dict.fromkeys(("rates", "rate", "zone", "sick"), INTERVALS)
        real |= {"noise": INTERVALS * INTERVAL_S, "cold": 256}
        arrays: dict[str, Any] = {
            name: np.zeros((count, width), dtype=np.int64) for name, width in whole.items()
        }
        arrays |= {name: np.zeros((count, width)) for name, width in real.items()}
        arrays["history"] = np.zeros((count, INTERVALS, len(MEASURED)))
        return cls(**arrays)

    def as_lists(self) -> Fleets:
        """The same as nested lists, which plain Python reads and writes faster."""
        return Fleets._make(array.tolist() for array in self)


_PLAN_FIELDS = {
    "rate": "rate_rps",
    "noise": "noise",
    "cold": "cold_start_s",
    "crashes": "crashes",
    "zone": "zone_share",
    "sick": "sick_share",
    "source": "source",
    "update": "update",
    "pause": "pause",
}


def put_plan(fleets: Fleets, row: int, plan: Plan) -> None:
    """Write an episode's future into a row."""
    for name, source in _PLAN_FIELDS.items():
        place, values = getattr(fleets, name)[row], getattr(plan, source)
        place[:] = values.tolist() if isinstance(place, list) else values
