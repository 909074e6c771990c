"""Reward of InferenceGym/Serving-v0: alpha*T - beta*L - gamma*V - delta*C, each term in [0, 1].

========  =====================================================  =========================================
term      raw value                                              bounded to [0, 1] by
========  =====================================================  =========================================
T         tokens/s / the task's measured maximum                 ``min(1, raw)``
L         x = TTFT p50 / SLO                                     ``min(1, x)/2 + log1p(max(0, x-1))/log1p(999)/2``
V         SLO violation rate + memory over the limit / 10 GB     ``min(1, raw)``
C         x = cost_per_1k / 0.005                                ``x / (1 + x)``
========  =====================================================  =========================================

A linear L or C would sit at its bound through every overload, where a learner most needs to know which way
is less bad: L has half its range below the SLO and keeps a logarithmic slope up to a thousand times the
SLO; C never saturates. V counts memory above the task's limit like the grader does (10 GB to the end of
the scale), so that reward and grade pull the same way.
"""

from __future__ import annotations

from math import log1p
from typing import NamedTuple

from env.serving_tasks import RewardWeights

__all__ = ["COST_SCALE_CENTS_PER_1K", "RewardFunction", "RewardTerms"]

COST_SCALE_CENTS_PER_1K = 0.005
"""Cost at which C is one half: US cents per 1,000 tokens of an A100 that is loaded to capacity."""

MEMORY_SLOPE_GB = 10.0
"""Memory above the limit that counts as a full violation, GiB (36 to 46 in the memory grade)."""

_LATENCY_RANGE = log1p(999.0)


class RewardTerms(NamedTuple):
    """Signed parts of a reward; they sum to it."""

    throughput: float
    latency: float
    violations: float
    cost: float


class RewardFunction:
    """Reward of one task.

    Args:
        weights: non-negative; alpha + beta + gamma + delta bounds |reward|.
        max_tokens_per_s: tokens/s that counts as T = 1.
        ttft_slo_ms: objective that L is measured against.
        memory_limit_gb: GiB above which memory counts as violation, or None.
    """

    def __init__(
        self,
        weights: RewardWeights,
        max_tokens_per_s: float,
        ttft_slo_ms: float,
        memory_limit_gb: float | None,
    ) -> None:
        self.weights = weights
        self._max_tokens_per_s = max_tokens_per_s
        self._ttft_slo_ms = ttft_slo_ms
        self._memory_limit_gb = 1e9 if memory_limit_gb is None else memory_limit_gb

    def __call__(
        self,
        tokens_per_s: float,
        ttft_p50_ms: float,
        violation_rate: float,
        memory_gb: float,
        cost_per_1k: float,
    ) -> RewardTerms:
        """Signed terms of one step; their sum is the reward."""
        weights = self.weights
        throughput = min(1.0, tokens_per_s / self._max_tokens_per_s)
        excess_gb = max(0.0, memory_gb - self._memory_limit_gb)
        violations = min(1.0, violation_rate + excess_gb / MEMORY_SLOPE_GB)
        cost = cost_per_1k / COST_SCALE_CENTS_PER_1K
        return RewardTerms(
            weights.alpha * throughput,
            -weights.beta * latency_term(ttft_p50_ms / self._ttft_slo_ms),
            -weights.gamma * violations,
            -weights.delta * cost / (1.0 + cost),
        )


def latency_term(ratio: float) -> float:
    """L in [0, 1] from TTFT p50 / SLO: linear up to the SLO (one half), logarithmic to a thousand times it."""
    if ratio <= 1.0:
        return 0.5 * ratio
    return min(1.0, 0.5 + 0.5 * log1p(ratio - 1.0) / _LATENCY_RANGE)
