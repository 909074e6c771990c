"""Reward of InferenceGym/Autoscaling-v0, in [-1, 0.5]: the sum of eight signed terms.

===============  =================================================================================
term             value
===============  =================================================================================
latency          −0.20 knee(latency, 1/4, 15): a quarter up to the objective, then logarithmic up to a
                 time-out (30 s)
error_rate       −0.20 knee(error_rate, 1/4, 100): likewise up to "everything failed"
cpu              −0.10 × distance from the band 0.6–0.9, see ``cpu_closeness``
replica_cost     −0.25 × replicas paid above those needed, as a share of those needed, at most 1
action_cost      −0.01 for a change of the target, −0.05 for one that turns against the last within 5 minutes
health_bonus     +0.30 inside every threshold
progress_bonus   +0.20 × share of the episode played × healthy ratio so far, in a healthy interval
outage_penalty   −0.20 while most requests fail or no replica is ready
===============  =================================================================================

It is computed from what happened, not from what the agent sees. The grade is not made from it.
"""

from __future__ import annotations

from typing import NamedTuple

from env.autoscaling.score import cpu_closeness
from env.knee import knee
from inferencegym.models.autoscaling import AUTOSCALING_STEPS

__all__ = ["AutoscalingTerms", "reward_terms"]


class AutoscalingTerms(NamedTuple):
    """Signed parts of a reward; they sum to it."""

    latency: float
    error_rate: float
    cpu: float
    replica_cost: float
    action_cost: float
    health_bonus: float
    progress_bonus: float
    outage_penalty: float


def reward_terms(
    latency: float,
    cpu: float,
    error_rate: float,
    replicas_paid: float,
    replicas_required: float,
    change: float,
    reversal: float,
    healthy: float,
    outage: float,
    step: int,
    healthy_ratio: float,
) -> AutoscalingTerms:
    """Terms of the interval just played; ``step`` counts it, and ``healthy_ratio`` includes it."""
    excess = min(max(replicas_paid / replicas_required - 1.0, 0.0), 1.0)
    price = 0.05 if reversal > 0.0 else 0.01
    action = -price if change != 0.0 else 0.0
    return AutoscalingTerms(
        -0.20 * knee(latency, 0.25, 15.0),
        -0.20 * knee(error_rate, 0.25, 100.0),
        -0.10 * (1.0 - cpu_closeness(cpu)),
        -0.25 * excess,
        action,
        0.30 * healthy,
        0.20 * healthy * healthy_ratio * step / AUTOSCALING_STEPS,
        -0.20 * outage,
    )
