"""The reward's bounding: exact at its anchors, monotone, never flat where a learner needs a slope."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env.knee import knee
from env.serving.reward import RewardFunction, RewardTerms
from env.serving.tasks import RewardWeights
from tests.simulator.properties import bounded

WEIGHTS = RewardWeights(0.4, 0.25, 0.35, 0.15)
REWARD = RewardFunction(WEIGHTS, max_tokens_per_s=5000.0, ttft_slo_ms=200.0, memory_limit_gb=38.0)

IDLE = {
    "tokens_per_s": 0.0,
    "ttft_p50_ms": 0.0,
    "violation_rate": 0.0,
    "memory_gb": 30.0,
    "cost_per_1k": 0.0,
}


def terms(**changes: float) -> RewardTerms:
    return REWARD(**(IDLE | changes))


def test_nothing_costs_nothing():
    assert terms() == (0.0, 0.0, 0.0, 0.0)


def test_throughput_is_a_share_of_the_maximum():
    assert terms(tokens_per_s=2500.0).throughput == pytest.approx(0.2)
    assert terms(tokens_per_s=9000.0).throughput == 0.4


def test_latency_has_a_quarter_below_the_objective_and_a_slope_to_a_thousand_times_it():
    assert terms(ttft_p50_ms=200.0).latency == pytest.approx(-0.25 * 0.25)
    assert terms(ttft_p50_ms=200_000.0).latency == pytest.approx(-0.25)
    waits = [terms(ttft_p50_ms=200.0 * 2.0**power).latency for power in range(-3, 10)]
    assert all(after < before for before, after in pairwise(waits))


def test_violations_add_memory_over_the_limit():
    assert terms(violation_rate=0.5).violations == pytest.approx(-0.175)
    assert terms(memory_gb=38.0).violations == 0.0
    assert terms(memory_gb=39.0).violations == pytest.approx(-0.035)
    assert terms(violation_rate=0.95, memory_gb=40.0).violations == -0.35
    unlimited = RewardFunction(WEIGHTS, 5000.0, 200.0, None)
    assert unlimited(**(IDLE | {"memory_gb": 80.0})).violations == 0.0


def test_cost_has_its_knee_at_the_pace_of_the_budget():
    """The unit is 0.005 cents; 0.025 cents a second spend the budget of 5.0 in 200 seconds."""
    assert terms(cost_per_1k=0.005).cost == pytest.approx(-0.15 * 0.9 / 5)
    assert terms(cost_per_1k=0.025).cost == pytest.approx(-0.15 * 0.9)
    assert terms(cost_per_1k=0.150).cost == pytest.approx(-0.15)
    assert terms(cost_per_1k=0.060).cost > terms(cost_per_1k=0.149).cost


@bounded()
@given(st.floats(0.0, 1e9), st.floats(0.0, 1.0), st.floats(1.5, 1e4))
def test_a_knee_is_bounded_and_meets_its_anchors(ratio: float, at_knee: float, top: float):
    assert 0.0 <= knee(ratio, at_knee, top) <= 1.0
    assert knee(1.0, at_knee, top) == at_knee
    assert knee(top, at_knee, top) == pytest.approx(1.0)
    assert knee(ratio, at_knee, top) <= knee(ratio * 1.1, at_knee, top)
    assert knee(1.0 + 1e-12, at_knee, top) == pytest.approx(at_knee, abs=1e-9)


@bounded()
@given(
    st.floats(0.0, 1e6), st.floats(0.0, 1e6), st.floats(0.0, 1.0), st.floats(0.0, 80.0), st.floats(0.0, 10.0)
)
def test_terms_stay_within_their_weights(
    tokens: float, ttft: float, violations: float, memory: float, cost: float
):
    found = REWARD(tokens, ttft, violations, memory, cost)
    assert 0.0 <= found.throughput <= 0.4
    assert -0.25 <= found.latency <= 0.0
    assert -0.35 <= found.violations <= 0.0
    assert -0.15 <= found.cost <= 0.0
