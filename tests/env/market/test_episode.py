"""InferenceGym/Market-v0: actions, bounds, death, snapshots, determinism, reward."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from env.market.episode import MarketEnv, describe, make_env
from env.market.tasks import TASKS
from env.protocols import Episode
from grader.market.grader import GRADER
from inferencegym.errors import (
    EpisodeDoneError,
    EpisodeNotStartedError,
    InvalidValueError,
    UnknownNameError,
)
from inferencegym.models.market import MarketObservation, MarketState, PriceAction
from tests.live import ROOT
from tests.simulator.properties import bounded

TASK_IDS = list(TASKS)


def started(task_id: str = "steady", seed: int = 0, **config: Any) -> MarketEnv:
    env = make_env(task_id, seed, config or None)
    env.reset()
    return env


def transcript(task_id: str, seed: int, action_seed: int) -> str:
    """An episode under random prices and changes, as JSON lines."""
    rng = np.random.default_rng(action_seed)
    env = make_env(task_id, seed)
    lines = [env.reset().model_dump_json()]
    while not env.done:
        price, change = round(float(rng.uniform(1.2, 3.5)), 4), float(rng.uniform(-0.3, 0.3))
        action = {"price": price} if rng.integers(2) else {"change": change}
        observation, reward, done, info = env.step(action)
        lines.append(json.dumps([observation.model_dump(mode="json"), reward, done, info], sort_keys=True))
    return "\n".join([*lines, json.dumps(env.state())])


def digest(task_id: str, seed: int, action_seed: int) -> str:
    return hashlib.sha256(transcript(task_id, seed, action_seed).encode()).hexdigest()


CASES = [(task_id, seed, 5) for task_id in TASK_IDS for seed in (0, 2**63 - 1)]


def test_another_process_gives_the_same_bytes():
    found = subprocess.run(
        [sys.executable, "-m", "tests.env.market.test_episode"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == [digest(*case) for case in CASES]
    assert len(set(found.stdout.split())) == len(CASES)


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_it_is_an_episode_of_the_protocol(task_id: str):
    env = started(task_id)
    assert isinstance(env, Episode)
    MarketState.model_validate(env.state())
    while not env.done:
        observation, reward, done, info = env.step(PriceAction())
        MarketObservation.model_validate(observation.model_dump())
        assert -1.0 <= reward <= 1.0
        assert sum(info["reward_terms"].values()) == pytest.approx(reward, abs=1e-9)
        assert observation.revenue == pytest.approx(observation.price * observation.running_gpus)
        assert done == env.done
    assert env.state()["step_count"] == 200
    assert not env.state()["dead"]
    with pytest.raises(EpisodeDoneError):
        env.step(PriceAction())


def test_what_the_agent_does_changes_what_comes_next():
    kept, risen = started(seed=1), started(seed=1)
    kept.step({"price": 2.0})
    risen.step({"price": 3.0})
    seen = [env.step({"price": 2.0})[0] for env in (kept, risen)]
    assert seen[0].running_gpus > seen[1].running_gpus


def test_an_empty_action_keeps_the_price_and_a_change_moves_it():
    env = started()
    assert env.step({})[0].price == 2.6
    assert env.step({"change": 0.05})[0].price == 2.73
    assert env.step({"change": -0.5})[0].price == 1.365
    observation, _, _, info = env.step({"price": 2.123456})
    assert observation.price == info["action"]["price"] == 2.123456
    assert not info["saturated"]


def test_a_change_ends_at_the_bound_and_says_so():
    env = started()
    for _ in range(4):
        observation, _, _, info = env.step({"change": 0.5})
    assert (observation.price, info["saturated"]) == (7.0, True)
    for _ in range(4):
        observation, _, _, info = env.step({"change": -0.5})
    assert (observation.price, info["saturated"]) == (1.0, True)


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ({"price": 7.01}, "from 1.0 to 7.0, the price bounds of scenario steady"),
        ({"price": 0.99}, "from 1.0 to 7.0"),
        ({"price": -1}, "action.price"),
        *(({"price": price}, "from 1.0 to 7.0") for price in (float("nan"), float("inf"), 0, 1e9, 10**400)),
        *(({"price": price}, "from 1.0 to 7.0") for price in (-(10**400), 7.0000004, 0.9999996)),
        ({"price": "2"}, "not a boolean or text"),
        ({"price": True}, "not a boolean or text"),
        ({"change": 0.51}, "action.change"),
        ({"price": 2.0, "change": 0.0}, "not both"),
        ({"prise": 2.0}, "action.prise"),
        ([], "action"),
        (None, "action"),
    ],
)
def test_a_bad_action_is_named_and_changes_nothing(action: Any, says: str):
    env = started()
    before = env.snapshot()
    with pytest.raises(InvalidValueError) as caught:
        env.step(action)
    assert says in str(caught.value)
    assert env.snapshot() == before


def test_other_bounds_belong_to_other_scenarios():
    env = started("steady", scenario="hobby")
    assert env.step({"price": 0.5})[0].max_price == 1.5
    with pytest.raises(InvalidValueError, match=r"0\.2 to 1\.5, the price bounds of scenario hobby"):
        env.step({"price": 2.0})
    assert env.state()["scenario"] == "hobby"


def test_a_price_nobody_pays_kills_the_market():
    env = started("steady")
    risks: list[float] = []
    while not env.done:
        observation, reward, _, info = env.step({"price": 7.0})
        risks.append(observation.death_risk)
    assert info["terminated"]
    assert env.state()["dead"]
    assert observation.death_risk == 1.0
    assert observation.zero_streak > 1
    assert reward < 0.0
    assert env.state()["step_count"] < 100
    with pytest.raises(EpisodeDoneError):
        env.step({})


def test_the_death_term_ramps_after_the_first_silent_hour():
    env = started("steady", arrival_rate=5.0)
    terms: dict[int, float] = {}
    while not env.done:
        observation, _, _, info = env.step({"price": 7.0})
        if observation.zero_streak:
            terms[observation.zero_streak] = info["reward_terms"]["death"]
            assert info["reward_terms"]["activity"] == 0.0
        else:
            terms.clear()
    ramp = [terms[streak] for streak in sorted(terms)]
    assert ramp[0] == 0.0
    assert ramp[1:] == sorted(ramp[1:], reverse=True)
    assert ramp[-1] == -0.1


def test_every_term_varies():
    spread: dict[str, set[float]] = {}
    for price in (1.0, 2.5, 7.0):
        env = started("surge", 3)
        while not env.done:
            terms = env.step({"price": price} if env.state()["step_count"] % 9 else {"price": 3.0})[3]
            for name, value in terms["reward_terms"].items():
                spread.setdefault(name, set()).add(value)
    assert set(spread) == {"revenue", "wait", "fairness", "death", "activity"}
    assert all(len(values) > 1 for values in spread.values()), spread


def test_weights_of_the_config_are_relative():
    half = started("steady", revenue=0.3, low_wait_time=0.075, fairness=0.075, market_activity=0.05)
    whole = started("steady")
    assert [half.step({})[1] for _ in range(30)] == [whole.step({})[1] for _ in range(30)]
    only = started("steady", low_wait_time=0, fairness=0, market_activity=0)
    reward, terms = only.step({})[1], only.step({})[3]["reward_terms"]
    assert reward > 0.1
    assert terms["wait"] == terms["fairness"] == terms["death"] == terms["activity"] == 0.0


def test_constraints_of_the_config_are_in_force():
    env = started("steady", min_price=1.5, max_price=4.0, max_avg_wait=1.0)
    observation = env.step({"price": 4.0})[0]
    assert (observation.min_price, observation.max_price) == (1.5, 4.0)
    for price in (4.01, 1.49):
        with pytest.raises(InvalidValueError, match=r"action\.price.* from 1\.5 to 4\.0"):
            env.step({"price": price})
    assert env.step({"change": 0.5})[3]["saturated"] is True
    config = {"min_price": 1.5, "max_price": 4.0, "max_avg_wait": 1.0}
    replayed = GRADER.grade_replay("steady", 0, [{"price": 4.0}], config)
    assert (replayed.verified, replayed.steps) == (True, 1)
    # A line that the shipped objective hardly minds.
    tight, usual = started("surge", max_avg_wait=0.5), started("surge")
    played = [(tight.step({"price": 1.0})[3], usual.step({"price": 1.0})[3]) for _ in range(30)]
    assert any(ours["reward_terms"]["wait"] < theirs["reward_terms"]["wait"] for ours, theirs in played)


@pytest.mark.parametrize(
    ("config", "error", "says"),
    [
        ({"scenario": "stedy"}, UnknownNameError, "steady"),
        ({"gpus": 4}, InvalidValueError, "config.gpus"),
        ({"arrival_rate": 0}, InvalidValueError, "config.arrival_rate"),
        ({"scenario": "surge", "arrival_rate": 20}, InvalidValueError, "at most 64"),
        ({"revenue": -1}, InvalidValueError, "config.revenue"),
        (
            {"revenue": 0, "low_wait_time": 0, "fairness": 0, "market_activity": 0},
            InvalidValueError,
            "must not all be 0",
        ),
        (
            {"revenue": 1e-9, "low_wait_time": 0, "fairness": 4e-7, "market_activity": 0},
            InvalidValueError,
            "must not all be 0",
        ),
        ({"arrival_rate": 4e-7}, InvalidValueError, "config.arrival_rate"),
        ({"arrival_rate": 0.009}, InvalidValueError, "0.01"),
        ({"scenario": "surge", "arrival_rate": 17.78}, InvalidValueError, "config.arrival_rate: 17.78"),
        *((junk, InvalidValueError, "config") for junk in ([], "", 0, False)),
        ({"colour": 1}, InvalidValueError, "config.colour"),
        ({"min_price": 0.0}, InvalidValueError, "config.min_price"),
        ({"max_price": "5"}, InvalidValueError, "config.max_price"),
        ({"max_avg_wait": 0.0}, InvalidValueError, "config.max_avg_wait"),
        ({"min_price": 6.9}, InvalidValueError, "config.min_price: 6.9 is not allowed; allowed: at most"),
        ({"max_price": 1.1}, InvalidValueError, "config.max_price: 1.1 is not allowed; allowed: at least"),
        ({"min_price": 5, "max_price": 2}, InvalidValueError, "must be below max_price"),
    ],
)
def test_a_bad_config_is_named(config: Any, error: type[Exception], says: str):
    with pytest.raises(error) as caught:
        make_env("steady", 0, config)
    assert says in str(caught.value)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, "1", True, None])
def test_a_bad_seed_is_refused(seed: Any):
    with pytest.raises(InvalidValueError, match="seed"):
        make_env("steady", seed)


def test_nothing_works_before_the_first_reset():
    env = make_env("steady")
    for call in (lambda: env.step({}), env.state, env.snapshot):
        with pytest.raises(EpisodeNotStartedError):
            call()
    with pytest.raises(UnknownNameError, match="steady"):
        make_env("stedy")


@bounded(10)
@given(st.sampled_from(TASK_IDS), st.integers(0, 2**63 - 1), st.integers(0, 150))
def test_a_snapshot_brings_the_same_future(task_id: str, seed: int, at: int):
    env = started(task_id, seed)
    for _ in range(at):
        env.step({})
    kept = env.snapshot()
    other = make_env(task_id, 5)
    other.restore(kept)
    for _ in range(30):
        action = {"change": 0.1 if env.state()["step_count"] % 2 else -0.1}
        assert env.step(action) == other.step(action)
    assert env.state() == other.state()
    env.restore(kept)
    assert env.state()["step_count"] == at


def test_a_snapshot_of_another_market_is_refused():
    env = started("steady")
    with pytest.raises(InvalidValueError, match="snapshot"):
        env.restore(started("surge").snapshot())


JUNK: list[Any] = [None, {}, 3, [], "snapshot", {"setup": None}]


@pytest.mark.parametrize("bad", JUNK)
def test_what_is_no_snapshot_is_refused_and_changes_nothing(bad: Any):
    env = started("steady", 3)
    env.step({})
    kept = env.snapshot()
    with pytest.raises(InvalidValueError, match="snapshot"):
        env.restore(bad)
    assert env.snapshot() == kept


@pytest.mark.parametrize("bad", [(5, []), None, (), (-1, [])])
def test_a_snapshot_with_another_engine_is_refused(bad: Any):
    compiled = pytest.importorskip("simulator.market.compiled").CompiledMarketEngine
    for env in (started("steady", 3), MarketEnv("steady", 3, engine=compiled)):
        env.reset()
        kept = env.snapshot()
        for engine in (bad, (kept["engine"][0] + 1, *kept["engine"][1:])):
            with pytest.raises(InvalidValueError, match=r"snapshot\.engine"):
                env.restore({**kept, "seed": 8, "engine": engine})
        assert env.state()["seed"] == 3
        env.restore(kept)


def test_the_lowest_rates_and_weights_that_are_taken_can_be_played():
    env = started("surge", arrival_rate=0.01, revenue=1e-6, low_wait_time=0, fairness=0, market_activity=0)
    info = env.step({})[3]
    assert info["metrics"]["fluid_revenue"] > 0.0


def test_info_tells_objective_and_scenarios():
    told = json.loads(json.dumps(describe()))
    assert told["objective"]["weights"]["revenue"] == 0.6
    assert set(told["scenarios"]) == set(told["config_hashes"]) >= set(TASKS)


if __name__ == "__main__":
    for case in CASES:
        print(digest(*case))
