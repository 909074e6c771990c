"""Grader of the market: replay and log agree, forged and broken logs, death, and the order of the agents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agents.compare.episodes import Job, play_episode
from env.market.episode import make_env
from env.market.tasks import TASKS
from grader.market.grader import GRADER, WEIGHTS, HourFigures, score_hours
from inferencegym.errors import InvalidValueError, UnknownNameError
from inferencegym.registry import MARKET

HOUR = {
    "revenue": 100.0,
    "fluid_revenue": 125.0,
    "queue_depth": 2,
    "joined": 5,
    "joined_gpus": 10,
    "interrupted_gpus": 1,
    "driven_off_gpus": 0,
    "dead": False,
}


def hours(count: int, **changes: Any) -> list[HourFigures]:
    return [HourFigures.model_validate({**HOUR, **changes}) for _ in range(count)]


def played(task_id: str, price: float | None, seed: int = 0) -> tuple[list[Any], list[Any]]:
    """Log and actions of an episode at one price (None: now and then another)."""
    env = make_env(task_id, seed)
    env.reset()
    log, actions = [], []
    while not env.done:
        step = env.state()["step_count"]
        action = {"change": 0.1 if step % 7 else -0.4} if price is None else {"price": price}
        _, reward, _, info = env.step(action)
        actions.append(action)
        log.append({"action": info["action"], "reward": reward, "metrics": info["metrics"]})
    return log, actions


def test_the_formula():
    found = score_hours(hours(200), 200)
    assert found.breakdown == {
        "revenue": pytest.approx(0.8),
        "low_wait_time": pytest.approx(1 - 0.4 / 4),
        "fairness": pytest.approx(1 - 0.1 / 0.5),
        "market_activity": 1.0,
        "completed": 1.0,
    }
    assert found.score == pytest.approx(0.6 * 0.8 + 0.15 * 0.9 + 0.15 * 0.8 + 0.1)
    assert sum(WEIGHTS.values()) == pytest.approx(1.0)
    assert found.figures == {
        "revenue_usd": 20000.0,
        "mean_wait_h": pytest.approx(0.4),
        "put_out_share": pytest.approx(0.1),
        "deaths": 0.0,
    }


def test_money_sums_exactly_and_a_share_is_at_most_one():
    found = score_hours(hours(200, revenue=0.1, joined_gpus=1, interrupted_gpus=9), 200)
    assert found.figures["revenue_usd"] == 20.0
    assert found.figures["put_out_share"] == 1.0
    assert found.breakdown["fairness"] == 0.0


def test_a_perfect_score_gets_no_advice():
    perfect = {**HOUR, "revenue": 125.0, "queue_depth": 0, "interrupted_gpus": 0}
    told = GRADER.grade_log("steady", [{"metrics": perfect}] * 200)
    assert told.score == pytest.approx(1.0)
    assert "Most is lost" not in told.feedback
    assert (
        "Most is lost on fairness"
        in GRADER.grade_log("steady", [{"metrics": {**perfect, "interrupted_gpus": 2}}] * 200).feedback
    )


def test_half_an_episode_earns_half():
    whole, half = score_hours(hours(200), 200), score_hours(hours(100), 200)
    assert half.score == pytest.approx(whole.score / 2)


def test_death_earns_less_than_stopping():
    alive = score_hours(hours(100), 200)
    dead = score_hours([*hours(99), *hours(1, dead=True)], 200)
    assert dead.score < alive.score
    assert dead.breakdown["market_activity"] == 0.0


@pytest.mark.parametrize("task_id", list(TASKS))
def test_replay_and_log_agree_and_only_replay_is_verified(task_id: str):
    log, actions = played(task_id, None, 3)
    by_log, by_replay = GRADER.grade_log(task_id, log), GRADER.grade_replay(task_id, 3, actions)
    assert not by_log.verified
    assert by_replay.verified
    assert (by_log.score, by_log.breakdown, by_log.figures) == (
        by_replay.score,
        by_replay.breakdown,
        by_replay.figures,
    )
    applied = [entry["action"] for entry in log]
    assert GRADER.grade_replay(task_id, 3, applied).score == by_log.score
    assert GRADER.grade_log(task_id, log, verified=True).verified
    steps = [{"observation": {}, "info": {"metrics": entry["metrics"]}} for entry in log]
    assert GRADER.grade_log(task_id, steps).score == by_log.score


def test_a_forged_log_gets_its_score_but_no_seal():
    forged = [{"action": {}, "reward": 1.0, "metrics": {**HOUR, "revenue": 1e4}}] * 200
    result = GRADER.grade_log("steady", forged)
    assert result.score > 0.9
    assert not result.verified


def test_a_dead_market_ends_the_episode_and_its_replay():
    log, actions = played("steady", 7.0)
    result = GRADER.grade_replay("steady", 0, actions)
    assert result.ended
    assert "died" in result.feedback
    assert result.figures["deaths"] == 1.0
    assert result.score < 0.3
    with pytest.raises(InvalidValueError, match=r"actions\[\d+\].*the market died"):
        GRADER.grade_replay("steady", 0, [*actions, {}])
    with pytest.raises(InvalidValueError, match="last entry only"):
        GRADER.grade_log("steady", [*log, log[0]])


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (3, "episode_log[1]"),
        ({}, "episode_log[1].metrics"),
        ({"metrics": {}}, "episode_log[1].metrics.revenue"),
        ({"metrics": {**HOUR, "revenue": -1}}, "episode_log[1].metrics.revenue"),
        ({"metrics": {**HOUR, "revenue": float("nan")}}, "episode_log[1].metrics.revenue"),
        ({"metrics": {**HOUR, "fluid_revenue": 0}}, "episode_log[1].metrics.fluid_revenue"),
        ({"metrics": {**HOUR, "joined": 1.5}}, "episode_log[1].metrics.joined"),
        ({"metrics": {**HOUR, "dead": 1}}, "episode_log[1].metrics.dead"),
    ],
)
def test_a_bad_entry_is_named(entry: Any, says: str):
    with pytest.raises(InvalidValueError) as caught:
        GRADER.grade_log("steady", [{"metrics": HOUR}, entry])
    assert says in str(caught.value)


@pytest.mark.parametrize("log", ["text", [{"metrics": HOUR}] * 201])
def test_a_log_of_the_wrong_length_is_refused(log: Any):
    with pytest.raises(InvalidValueError, match="0 to 200"):
        GRADER.grade_log("steady", log)
    with pytest.raises(InvalidValueError, match="1 to 200"):
        GRADER.grade_replay("steady", 0, log)


def test_a_replay_names_the_action_that_is_out_of_bounds():
    with pytest.raises(InvalidValueError, match=r"actions\[1\]\.price: 9.* from 1\.0 to 7\.0"):
        GRADER.grade_replay("steady", 0, [{}, {"price": 9}])
    with pytest.raises(InvalidValueError, match=r"actions\[1\]\.price"):
        GRADER.grade_replay("steady", 0, [{}, {"price": "x"}])
    with pytest.raises(InvalidValueError, match="seed"):
        GRADER.grade_replay("steady", -1, [{}])
    with pytest.raises(UnknownNameError, match="steady"):
        GRADER.grade_log("stedy", [{"metrics": HOUR}])


AGENTS = ("random", "zero", "hold", "baseline", "static", "untrained", "evolved")


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, Any]]:
    """Mean score and reward of each agent on each task, seeds 100 to 107."""
    found: dict[str, dict[str, Any]] = {}
    for task in TASKS:
        for agent in AGENTS:
            results = [play_episode(MARKET, Job(task, agent, seed)) for seed in range(100, 108)]
            scores = float(np.mean([result.score for result in results]))
            found.setdefault(task, {})[agent] = (scores, float(np.mean([r.reward for r in results])), results)
    return found


@pytest.mark.parametrize("task", list(TASKS))
def test_evolved_is_best_and_a_random_price_wins_nothing(table: Any, task: str):
    scores = {agent: row[0] for agent, row in table[task].items()}
    rewards = {agent: row[1] for agent, row in table[task].items()}
    for ranking in (scores, rewards):
        assert ranking["random"] < ranking["baseline"] < ranking["evolved"]
        assert ranking["zero"] < ranking["evolved"]
        assert ranking["hold"] < ranking["evolved"]
    if task != "steady":  # there one constant price is all there is to find
        assert scores["static"] < scores["evolved"]
        assert rewards["static"] < rewards["evolved"]


@pytest.mark.parametrize("task", list(TASKS))
def test_reward_and_score_rank_alike(table: Any, task: str):
    rows = list(table[task].values())
    ranks = [np.argsort(np.argsort([row[column] for row in rows])) for column in (0, 1)]
    assert np.corrcoef(*ranks)[0, 1] >= 0.8


@pytest.mark.parametrize("part", WEIGHTS)
def test_every_part_of_the_score_varies(table: Any, part: str):
    for task in ("surge", "adversarial"):
        values = [r.components[part] for row in table[task].values() for r in row[2]]
        if part != "market_activity" or task == "adversarial":
            assert max(values) - min(values) > 0.2, (task, part)
