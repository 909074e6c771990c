"""Score of InferenceGym/Autoscaling-v0 as a running tally, and the parts it is made of.

The observation shows the score so far and the grader computes the final one, both from a :class:`Tally`.

===============  ======  ====================================================================================
part             weight  in [0, 1]
===============  ======  ====================================================================================
survival           0.05  share of the episode before an outage of two minutes; 1 if there was none
health             0.30  share of intervals inside every threshold: 0 at one half, 1 at all of them
slo_closeness      0.15  mean over intervals of the closeness of latency, error rate and cpu
efficiency         0.40  1 − 2 × (replica-seconds paid ÷ those of the cheapest schedule − 1), held to [0, 1],
                         times the share of healthy intervals: not serving is no saving
discipline         0.10  1 − changes of direction within 5 minutes ÷ 12, held to [0, 1]
===============  ======  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.kernels.sums import ordered_sum

__all__ = [
    "COLLAPSE_INTERVALS",
    "CPU_BAND",
    "WEIGHTS",
    "Tally",
    "closeness",
    "cpu_closeness",
]

WEIGHTS: dict[str, float] = {
    "survival": 0.05,
    "health": 0.30,
    "slo_closeness": 0.15,
    "efficiency": 0.40,
    "discipline": 0.10,
}

CPU_BAND = (0.6, 0.9)
"""Utilisation that is neither waste nor danger."""

COLLAPSE_INTERVALS = 8
"""An outage of two minutes is one that the service does not survive."""

EXCESS_AT_ZERO = 0.5
"""Replica-seconds above the cheapest schedule, as a share of it, that leave no efficiency."""

FLIPS_AT_ZERO = 12
"""Changes of direction within five minutes that leave nothing of the discipline part: one in five minutes."""


def cpu_closeness(cpu: float) -> float:
    """1 inside the band; falls linearly to 0 at an idle and at a saturated fleet."""
    low, high = CPU_BAND
    if cpu < low:
        return cpu / low
    if cpu > high:
        return max(0.0, (1.0 - cpu) / (1.0 - high))
    return 1.0


def closeness(latency: float, cpu: float, error_rate: float) -> float:
    """Mean closeness of the three metrics to their objectives: 1 at or below them, 1 ÷ ratio above."""
    near = 1.0 if latency <= 1.0 else 1.0 / latency
    clean = 1.0 if error_rate <= 1.0 else 1.0 / error_rate
    return (near + clean + cpu_closeness(cpu)) / 3.0


@dataclass(slots=True)
class Tally:
    """Sums over the intervals played."""

    steps: int = 0
    healthy: int = 0
    closeness: float = 0.0
    paid_s: float = 0.0
    cheapest_s: float = 0.0
    flips: int = 0
    changes: int = 0
    outage_run: int = 0
    """intervals that the present outage has lasted"""
    collapsed_at: int = 0
    """interval at which an outage had lasted two minutes; 0: none has"""

    def add(self, metrics: Mapping[str, float]) -> None:
        """Count an interval (``MetricsSnapshot`` fields)."""
        self.steps += 1
        self.healthy += 1 if metrics["healthy"] else 0
        self.closeness += closeness(metrics["latency"], metrics["cpu_steady"], metrics["error_rate"])
        self.paid_s += metrics["replica_seconds"]
        self.cheapest_s += metrics["cheapest_replica_seconds"]
        self.flips += 1 if metrics["reversal"] else 0
        self.changes += 1 if metrics["target_change"] else 0
        self.outage_run = self.outage_run + 1 if metrics["outage"] else 0
        if self.outage_run >= COLLAPSE_INTERVALS and not self.collapsed_at:
            self.collapsed_at = self.steps

    @property
    def survived(self) -> bool:
        """No outage has lasted two minutes."""
        return self.collapsed_at == 0

    @property
    def healthy_ratio(self) -> float:
        """Share of healthy intervals."""
        return self.healthy / self.steps if self.steps else 0.0

    def parts(self) -> dict[str, float]:
        """The parts of the score."""
        steps = max(1, self.steps)
        excess = self.paid_s / self.cheapest_s - 1.0 if self.cheapest_s > 0.0 else 1.0
        return {
            "survival": 1.0 if self.survived else self.collapsed_at / steps,
            "health": max(0.0, 2.0 * self.healthy_ratio - 1.0),
            "slo_closeness": self.closeness / steps,
            "efficiency": self.healthy_ratio * min(1.0, max(0.0, 1.0 - excess / EXCESS_AT_ZERO)),
            "discipline": max(0.0, 1.0 - self.flips / FLIPS_AT_ZERO),
        }

    def score(self) -> float:
        """The score of what was played, in [0, 1]."""
        if not self.steps:
            return 0.0
        parts = self.parts()
        return min(1.0, ordered_sum(weight * parts[name] for name, weight in WEIGHTS.items()))
