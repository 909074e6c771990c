"""Grades of Autoscaling-v0: three ways, one score; pass lines; what is trusted; reward and score agree."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from agents.autoscaling.agents import AGENTS
from env.autoscaling.episode import make_env
from env.autoscaling.tasks import TASKS
from grader.autoscaling.feedback import WELL_DONE
from grader.autoscaling.grader import GRADER
from inferencegym.errors import InvalidValueError, UnknownNameError
from inferencegym.models.autoscaling import AUTOSCALING_STEPS, SCENARIOS
from tests.agents.autoscaling.scenarios import Course, play, quick_env

LISTED = [task_id for task_id, task in TASKS.items() if task.listed]
FAIR = ("random", "no_op", "scale_up", "static", "baseline", "hpa", "kpa", "saturation", "forecast", "oracle")
SEEDS = (200, 201, 202, 203)


def episode(task_id: str, seed: int, steps: int = AUTOSCALING_STEPS) -> tuple[list[Any], list[Any]]:
    """Actions and /step replies of the forecast agent."""
    env, agent = make_env(task_id, seed), AGENTS["forecast"](task_id, seed)
    observation = env.reset()
    agent.reset()
    actions, log = [], []
    for _ in range(steps):
        action = agent.act(observation)
        observation, reward, done, info = env.step(action)
        actions.append(action.model_dump(mode="json"))
        seen = observation.model_dump(mode="json")
        log.append({"observation": seen, "reward": reward, "done": done, "info": info})
    return actions, log


@cache
def courses(task_id: str, agent: str) -> tuple[Course, ...]:
    return tuple(play(AGENTS[agent](task_id, seed), quick_env(task_id, seed)) for seed in SEEDS)


def test_log_and_replay_give_one_grade() -> None:
    actions, log = episode("failure_heavy", 5)
    by_log, by_replay = (
        GRADER.grade_log("failure_heavy", log),
        GRADER.grade_replay("failure_heavy", 5, actions),
    )
    assert (by_log.verified, by_replay.verified) == (False, True)
    assert by_log.score == by_replay.score
    assert by_log.breakdown == by_replay.breakdown
    assert by_log.figures == by_replay.figures
    assert by_log.passed == by_replay.passed
    assert by_log.score == pytest.approx(log_score(log))


def log_score(log: list[Any]) -> float:
    """What the environment itself showed at the end."""
    env = make_env("failure_heavy", 5)
    observation = env.reset()
    for entry in log:
        observation, *_ = env.step(entry["info"]["action"])
    return observation.current_grader_score


def test_an_unfinished_episode_is_scaled_and_never_passes() -> None:
    actions, _ = episode("balanced", 5, 120)
    grade = GRADER.grade_replay("balanced", 5, actions)
    assert grade.breakdown["completed"] == 0.5
    assert grade.passed is False
    assert grade.score <= 0.5
    assert "50%" in grade.feedback


def test_a_scenario_is_replayed_by_its_config() -> None:
    actions = [{}] * 100
    with_it = GRADER.grade_replay("balanced", 5, actions, {"scenario": "autoscaler_disabled"})
    without = GRADER.grade_replay("balanced", 5, actions)
    assert with_it.score != without.score


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"latency": -1.0}, r"episode_log\[1\]\.metrics\.latency"),
        ({"latency": "fast"}, r"episode_log\[1\]\.metrics\.latency"),
        ({"cpu_steady": None}, r"episode_log\[1\]\.metrics\.cpu_steady"),
        ({"error_rate": float("nan")}, r"episode_log\[1\]\.metrics\.error_rate"),
        ({"cheapest_replica_seconds": 0.0}, r"episode_log\[1\]\.metrics\.cheapest_replica_seconds"),
        ({"reversal": "no"}, r"episode_log\[1\]\.metrics\.reversal"),
        ({"target_change": 99}, r"episode_log\[1\]\.metrics\.target_change"),
    ],
)
def test_a_malformed_entry_is_named(change: dict[str, Any], named: str) -> None:
    _, log = episode("balanced", 5, 3)
    log[1]["info"]["metrics"] |= change
    with pytest.raises(InvalidValueError, match=named):
        GRADER.grade_log("balanced", log)


@pytest.mark.parametrize(
    ("order", "named"),
    [
        ([0, 1, 3], r"episode_log\[2\]\.observation\.step_count"),
        ([2, 1, 0], r"episode_log\[0\]\.observation\.step_count"),
        ([0, 1, 1], r"episode_log\[2\]\.observation\.step_count"),
    ],
    ids=["gap", "reversed", "twice"],
)
def test_a_log_out_of_order_is_refused(order: list[int], named: str) -> None:
    _, log = episode("balanced", 5, 4)
    with pytest.raises(InvalidValueError, match=named):
        GRADER.grade_log("balanced", [log[index] for index in order])
    bare = [{"info": log[index]["info"]} for index in order]
    with pytest.raises(InvalidValueError, match="timestep"):
        GRADER.grade_log("balanced", bare)


def test_a_log_of_another_task_is_refused() -> None:
    _, log = episode("balanced", 5, 4)
    with pytest.raises(InvalidValueError, match=r"episode_log\[0\]\.observation\.task_id.*balanced"):
        GRADER.grade_log("high_traffic", log)


def test_a_starving_fleet_is_told_to_serve_first() -> None:
    grade = GRADER.grade_replay("balanced", 5, [{"target_replicas": 4}] * AUTOSCALING_STEPS)
    assert grade.figures["replica_hours"] < grade.figures["cheapest_replica_hours"]
    assert "run more replicas" in grade.feedback
    assert "give replicas back" not in grade.feedback


def test_an_idle_fleet_is_told_to_give_back() -> None:
    grade = GRADER.grade_replay("balanced", 5, [{"target_replicas": 24}] * AUTOSCALING_STEPS)
    assert "give replicas back" in grade.feedback


def test_a_near_perfect_run_is_praised() -> None:
    course = courses("balanced", "oracle")[0]
    grade = GRADER.grade_log("balanced", [{"metrics": entry} for entry in course.metrics])
    assert grade.score > WELL_DONE
    assert "Well done" in grade.feedback
    assert "give replicas back" not in grade.feedback


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenarios_have_a_score_and_no_pass_line(scenario: str) -> None:
    """A constant total serves their gentle traffic: what they show is who falls for the incident."""
    actions = [{"target_replicas": 7}] * AUTOSCALING_STEPS
    for grade in (
        GRADER.grade_replay(scenario, 5, actions),
        GRADER.grade_replay("balanced", 5, actions, {"scenario": scenario}),
    ):
        assert grade.passed is None
        assert "passed" not in grade.figures
        assert "no pass line" in grade.feedback
    assert TASKS[scenario].facts == {}


def test_a_log_under_a_scenario_has_no_pass_line_either() -> None:
    env = make_env("balanced", 5, {"scenario": "metrics_outage"})
    env.reset()
    log = [{"info": env.step({})[3]} for _ in range(10)]
    assert GRADER.grade_log("balanced", log).passed is None


def test_a_pack_is_replayed_by_its_config() -> None:
    actions = [{"target_replicas": 8}] * AUTOSCALING_STEPS
    fast = GRADER.grade_replay("balanced", 5, actions, {"trace_pack": "h100_llama3_8b"})
    usual = GRADER.grade_replay("balanced", 5, actions)
    assert fast.figures["cheapest_replica_hours"] < 0.8 * usual.figures["cheapest_replica_hours"]


def test_other_malformed_requests_are_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"episode_log\[0\]\.metrics"):
        GRADER.grade_log("balanced", [{"reward": 1.0}])
    with pytest.raises(InvalidValueError, match="actions"):
        GRADER.grade_replay("balanced", 1, [{}] * (AUTOSCALING_STEPS + 1))
    with pytest.raises(InvalidValueError, match=r"actions\[2\]"):
        GRADER.grade_replay("balanced", 1, [{}, {}, {"action": "up"}])
    with pytest.raises(UnknownNameError, match="balanced"):
        GRADER.grade_log("balancd", [{}])


def test_health_is_judged_from_ratios_not_from_the_log_s_own_word() -> None:
    _, log = episode("balanced", 5, 20)
    honest = GRADER.grade_log("balanced", log)
    for entry in log:
        entry["info"]["metrics"] |= {"healthy": True, "outage": False, "latency": 50.0}
    forged = GRADER.grade_log("balanced", log)
    assert forged.figures["healthy_ratio"] == 0.0
    assert forged.score < honest.score
    assert forged.verified is False


@pytest.mark.parametrize("task_id", LISTED)
def test_reward_and_score_rank_the_policies_alike(task_id: str) -> None:
    scores = [np.mean([course.score for course in courses(task_id, agent)]) for agent in FAIR]
    rewards = [np.mean([course.reward for course in courses(task_id, agent)]) for agent in FAIR]
    assert spearmanr(scores, rewards).statistic >= 0.8


@pytest.mark.parametrize("task_id", LISTED)
def test_adaptive_policies_beat_constant_and_random_ones(task_id: str) -> None:
    def mean(agent: str) -> float:
        return float(np.mean([course.score for course in courses(task_id, agent)]))

    constant = max(mean(agent) for agent in ("no_op", "scale_up", "static", "random"))
    assert mean("oracle") > mean("forecast") > constant
    assert all(course.passed for course in courses(task_id, "oracle"))
    for agent in ("random", "no_op", "scale_up", "static"):
        assert not any(course.passed for course in courses(task_id, agent))


@pytest.mark.parametrize("task_id", LISTED)
def test_every_part_of_reward_and_score_varies(task_id: str) -> None:
    parts: dict[str, list[float]] = {}
    for agent in FAIR:
        for course in courses(task_id, agent)[:2]:
            grade = GRADER.grade_log(task_id, [{"metrics": entry} for entry in course.metrics])
            for name, value in grade.breakdown.items():
                parts.setdefault(name, []).append(value)
            for name, value in course.observations[-1].reward_breakdown:
                parts.setdefault(f"reward.{name}", []).append(value)
    varying = {name for name, values in parts.items() if np.ptp(values) > 0.01}
    assert {"survival", "health", "slo_closeness", "efficiency", "discipline"} <= varying
    assert {"reward.latency", "reward.replica_cost", "reward.health_bonus"} <= varying
