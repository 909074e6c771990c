"""Grades of routing episodes come from replays, whatever a client claims."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agents.registry import get_agent
from env.routing.episode import make_env
from env.routing.tasks import TASKS
from grader.routing.anchors import Anchors
from grader.routing.grader import GRADER, score_of
from grader.routing.search import extremes
from inferencegym.errors import InvalidValueError, UnknownNameError
from inferencegym.models.routing import RoutingAction
from simulator.routing.classic_games import CLASSIC_GAMES
from tests.env.routing.episodes import STREAMS, TASK_IDS, random_actions

REGION, HOUR = "episode_log[0].metrics.region", "episode_log[0].metrics.start_hour"


def played(task_id: str, seed: int, steps: int = 0, **config: Any) -> list[dict[str, Any]]:
    """/step replies of random actions."""
    env = make_env(task_id, seed, config or None)
    env.reset()
    log = []
    for action in random_actions(seed, steps or env.task.episode_length):
        _, reward, _, info = env.step(action)
        log.append({"reward": reward, "info": info})
    return log


def actions_of(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry["info"]["action"] for entry in log]


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_three_ways_give_one_grade(task_id: str) -> None:
    log = played(task_id, 5)
    replayed = GRADER.grade_replay(task_id, 5, actions_of(log))
    own, claimed = GRADER.grade_log(task_id, log, verified=True), GRADER.grade_log(task_id, log)
    assert own == replayed
    assert replayed.verified
    assert not claimed.verified
    assert (claimed.score, claimed.breakdown, claimed.figures) == (own.score, own.breakdown, own.figures)
    assert 0.0 <= own.score <= 1.0
    assert all(0.0 <= value <= 1.0 for value in own.breakdown.values())
    assert own.figures["accuracy"] == own.breakdown["accuracy"]


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_claims_change_nothing(task_id: str) -> None:
    log = played(task_id, 6)
    honest = GRADER.grade_log(task_id, log)
    for entry in log:
        entry["reward"] = 99.0
        entry["info"]["reward_terms"] = {"score": 99.0}
        entry["info"]["metrics"] |= {"correct": True, "co2_g": 0.0, "energy_wh": -5.0, "latency_s": 0.0}
    assert GRADER.grade_log(task_id, log) == honest


def test_a_log_of_another_region_is_played_there() -> None:
    log = played("stream_3", 7, region="Mumbai", start_hour=5)
    config = {"region": "Mumbai", "start_hour": 5}
    by_log = GRADER.grade_log("stream_3", log, verified=True)
    assert by_log == GRADER.grade_replay("stream_3", 7, actions_of(log), config)
    assert (
        by_log.figures["co2_g"]
        > 10
        * GRADER.grade_replay("stream_3", 7, actions_of(log), config | {"region": "Stockholm"}).figures[
            "co2_g"
        ]
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda log: log.extend(log * 200), "episode_log"),
        (lambda log: log.__setitem__(1, 3), "episode_log[1]"),
        (lambda log: log[2]["info"].pop("metrics"), "episode_log[2].metrics"),
        (lambda log: log[2]["info"].pop("action"), "episode_log[2].action"),
        (lambda log: log[2]["info"]["action"].update(strategy="X"), "episode_log[2].action.strategy"),
        (lambda log: log[0]["info"]["metrics"].pop("seed"), "episode_log[0].metrics.seed"),
        (lambda log: log[1]["info"]["metrics"].update(seed=8), "episode_log[1].metrics"),
        (lambda log: log[1]["info"]["metrics"].update(seed="x"), "episode_log[1].metrics.seed"),
        (
            lambda log: [e["info"]["metrics"].update(region="Atlantis") for e in log],
            "episode_log[0].metrics.region",
        ),
        (lambda log: [e["info"]["metrics"].pop("region") for e in log], REGION),
        (lambda log: [e["info"]["metrics"].pop("start_hour") for e in log], HOUR),
        (lambda log: [e["info"]["metrics"].update(start_hour=24) for e in log], HOUR),
        (lambda log: [e["info"]["metrics"].update(start_hour="3") for e in log], HOUR),
        (lambda log: [e["info"]["metrics"].update(start_hour=True) for e in log], HOUR),
        (lambda log: log[1]["info"]["metrics"].update(start_hour=None), "episode_log[1].metrics.start_hour"),
        (lambda log: [e["info"]["metrics"].update(seed=-1) for e in log], "episode_log[0].metrics.seed"),
    ],
)
def test_malformed_logs_are_named(change: Any, field: str) -> None:
    log: list[Any] = played("stream_2", 3, steps=5)
    change(log)
    with pytest.raises(InvalidValueError) as caught:
        GRADER.grade_log("stream_2", log)
    assert caught.value.field == field
    for words in ("Input should", "Field required"):  # pydantic's, which say nothing of a log
        assert words not in str(caught.value)


def test_numbers_of_other_json_writers_count() -> None:
    log = played("stream_2", 3, steps=5)
    graded = GRADER.grade_log("stream_2", log)
    for entry in log:
        metrics = entry["info"]["metrics"]
        metrics |= {"seed": float(metrics["seed"]), "start_hour": float(metrics["start_hour"])}
    assert GRADER.grade_log("stream_2", log) == graded


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_a_grade_tells_whether_the_line_was_passed(task_id: str) -> None:
    """The verdict is that of the feedback, for episodes on both sides of the line."""
    line, seen = TASKS[task_id].facts["success_score"], set[bool | None]()
    for agent in ("lookahead", "optimal", "always_large"):
        for seed in range(3):
            env, policy = make_env(task_id, seed), get_agent("routing", agent, task_id, seed)
            observation, actions = env.reset(), list[dict[str, Any]]()
            policy.reset()
            while not env.done:
                action = policy.act(observation)
                actions.append(action.model_dump(mode="json"))
                observation = env.step(action)[0]
            grade = GRADER.grade_replay(task_id, seed, actions)
            assert grade.passed is (grade.score >= line)
            assert ("above" in grade.feedback) is grade.passed
            seen.add(grade.passed)
    assert seen == {True, False}


def test_bad_replays_are_named() -> None:
    for arguments, field in (
        (("stream_1", 0, []), "actions"),
        (("stream_1", 0, "NONE"), "actions"),
        (("stream_1", 0, [{}] * 301), "actions"),
        (("stream_1", 0, [{}, {"strategy": "X"}]), "actions[1].strategy"),
        (("stream_1", -1, [{}]), "seed"),
        (("task_1", 0, [{}], {"region": "London"}), "config"),
    ):
        with pytest.raises(InvalidValueError) as caught:
            GRADER.grade_replay(*arguments)  # type: ignore[arg-type]
        assert caught.value.field == field
    with pytest.raises(UnknownNameError):
        GRADER.grade_replay("stream_9", 0, [{}])


@pytest.mark.parametrize("task_id", list(CLASSIC_GAMES))
def test_classic_scores_run_from_the_exact_floor_to_the_exact_optimum(task_id: str) -> None:
    for seed, game in enumerate(CLASSIC_GAMES[task_id]):
        found = extremes(game)
        for sequence, score in ((found.best, 1.0), (found.worst, 0.0)):
            actions = [action.model_dump(mode="json") for action in sequence]
            assert GRADER.grade_replay(task_id, seed, actions).score == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize("task_id", STREAMS)
def test_no_constant_action_passes_a_stream(task_id: str) -> None:
    """Over days: neither the cache nor a cascade is always right. The worst one is each day's floor."""
    length = TASKS[task_id].episode_length

    def score(strategy: str, model: str, seed: int) -> float:
        action = {"strategy": strategy, "model_choice": model, "exit_flag": strategy == "DO_CASCADE"}
        return GRADER.grade_replay(task_id, seed, [action] * length).score

    assert score("EARLY_EXIT", "SMALL", 100) == 0.0
    best = [("USE_CACHE", "SMALL"), ("USE_CACHE", "MEDIUM"), ("USE_CACHE", "LARGE"), ("DO_CASCADE", "MEDIUM")]
    for strategy, model in best:
        mean = np.mean([score(strategy, model, seed) for seed in range(100, 108)])
        assert mean < TASKS[task_id].facts["success_score"], (strategy, model)


def test_stopping_early_never_pays() -> None:
    anchors = Anchors(-10.0, 30.0)
    assert score_of(30.0, 100, 100, anchors) == 1.0
    assert score_of(15.0, 50, 100, anchors) == pytest.approx(0.5)
    assert score_of(-10.0, 100, 100, anchors) == 0.0
    for task_id in TASK_IDS:
        log = [RoutingAction().model_dump(mode="json")] * TASKS[task_id].episode_length
        counts = sorted({1, *range(1, len(log), max(1, len(log) // 6)), len(log)})
        scores = [GRADER.grade_replay(task_id, 3, log[:count]).score for count in counts]
        assert scores[-1] == max(scores)
        if task_id in STREAMS:
            assert scores == sorted(scores)


def test_the_feedback_names_line_and_weakness() -> None:
    grade = GRADER.grade_replay("stream_1", 0, [{"strategy": "EARLY_EXIT", "model_choice": "SMALL"}] * 300)
    assert "below the success line of 0.92" in grade.feedback
    assert "accuracy (0.00)" in grade.feedback
