"""Traffic of an episode: the distributions of the tasks, and the signals that an agent sees of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.serving.traffic.config import WorkloadConfig, get_workload
from simulator.serving.traffic.workload import (
    BURST,
    COOLDOWN,
    EMA_STEPS,
    JITTER_SIGMA,
    MIX_WINDOW_STEPS,
    STEADY,
    WARMUP,
    WorkloadGenerator,
    ema,
)
from tests.simulator.engines import drawn, workload
from tests.simulator.properties import bounded

TASK_IDS = ["task1", "task2", "task3"]
LONG = 20_000
"""Seconds of an episode over which shares and means settle."""


def test_arrivals_are_poisson():
    traffic = drawn(workload(10.0), LONG)
    counts = np.diff(traffic.first_request)
    # Standard errors over 20,000 seconds: 0.022 of the mean, 1 % of the variance.
    assert counts.mean() == pytest.approx(10.0, abs=0.1)
    assert counts.var() == pytest.approx(10.0, rel=0.05)


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_requests_lie_in_their_seconds_and_in_order(task_id: str):
    traffic = drawn(get_workload(task_id))
    assert (np.diff(traffic.arrival) >= 0.0).all()
    second = np.repeat(np.arange(201), np.diff(traffic.first_request))
    np.testing.assert_array_equal(np.floor(traffic.arrival), second)
    assert traffic.first_request[0] == 0
    assert traffic.first_request[-1] == len(traffic.arrival) == len(traffic.prompt) == len(traffic.output)


@bounded(30)
@given(st.sampled_from(TASK_IDS), st.integers(0, 2**63 - 1))
def test_signals_stay_in_their_ranges(task_id: str, seed: int):
    config = get_workload(task_id)
    traffic = drawn(config, seed=seed)
    assert traffic.prompt.min() >= 32
    assert traffic.prompt.max() <= 8192
    assert traffic.output.min() >= config.outputs.low
    assert traffic.output.max() <= config.outputs.high
    assert (traffic.prompt == np.rint(traffic.prompt)).all()
    assert (traffic.output == np.rint(traffic.output)).all()
    assert ((traffic.prompt_ema_tokens >= 32) & (traffic.prompt_ema_tokens <= 8192)).all()
    assert ((traffic.iteration_share >= 0.0) & (traffic.iteration_share < 1.0)).all()
    assert ((traffic.mix >= 0.0) & (traffic.mix <= 1.0)).all()
    np.testing.assert_allclose(traffic.mix.sum(axis=1), 1.0, rtol=1e-12)
    assert (traffic.jitter >= 0.5).all()
    assert {traffic.phase(second) for second in range(201)} <= {"warmup", "steady", "burst", "cooldown"}


def test_prompts_of_task_1_are_uniform():
    prompts = drawn(get_workload("task1"), 2000).prompt
    assert (prompts.min(), prompts.max()) == (64, 128)
    assert prompts.mean() == pytest.approx(96.0, abs=0.5)


def test_prompts_of_task_2_are_lognormal_and_clamped():
    prompts = drawn(get_workload("task2"), LONG).prompt
    assert prompts.min() == 32
    assert prompts.max() == 8192
    assert np.median(prompts) == pytest.approx(np.exp(5.2), rel=0.02)
    inner = np.log(prompts[(prompts > 32) & (prompts < 8192)])
    quartiles = np.quantile(np.log(prompts), [0.25, 0.75])
    assert quartiles[1] - quartiles[0] == pytest.approx(2 * 0.6745 * 1.3, rel=0.02)
    assert 0.88 < len(inner) / len(prompts) < 0.93


def test_prompts_of_task_3_are_short_or_long():
    traffic = drawn(get_workload("task3"), LONG)
    long = traffic.prompt >= 4096
    short = traffic.prompt[~long]
    assert (short.min(), short.max()) == (32, 128)
    assert long.mean() == pytest.approx(0.30, abs=0.01)
    assert not long[traffic.priority == 0].any()


def test_class_mix_of_task_3():
    shares = np.bincount(drawn(get_workload("task3"), LONG).priority) / len(
        drawn(get_workload("task3"), LONG).priority
    )
    np.testing.assert_allclose(shares, [0.2, 0.5, 0.3], atol=0.01)


@pytest.mark.parametrize("replicas", [1, 4, 11])
def test_round_robin_gives_an_engine_its_share(replicas: int):
    traffic = drawn(workload(30.0, replicas=replicas), LONG)
    counts = np.diff(traffic.first_request)
    assert counts.mean() == pytest.approx(30.0 / replicas, rel=0.02)
    # The observed rate is the service's.
    assert traffic.rate_ema_rps.mean() == pytest.approx(30.0, rel=0.02)


@pytest.mark.parametrize(("task_id", "before", "within"), [("task2", 25.0, 80.0), ("task3", 30.0, 300.0)])
def test_bursts_are_rates_by_the_clock(task_id: str, before: float, within: float):
    config, start = get_workload(task_id), 21
    arrivals, since = config.arrivals, np.arange(201) - start
    rate, phase = WorkloadGenerator(config).rates_from(start)
    burst = (since >= 0) & (since % arrivals.period_s < arrivals.burst_s)
    np.testing.assert_array_equal(phase == BURST, burst)
    np.testing.assert_array_equal(rate, np.where(burst, within, before))
    after = start + arrivals.burst_s
    assert (phase[after : after + arrivals.cooldown_s] == COOLDOWN).all()
    assert phase[after + arrivals.cooldown_s] in (STEADY, BURST)


@pytest.mark.parametrize("task_id", ["task2", "task3"])
def test_the_first_burst_comes_when_it_likes(task_id: str):
    config = get_workload(task_id)
    starts = {int(np.argmax(drawn(config, seed=seed).phase_index == BURST)) for seed in range(40)}
    assert config.arrivals.first_burst_s[0] <= min(starts)
    assert max(starts) <= config.arrivals.first_burst_s[1]
    assert len(starts) > 8


def test_phases_of_a_steady_workload():
    assert drawn(get_workload("task1")).phase_index.tolist() == [WARMUP] * 10 + [STEADY] * 191


def test_ema_has_a_span_of_ten_steps():
    step = ema(np.array([0.0] + [1.0] * 200))
    assert step[1] == pytest.approx(2.0 / (EMA_STEPS + 1))
    assert step[10] == pytest.approx(1.0 - (9.0 / 11.0) ** 10)
    assert ema(np.array([7.0, 7.0, 7.0])).tolist() == [7.0, 7.0, 7.0]


@pytest.mark.parametrize("config", [*map(get_workload, TASK_IDS), workload(0.3)])
def test_the_mean_prompt_is_an_ema_over_seconds_that_had_arrivals(config: WorkloadConfig):
    traffic = drawn(config)
    level = WorkloadGenerator(config).mean_prompt_tokens()
    for second in range(201):
        prompts = traffic.prompt[traffic.first_request[second] : traffic.first_request[second + 1]]
        if len(prompts):
            level += 2.0 / (EMA_STEPS + 1) * (prompts.mean() - level)
        assert traffic.prompt_ema_tokens[second] == pytest.approx(min(max(level, 32.0), 8192.0))


@pytest.mark.parametrize("rate_rps", [0.02, 30.0])
def test_the_mix_is_that_of_the_last_fifty_seconds(rate_rps: float):
    config = workload(rate_rps, class_mix=(0.2, 0.5, 0.3))
    traffic = drawn(config)
    empty = 0
    for second in range(201):
        first = traffic.first_request[max(0, second + 1 - MIX_WINDOW_STEPS)]
        recent = traffic.priority[first : traffic.first_request[second + 1]]
        empty += len(recent) == 0
        shares = np.bincount(recent, minlength=3) / len(recent) if len(recent) else config.class_mix
        np.testing.assert_allclose(traffic.mix[second], shares, rtol=1e-12)
    assert (empty > 0) is (rate_rps < 1.0)


def test_jitter_is_five_percent():
    jitter = drawn(workload(0.1), LONG).jitter
    assert jitter.shape == (LONG + 1, 3)
    np.testing.assert_allclose(jitter.mean(axis=0), 1.0, atol=0.002)
    np.testing.assert_allclose(jitter.std(axis=0), JITTER_SIGMA, rtol=0.03)


def columns(traffic: Any) -> list[Any]:
    values = dataclasses.asdict(traffic).values()
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in values]


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_a_seed_fixes_the_traffic(task_id: str):
    config = get_workload(task_id)
    assert columns(drawn(config, seed=3)) == columns(drawn(config, seed=3))
    assert columns(drawn(config, seed=3)) != columns(drawn(config, seed=4))


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_means_of_lengths_are_those_of_the_draws(task_id: str):
    config = get_workload(task_id)
    traffic = drawn(config, LONG)
    generator = WorkloadGenerator(config)
    assert generator.mean_prompt_tokens() == pytest.approx(traffic.prompt.mean(), rel=0.02)
    assert traffic.output_mean_tokens == pytest.approx(traffic.output.mean(), rel=0.01)
