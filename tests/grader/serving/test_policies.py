"""Small policies: constants, two modes with a memory, and their descriptions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grader.serving.policies import Constant, TwoMode, policy_from_dict
from inferencegym.models.serving import PriorityDistribution, ServeAction, ServeObservation

QUIET, BUSY = ServeAction(batch_size=16), ServeAction(batch_size=128, prefill_disagg=True)


def seen(arrival_rate: float, queue_depth: int) -> ServeObservation:
    return ServeObservation(
        queue_depth=queue_depth,
        mean_prompt_len=100.0,
        arrival_rate=arrival_rate,
        kv_cache_occupancy=0.5,
        ttft_p50_ms=100.0,
        tpot_p50_ms=10.0,
        slo_violation_rate=0.0,
        gpu_memory_used_gb=30.0,
        spec_accept_rate=0.0,
        priority_distribution=PriorityDistribution(interactive=1.0, batch=0.0, best_effort=0.0),
        timestep=3,
        cost_so_far=0.1,
    )


def test_a_constant_is_constant():
    policy = Constant(QUIET)
    policy.reset()
    assert {policy.act(seen(rate, 500)) for rate in (0.0, 900.0)} == {QUIET}
    assert Constant().act(seen(1.0, 1)) == ServeAction()


def test_two_modes_switch_on_either_sign_and_off_when_the_backlog_is_gone():
    policy = TwoMode(QUIET, BUSY, rate_on_rps=40.0, queue_on=20, queue_off=2)
    steps: list[tuple[float, int, ServeAction]] = [
        (30.0, 19, QUIET),
        (40.0, 0, BUSY),  # the rate alone
        (39.0, 3, BUSY),  # the backlog keeps it
        (39.0, 2, QUIET),
        (30.0, 20, BUSY),  # the queue alone
        (60.0, 0, BUSY),
        (30.0, 0, QUIET),
    ]
    for rate, queue, expected in steps:
        assert policy.act(seen(rate, queue)) == expected


def test_reset_forgets_the_burst():
    policy = TwoMode(QUIET, BUSY, 40.0, 20, 2)
    policy.act(seen(90.0, 100))
    policy.reset()
    assert policy.act(seen(30.0, 10)) == QUIET


@pytest.mark.parametrize("policy", [Constant(BUSY), TwoMode(QUIET, BUSY, 40.5, 20, 2)])
def test_a_description_brings_the_policy_back(policy: Any):
    assert policy_from_dict(json.loads(json.dumps(policy.to_dict()))) == policy
