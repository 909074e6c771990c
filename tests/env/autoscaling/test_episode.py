"""Episodes of Autoscaling-v0: what the agent sees and when, rewards, bad input, determinism, snapshots."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env.autoscaling.episode import AutoscalingEnv, make_env, parse_action
from env.autoscaling.info import describe
from env.autoscaling.score import WEIGHTS, Tally, closeness, cpu_closeness
from env.autoscaling.tasks import TASKS
from inferencegym.errors import (
    EpisodeDoneError,
    EpisodeNotStartedError,
    InvalidValueError,
    TracePackError,
    UnknownNameError,
)
from inferencegym.models.autoscaling import (
    AUTOSCALING_STEPS,
    MAX_REPLICAS,
    AutoscalingAction,
    AutoscalingObservation,
    RewardBreakdown,
)

LISTED = [task_id for task_id, task in TASKS.items() if task.listed]
MOVES = ("scale_down", "no_op", "scale_up")


def run(env: AutoscalingEnv, steps: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [env.step({"action": MOVES[int(rng.integers(3))]}) for _ in range(steps)]


@pytest.mark.parametrize("task_id", LISTED)
def test_every_observation_and_reward_is_valid(task_id: str) -> None:
    env = make_env(task_id, 7)
    observations = [env.reset()]
    total = 0.0
    for observation, reward, done, info in run(env, AUTOSCALING_STEPS):
        observations.append(observation)
        assert sum(info["reward_terms"].values()) == pytest.approx(reward)
        assert RewardBreakdown(**info["reward_terms"]) == observation.reward_breakdown
        assert -1.0 <= reward <= 0.5
        assert observation.reward == reward
        assert observation.done == done
        assert info["timestep"] == observation.step_count
        total += reward
    for observation in observations:
        checked = AutoscalingObservation.model_validate(observation.model_dump())
        assert checked == observation
    assert [o.step_count for o in observations] == list(range(AUTOSCALING_STEPS + 1))
    assert env.state()["cumulative_reward"] == pytest.approx(total)
    assert env.state()["healthy_steps"] == observations[-1].healthy_steps
    with pytest.raises(EpisodeDoneError):
        env.step({})


def test_metrics_are_one_interval_late() -> None:
    env = make_env("balanced", 3)
    env.reset()
    before = None
    for observation, _, _, info in run(env, 30):
        assert observation.metrics_age_s == 15
        assert not observation.metrics_missing
        if before is not None:
            for name in ("latency", "cpu", "error_rate", "traffic", "queue_depth", "concurrency"):
                assert getattr(observation, name) == before[name]
        assert observation.replicas_ready == info["metrics"]["replicas_ready"]
        before = info["metrics"]


def test_a_missing_metric_keeps_its_last_value_and_grows_old() -> None:
    env = make_env("metrics_outage", 3)
    first = env.reset()
    seen = [first, *(played[0] for played in run(env, 110))]
    gone = [index for index, observation in enumerate(seen) if observation.metrics_missing]
    assert len(gone) == 40
    for index in gone:
        assert seen[index].metrics_age_s == seen[index - 1].metrics_age_s + 15
        for name in ("latency", "cpu", "traffic", "arrival_rate_rps", "concurrency"):
            assert getattr(seen[index], name) == getattr(seen[index - 1], name) > 0.0
    after = seen[gone[-1] + 1]
    assert after.metrics_age_s == 15


def test_late_metrics_are_told_by_their_age() -> None:
    ages: set[int] = set()
    for seed in range(3):
        env = make_env("failure_heavy", seed)
        env.reset()
        ages |= {played[0].metrics_age_s for played in run(env, AUTOSCALING_STEPS)}
    assert min(ages) == 15
    assert max(ages) >= 45


def test_a_move_without_effect_is_named() -> None:
    env = make_env("balanced", 1)
    env.reset()
    observation, _, _, info = env.step({"target_replicas": MAX_REPLICAS})
    assert observation.available_actions == ("scale_down", "no_op")
    assert observation.last_action == "scale_up"
    assert info["masked_actions"] == []
    observation, _, _, info = env.step({"action": "scale_up"})
    assert info["masked_actions"] == ["action"]
    assert observation.replicas_target == MAX_REPLICAS
    observation, *_ = env.step({"target_replicas": 1})
    assert observation.available_actions == ("no_op", "scale_up")
    assert observation.last_action == "scale_down"


@pytest.mark.parametrize(
    ("action", "named"),
    [
        ({"action": "explode"}, "action.action"),
        ({"action": 1}, "action.action"),
        ({"target_replicas": 0}, "action.target_replicas"),
        ({"target_replicas": MAX_REPLICAS + 1}, "action.target_replicas"),
        ({"target_replicas": 3.5}, "action.target_replicas"),
        ({"target_replicas": True}, "action.target_replicas"),
        ({"rationale": "x" * 281}, "action.rationale"),
        ({"rationale": 5}, "action.rationale"),
        ({"action": "scale_up", "target_replicas": 5}, "contradict"),
        ({"replicas": 5}, "action.replicas"),
        ([], "action"),
    ],
)
def test_a_bad_action_is_named_and_changes_nothing(action: Any, named: str) -> None:
    env = make_env("balanced", 1)
    env.reset()
    before = env.state()
    with pytest.raises(InvalidValueError, match=named):
        env.step(action)
    assert env.state() == before


def test_good_actions_in_every_form() -> None:
    assert parse_action({}) == AutoscalingAction()
    assert parse_action({"target_replicas": 4.0}).target_replicas == 4
    assert parse_action({"rationale": "x" * 280}).rationale == "x" * 280
    assert parse_action({"action": "no_op", "target_replicas": None}).target_replicas is None


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, True, "1"])
def test_a_bad_seed_is_refused(seed: Any) -> None:
    with pytest.raises(InvalidValueError, match="seed"):
        make_env("balanced", seed)


def test_other_bad_settings_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="balanced"):
        make_env("balanczed")
    with pytest.raises(InvalidValueError, match="scenario"):
        make_env("balanced", 1, {"scenario": "earthquake"})
    with pytest.raises(TracePackError, match="cannot be read"):
        make_env("balanced", trace_path="nowhere.parquet")
    with pytest.raises(EpisodeNotStartedError):
        make_env("balanced").step({})
    with pytest.raises(EpisodeNotStartedError):
        make_env("balanced").state()


def digest(task_id: str, seed: int) -> str:
    """Of all bytes of an episode."""
    env = make_env(task_id, seed)
    text = env.reset().model_dump_json()
    for observation, reward, _, info in run(env, 80, seed):
        text += f"{observation.model_dump_json()}{reward!r}{info!r}"
    return hashlib.sha256(text.encode()).hexdigest()


def test_seed_and_actions_give_the_same_bytes_in_any_process() -> None:
    code = "from tests.env.autoscaling.test_episode import digest; print(digest('failure_heavy', 12))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest("failure_heavy", 12)
    assert digest("failure_heavy", 13) != digest("failure_heavy", 12)


@given(st.integers(0, 2**63 - 1), st.integers(0, 60), st.integers(1, 30))
@settings(max_examples=8, deadline=None)
def test_a_restored_episode_goes_on_as_before(seed: int, before: int, after: int) -> None:
    env = make_env("failure_heavy", seed)
    env.reset()
    run(env, before, 1)
    kept = env.snapshot()
    ahead = run(env, after, 2)
    env.restore(kept)
    assert run(env, after, 2) == ahead
    other = make_env("failure_heavy", 1)
    other.restore(kept)
    assert run(other, after, 2) == ahead


@pytest.mark.parametrize(
    "other",
    [
        make_env("high_traffic"),
        make_env("balanced", config={"scenario": "rolling_update"}),
        make_env("balanced", config={"trace_pack": "h100_llama3_8b"}),
    ],
    ids=["task", "scenario", "trace pack"],
)
def test_a_snapshot_under_other_settings_is_refused(other: AutoscalingEnv) -> None:
    env = make_env("balanced")
    env.reset()
    other.reset()
    before = other.snapshot()
    with pytest.raises(InvalidValueError, match="snapshot"):
        other.restore(env.snapshot())
    assert other.snapshot() == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": -1}, r"snapshot\.seed"),
        ({"seed": "7"}, r"snapshot\.seed"),
        ({"last_action": "explode"}, r"snapshot\.last_action"),
        ({"last_action": []}, r"snapshot\.last_action"),
        ({"cumulative_reward": float("nan")}, r"snapshot\.cumulative_reward"),
        ({"cumulative_reward": None}, r"snapshot\.cumulative_reward"),
        ({"tally": None}, r"snapshot\.tally"),
        ({"tally": Tally()}, r"snapshot\.tally"),
        ({"fleet": None}, r"snapshot\.fleet"),
        ({"fleet": {}}, r"snapshot\.fleet"),
        ({"more": 1}, "snapshot"),
    ],
)
def test_junk_is_no_snapshot_and_changes_nothing(change: dict[str, Any], named: str) -> None:
    env = make_env("balanced", 7)
    env.reset()
    run(env, 3)
    before = env.snapshot()
    with pytest.raises(InvalidValueError, match=named):
        env.restore({**before, **change})
    for junk in ({}, [], None, "snapshot"):
        with pytest.raises(InvalidValueError, match="snapshot"):
            env.restore(junk)  # pyright: ignore[reportArgumentType]
    assert env.snapshot() == before


@pytest.mark.parametrize("name", ["phase", "history", "count"])
@pytest.mark.parametrize("row", [None, [], ["many"], [[1.0], [1.0, 2.0]], 3])
def test_junk_rows_of_a_fleet_are_named(name: str, row: Any) -> None:
    env = make_env("balanced", 7)
    env.reset()
    kept = env.snapshot()
    with pytest.raises(InvalidValueError, match=rf"snapshot\.fleet\.{name}"):
        env.restore({**kept, "fleet": {**kept["fleet"], name: row}})
    assert env.snapshot() == kept


def test_another_gpu_is_another_answer() -> None:
    slow, fast = make_env("balanced", 3), make_env("balanced", 3, {"trace_pack": "h100_llama3_8b"})
    assert slow.reset().replicas_ready > fast.reset().replicas_ready
    assert slow.simulator.table.peak_rps < fast.simulator.table.peak_rps
    info = fast.step({})[3]
    assert info["settings"] == {"trace_pack": "h100_llama3_8b", "scenario": None}
    assert fast.state()["trace_pack"] == "h100_llama3_8b"
    with pytest.raises(UnknownNameError, match="h100_llama3_8b"):
        make_env("balanced", 3, {"trace_pack": "h100_llama3_9b"})
    with pytest.raises(InvalidValueError, match="trace_path"):
        make_env("balanced", 3, {"trace_pack": "h100_llama3_8b"}, "my.parquet")


def test_the_default_pack_is_the_operator_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERENCEGYM_TRACE_PACK", "h200_llama3_8b")
    assert make_env("balanced").simulator.trace_pack == "h200_llama3_8b"


def test_info_tells_no_expectation() -> None:
    env = make_env("balanced", 3)
    env.reset()
    assert set(env.step({})[3]["workload"]) == {"arrival_rate_rps"}


def test_closeness_is_one_inside_the_objectives() -> None:
    assert closeness(0.4, 0.7, 0.2) == 1.0
    assert closeness(2.0, 0.7, 0.0) == pytest.approx((0.5 + 1.0 + 1.0) / 3.0)
    assert cpu_closeness(0.3) == pytest.approx(0.5)
    assert cpu_closeness(0.95) == pytest.approx(0.5)
    assert cpu_closeness(1.2) == 0.0


def healthy_interval(**changes: float) -> dict[str, float]:
    usual = {
        "healthy": 1.0,
        "latency": 0.5,
        "cpu_steady": 0.7,
        "error_rate": 0.0,
        "replica_seconds": 150.0,
        "cheapest_replica_seconds": 150.0,
        "reversal": 0.0,
        "target_change": 0.0,
        "outage": 0.0,
    }
    return {**usual, **changes}


def test_the_score_by_hand() -> None:
    assert sum(WEIGHTS.values()) == pytest.approx(1.0)
    best = Tally()
    for _ in range(10):
        best.add(healthy_interval())
    assert best.score() == pytest.approx(1.0)
    dear = Tally()
    for _ in range(10):
        dear.add(healthy_interval(replica_seconds=187.5))
    assert dear.parts()["efficiency"] == pytest.approx(0.5)
    half = Tally()
    for index in range(10):
        half.add(healthy_interval(healthy=index % 2, replica_seconds=75.0))
    assert half.parts()["health"] == 0.0
    assert half.parts()["efficiency"] == pytest.approx(0.5)  # cheap, but half of it was no service
    down = Tally()
    for _ in range(7):
        down.add(healthy_interval(outage=1.0))
    assert down.survived
    down.add(healthy_interval(outage=1.0))
    assert not down.survived
    assert Tally().score() == 0.0


def test_info_tells_what_drives_the_episodes() -> None:
    about = describe()
    assert set(about["pass_lines"]) == set(TASKS)
    assert {task_id for task_id, line in about["pass_lines"].items() if line} == set(LISTED)
    assert about["workloads"]["balanced"]["spikes"]["times"] == (1, 2)
    assert about["replica_capacity"]["peak_rps"] == pytest.approx(7.39, abs=0.01)
    assert about["trace_pack"]["source"] == "measured"
