"""What must hold at every step of every episode, whatever the agent does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from env.serving.episode import make_env
from inferencegym.models.serving import (
    EpisodeState,
    MetricsSnapshot,
    ServeAction,
    ServeObservation,
    WorkloadState,
)
from tests.env.episodes import (
    ACTIONS,
    LENGTH,
    OUT_OF_MEMORY,
    PLANS,
    SEEDS,
    TASK_IDS,
    held,
    random_actions,
    started,
)
from tests.simulator.properties import bounded

BOUNDED = bounded(30)

OBSERVATION = Draft202012Validator(ServeObservation.model_json_schema())
METRICS = Draft202012Validator(MetricsSnapshot.model_json_schema())
WORKLOAD = Draft202012Validator(WorkloadState.model_json_schema())


def check_observation(observation: ServeObservation) -> None:
    raw = observation.model_dump(mode="json")
    OBSERVATION.validate(raw)
    assert ServeObservation.model_validate(raw) == observation
    assert math.fsum(raw["priority_distribution"].values()) == pytest.approx(1.0, abs=1e-12)


@BOUNDED
@given(st.sampled_from(TASK_IDS), SEEDS, PLANS)
def test_everything_stays_in_its_declared_range(task_id: str, seed: int, plan: list[tuple[ServeAction, int]]):
    env = make_env(task_id, seed)
    check_observation(env.reset())
    total = 0.0
    for step, action in enumerate(held(plan), start=1):
        observation, reward, done, info = env.step(action)
        check_observation(observation)
        METRICS.validate(info["metrics"])
        MetricsSnapshot.model_validate(info["metrics"])
        WORKLOAD.validate(info["workload"])
        WorkloadState.model_validate(info["workload"])
        ServeAction.model_validate(info["action"])
        assert -1.0 <= reward <= 1.0
        assert reward == sum(info["reward_terms"].values())
        assert info["reward_terms"]["throughput"] >= 0.0
        assert all(info["reward_terms"][name] <= 0.0 for name in ("latency", "violations", "cost"))
        assert observation.timestep == info["timestep"] == step
        assert done is (step == LENGTH)
        total += reward
    state = EpisodeState.model_validate(env.state())
    assert (state.step_count, state.done, state.seed) == (LENGTH, True, seed)
    assert state.cumulative_reward == total


@BOUNDED
@given(st.sampled_from(TASK_IDS), SEEDS, PLANS)
def test_requests_are_conserved_at_every_step(task_id: str, seed: int, plan: list[tuple[ServeAction, int]]):
    """arrived = finished + waiting + running + dropped: by the engine's own counts, and by summing info."""
    env = make_env(task_id, seed)
    first = env.reset()
    engine = env._engine
    assert engine is not None
    arrived, finished, dropped = engine.counts
    assert arrived == finished + dropped + first.queue_depth + engine.running
    for action in held(plan):
        observation, _, _, info = env.step(action)
        requests = info["requests"]
        arrived += requests["arrived"]
        finished += requests["finished"]
        dropped += requests["dropped"]
        assert arrived == finished + dropped + requests["waiting"] + requests["running"]
        assert (arrived, finished, dropped) == engine.counts
        assert observation.queue_depth == requests["waiting"]


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_random_actions_reach_every_hard_case(task_id: str):
    """The properties above mean something only if OOM, evictions and rejections do happen."""
    ooms = evictions = dropped = finished = 0
    for seed in range(4):
        env = started(task_id, seed)
        for action in random_actions(seed):
            _, _, _, info = env.step(action)
            ooms += info["metrics"]["oom"]
            evictions += info["metrics"]["eviction_events"]
            dropped += info["requests"]["dropped"]
            finished += info["requests"]["finished"]
    assert min(ooms, evictions, dropped, finished) > 5


@BOUNDED
@given(st.sampled_from(TASK_IDS), SEEDS, st.lists(ACTIONS, min_size=2, max_size=2))
def test_actions_change_what_comes_next(task_id: str, seed: int, pair: list[ServeAction]):
    """Arrivals are the world's; queue and running sequences are what the agent made of them."""
    runs = []
    for action in pair:
        env = started(task_id, seed)
        runs.append([env.step(action)[3] for _ in range(60)])
    assert [one["workload"]["arrival_rate"] for one in runs[0]] == [
        one["workload"]["arrival_rate"] for one in runs[1]
    ]
    assert [one["requests"]["arrived"] for one in runs[0]] == [one["requests"]["arrived"] for one in runs[1]]
    if abs(pair[0].batch_size - pair[1].batch_size) > 8:
        # Unless neither cap ever binds, or both run out of memory.
        both = [[one["requests"]["running"] for one in run] for run in runs]
        binds = max(both[0] + both[1]) >= min(one.batch_size for one in pair)
        ooms = all(one["metrics"]["oom"] for run in runs for one in run)
        assert both[0] != both[1] or not binds or ooms


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_the_out_of_memory_rule(task_id: str):
    env = started(task_id, 3)
    for _ in range(60):
        before = env.step(ServeAction(batch_size=32))[3]
        assert not before["metrics"]["oom"]
    observation, reward, _, info = env.step(OUT_OF_MEMORY)
    metrics, requests = info["metrics"], info["requests"]
    assert metrics["oom"]
    assert metrics["gpu_memory_gb"] == observation.gpu_memory_used_gb == 40.0
    assert (metrics["tokens_per_sec"], requests["finished"], requests["running"]) == (0.0, 0, 0)
    lost = before["requests"]["running"] + before["requests"]["waiting"] + requests["arrived"]
    assert requests["waiting"] + requests["dropped"] == lost
    assert metrics["slo_violation_rate"] == observation.slo_violation_rate == 1.0
    assert metrics["slo_violations"] > 0
    assert metrics["slo_violations"] % 5 == 0
    assert reward < 0.0
    # One setting later everything goes on, from the prompts.
    after = env.step(ServeAction(batch_size=32))[3]
    assert not after["metrics"]["oom"]
    assert after["requests"]["running"] > 0


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_an_oom_counts_violations_five_times(task_id: str):
    """Against an engine that serves nothing for another reason: what is late is late, times five."""
    env = started(task_id, 3)
    for _ in range(40):
        env.step(ServeAction(batch_size=1))
    kept = env.snapshot()
    counted = env.step(OUT_OF_MEMORY)[3]
    env.restore(kept)
    plain = env.step(ServeAction(batch_size=1))[3]
    assert counted["metrics"]["slo_violations"] / 5 == pytest.approx(
        plain["metrics"]["slo_violations"], abs=2
    )
