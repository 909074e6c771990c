"""Reward of InferenceGym/Serving-v0: alpha*T - beta*L - gamma*V - delta*C, each term in [0, 1].

====  ==================================================  ================================================
term  raw value                                           bounded to [0, 1] by
====  ==================================================  ================================================
T     tokens/s / the task's measured maximum              ``min(1, raw)``
L     TTFT p50 / SLO                                      ``half_linear(raw, 1000)``
V     SLO violation rate + memory over the limit / 10 GB  ``min(1, raw)``
C     cost_per_1k / 0.005                                 ``knee(raw / 5, 9/10, 6)``
====  ==================================================  ================================================

``knee(x, at, top)`` is ``at * x`` up to x = 1, then logarithmic, reaching 1 at ``top``. Terms cut off at 1
would sit at their bound through every overload, where a learner most needs to know which way is less bad.
L has a quarter of its range below the SLO (faster than promised is worth little) and a slope up to a
thousand times it. C has nine tenths up to 0.025 cents per 1,000 tokens, the pace that spends the cost
budget of 5.0 in 200 steps, and a slope up to the 0.15 cents that stand for "nothing served". V counts memory
above the task's limit on the scale of the memory grade (10 GB). With these bounds reward and grade rank
policies alike; with half of L below the SLO, and half of C below the pace, they did not
(docs/environments/serving.md).
"""

from __future__ import annotations

from typing import NamedTuple

from env.knee import knee
from env.serving.tasks import RewardWeights

__all__ = ["COST_SCALE_CENTS_PER_1K", "RewardFunction", "RewardTerms"]

COST_SCALE_CENTS_PER_1K = 0.005
"""Unit of C: US cents per 1,000 tokens of an A100 that processes some 16,000 tokens a second, its best."""

COST_KNEE = 5.0
"""Cost, in units of the scale, at the knee of C: 0.025 cents, the mean pace of the cost budget."""

COST_AT_KNEE, COST_TOP = 0.9, 6.0
LATENCY_AT_KNEE, LATENCY_TOP = 0.25, 1000.0
"""Value of C and L at their knees, and the multiples of the knee at which they reach 1."""

MEMORY_SLOPE_GB = 10.0
"""Memory above the limit that counts as a full violation, GiB (36 to 46 in the memory grade)."""


class RewardTerms(NamedTuple):
    """Signed parts of a reward; they sum to it."""

    throughput: float
    latency: float
    violations: float
    cost: float


class RewardFunction:
    """Reward of one task.

    Args:
        weights: non-negative; the reward lies between -(beta + gamma + delta) and alpha.
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
        self.max_tokens_per_s = max_tokens_per_s
        self.ttft_slo_ms = ttft_slo_ms
        self.memory_limit_gb = 1e9 if memory_limit_gb is None else memory_limit_gb

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
        throughput = min(1.0, tokens_per_s / self.max_tokens_per_s)
        excess_gb = max(0.0, memory_gb - self.memory_limit_gb)
        violations = min(1.0, violation_rate + excess_gb / MEMORY_SLOPE_GB)
        cost = cost_per_1k / (COST_SCALE_CENTS_PER_1K * COST_KNEE)
        return RewardTerms(
            weights.alpha * throughput,
            -weights.beta * knee(ttft_p50_ms / self.ttft_slo_ms, LATENCY_AT_KNEE, LATENCY_TOP),
            -weights.gamma * violations,
            -weights.delta * knee(cost, COST_AT_KNEE, COST_TOP),
        )
