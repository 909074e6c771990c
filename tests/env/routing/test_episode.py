"""The routing episode: protocol, reproducibility, what actions change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env.protocols import Episode
from env.routing.episode import describe, make_env
from env.routing.tasks import TASKS, get_task
from inferencegym.errors import (
    EpisodeDoneError,
    EpisodeNotStartedError,
    InvalidValueError,
    UnknownNameError,
)
from inferencegym.models.routing import RoutingAction, RoutingConfig, RoutingObservation, RoutingState
from inferencegym.registry import ROUTING
from tests.env.routing.episodes import (
    CLASSIC,
    STREAMS,
    TASK_IDS,
    as_json,
    digest,
    random_actions,
    started,
    transcript,
)
from tests.live import ROOT


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_an_episode_follows_the_protocol(task_id: str) -> None:
    env = make_env(task_id, 3)
    assert isinstance(env, Episode)
    observation = env.reset()
    total = 0.0
    low, high = (-1.0, 1.0) if task_id in STREAMS else ROUTING.reward_range
    for count, action in enumerate(random_actions(1, env.task.episode_length), start=1):
        assert not env.done
        RoutingObservation.model_validate(observation.model_dump())
        assert observation.queries_left == env.task.episode_length - count + 1
        observation, reward, done, info = env.step(action)
        assert {"timestep", "metrics", "workload", "masked_actions", "reward_terms"} <= set(info)
        json.dumps(info, allow_nan=False)
        assert low <= reward <= high
        assert reward == pytest.approx(sum(info["reward_terms"].values()), abs=1e-12)
        assert observation.last_reward == reward
        assert observation.reward_breakdown == info["reward_terms"]
        assert info["timestep"] == count
        assert info["terminated"] == done
        total += reward
    assert done
    assert (observation.queries_left, observation.query_text) == (0, "")
    RoutingObservation.model_validate(observation.model_dump())
    state = RoutingState.model_validate(env.state())
    assert (state.step_count, state.done, state.task_id) == (env.task.episode_length, True, task_id)
    assert state.cumulative_reward == pytest.approx(total)


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_what_happened_is_conserved(task_id: str) -> None:
    """The state's totals are the sums over the steps: no query is lost or counted twice."""
    env = started(task_id, 4)
    metrics = [env.step(a)[3]["metrics"] for a in random_actions(2, env.task.episode_length)]
    state = env.state()
    assert len(metrics) == env.task.episode_length
    assert state["correct"] == sum(step["correct"] for step in metrics)
    for name in ("energy_wh", "co2_g"):
        assert state[name] == pytest.approx(sum(step[name] for step in metrics))


def test_another_process_gives_the_same_bytes() -> None:
    cases = [(task_id, seed, seed + 1) for task_id in TASK_IDS for seed in (0, 7)]
    found = subprocess.run(
        [sys.executable, "-m", "tests.env.routing.episodes", json.dumps(cases)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "4321"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == [digest(*case) for case in cases]


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_seeds_differ(task_id: str) -> None:
    first = {make_env(task_id, seed).reset().model_dump_json() for seed in range(3)}
    assert len(first) == 3


@given(st.sampled_from(TASK_IDS), st.integers(0, 2**63 - 1), st.integers(0, 2**32), st.integers(0, 30))
def test_a_snapshot_brings_back_the_very_future(task_id: str, seed: int, action_seed: int, at: int) -> None:
    env = started(task_id, seed)
    actions = random_actions(action_seed, min(60, env.task.episode_length))
    at = min(at, len(actions))
    transcript(env, actions[:at])
    kept = env.snapshot()
    future = transcript(env, actions[at:])
    env.restore(kept)
    assert transcript(env, actions[at:]) == future
    other = make_env(task_id, 0)
    other.restore(kept)
    assert transcript(other, actions[at:]) == future


def test_snapshots_of_other_tasks_and_places_are_refused() -> None:
    kept = started("stream_3", 1).snapshot()
    for other in (started("stream_2", 1), started("stream_3", 1, region="London")):
        before = other.state()
        with pytest.raises(InvalidValueError, match="snapshot"):
            other.restore(kept)
        assert other.state() == before


def test_wrong_times_to_step_change_nothing() -> None:
    env = make_env("task_1")
    for call in (lambda: env.step(RoutingAction()), env.state, env.snapshot):
        with pytest.raises(EpisodeNotStartedError):
            call()
    env.reset()
    env.step({})
    before = env.state()
    with pytest.raises(EpisodeDoneError):
        env.step({})
    assert env.state() == before


@pytest.mark.parametrize(
    ("action", "field"),
    [
        ({"strategy": "SLEEP"}, "action.strategy"),
        ({"strategy": 1}, "action.strategy"),
        ({"strategy": None}, "action.strategy"),
        ({"model_choice": "HUGE"}, "action.model_choice"),
        ({"model_choice": True}, "action.model_choice"),
        ({"exit_flag": 1}, "action.exit_flag"),
        ({"exit_flag": "true"}, "action.exit_flag"),
        ({"cache": True}, "action.cache"),
        ([], "action"),
    ],
)
def test_bad_actions_are_named_and_change_nothing(action: Any, field: str) -> None:
    env = started("stream_1", 1)
    before = env.state(), as_json((env.play.observe(0.0, {}), 0.0, False, {}))  # type: ignore[union-attr]
    with pytest.raises(InvalidValueError) as caught:
        env.step(action)
    assert caught.value.field == field
    assert (env.state(), as_json((env.play.observe(0.0, {}), 0.0, False, {}))) == before  # type: ignore[union-attr]


def test_names_are_taken_in_any_case() -> None:
    one = RoutingAction.model_validate({"strategy": "use_cache", "model_choice": "Large"})
    assert one.model_dump(mode="json") == {
        "strategy": "USE_CACHE",
        "model_choice": "LARGE",
        "exit_flag": False,
    }


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, True, "1"])
def test_bad_seeds_are_refused(seed: Any) -> None:
    with pytest.raises(InvalidValueError, match="seed"):
        make_env("task_1", seed)


@pytest.mark.parametrize(
    ("task_id", "config", "field"),
    [
        ("stream_1", {"region": "Atlantis"}, "config.region"),
        ("stream_1", {"start_hour": 24}, "config.start_hour"),
        ("stream_1", {"start_hour": -1}, "config.start_hour"),
        ("stream_1", {"start_hour": "3"}, "config.start_hour"),
        ("stream_1", {"start_hour": True}, "config.start_hour"),
        ("stream_1", {"start_hour": 3.5}, "config.start_hour"),
        ("stream_1", {"region": ["London"]}, "config.region"),
        ("stream_1", {"wind": 1}, "config.wind"),
        ("stream_1", [], "config"),
        ("stream_1", "", "config"),
        ("task_1", {"region": "London"}, "config"),
        ("task_3", {"start_hour": 3}, "config"),
    ],
)
def test_bad_configs_are_refused(task_id: str, config: Any, field: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        make_env(task_id, 0, config)
    assert caught.value.field == field


@pytest.mark.parametrize("name", ["Montreal", "montréal", "MONTRÉAL"])
def test_regions_are_taken_in_any_case(name: str) -> None:
    env = make_env("stream_3", 0, {"region": name, "start_hour": 7.0})
    assert env.reset().region == "Montreal"
    assert env.config == RoutingConfig(region="Montreal", start_hour=7)


def test_aliases_name_tasks_and_no_two_share_one() -> None:
    names = [name for task_id, task in TASKS.items() for name in (task_id, *task.aliases)]
    assert len(names) == len(set(names))
    assert all(get_task(name).info.id in TASKS for name in names)
    assert make_env("support").task.id == "stream_1"
    for name in ("streem_1", "STREEM_1"):
        with pytest.raises(UnknownNameError, match="Did you mean stream_1"):
            make_env(name)


@pytest.mark.parametrize("task_id", STREAMS)
def test_actions_change_what_comes_next(task_id: str) -> None:
    """Loads, cache and held queries carry over; the queries themselves do not depend on the agent."""
    seen = {}
    for strategy, model in (("NONE", "LARGE"), ("NONE", "SMALL"), ("WAIT", "SMALL")):
        env = started(task_id, 1)
        for _ in range(60):
            observation = env.step({"strategy": strategy, "model_choice": model})[0]
        seen[strategy, model] = observation
    large, small, held = seen.values()
    assert large.model_load.large > small.model_load.large + 0.1
    assert small.model_load.small > large.model_load.small + 0.05
    assert held.model_load.small == pytest.approx(small.model_load.small, abs=0.05)
    assert large.query_text == small.query_text == held.query_text
    assert large.difficulty_estimate == small.difficulty_estimate


def test_texts_tell_own_answers_from_neighbours() -> None:
    """As docs/environments/routing.md says: the nearest answer is the question's own exactly when both texts
    agree."""
    env = started("stream_2", 4)
    observation = env.play.observe(0.0, {})  # type: ignore[union-attr]
    texts, own = dict[str, str](), list[bool]()
    while not env.done:
        texts[observation.query_id] = observation.query_text
        query = env.play.queries[env.play.index]  # type: ignore[union-attr]
        for earlier in observation.cache_contents:
            own.append(texts[earlier] == observation.query_text)
            assert observation.cache_similarity == query[10 if own[-1] else 11]
        observation = env.step({"model_choice": "SMALL"})[0]
    assert set(own) == {True, False}


@pytest.mark.parametrize("task_id", STREAMS)
def test_every_term_and_metric_varies(task_id: str) -> None:
    env = started(task_id, 2)
    infos = [env.step(a)[3] for a in random_actions(3, env.task.episode_length)]
    for name in ("score", "carbon_penalty", "latency_penalty"):
        assert len({info["reward_terms"][name] for info in infos}) > 1
    for name in ("correct", "energy_wh", "co2_g", "latency_s", "late", "cache_hit", "kb_used"):
        assert len({info["metrics"][name] for info in infos}) > 1


def test_dead_models_are_seen_by_probe_and_by_timeout() -> None:
    seen = set()
    for seed in range(12):
        env = started("stream_3", seed)
        up_before = None
        while not env.done:
            observation, _, _, info = env.step({"model_choice": "LARGE"})
            seen.add((bool(up_before), info["metrics"]["timeouts"] > 0))
            up_before = observation.models_up.large
    # A model that was seen up can time out, and one that was seen down does.
    assert {(True, False), (True, True), (False, True)} <= seen


@pytest.mark.parametrize("task_id", CLASSIC)
def test_classic_games_are_picked_by_the_seed(task_id: str) -> None:
    count = TASKS[task_id].facts["games"]
    texts = [make_env(task_id, seed).reset().model_dump() for seed in range(2 * count)]
    assert texts[:count] == texts[count:]


def test_the_classic_observation_shows_everything() -> None:
    env = started("task_3", 0)
    first = env.play.observe(0.0, {})  # type: ignore[union-attr]
    assert (first.carbon_intensity, first.carbon_if_wait) == (0.6, 0.8)
    assert first.cache_contents == ()
    second = env.step({"model_choice": "SMALL"})[0]
    assert second.cache_contents == ("capital",)
    assert second.carbon_intensity == 0.8
    third = env.step({"model_choice": "SMALL"})[0]  # too small: nothing is cached
    assert third.cache_contents == ("capital",)
    assert third.kb_available is True


def test_info_tells_constants_and_sources() -> None:
    told = describe()
    json.dumps(told, allow_nan=False)
    assert told["classic_rules"]["energy"] == [0.1, 0.3, 0.6]
    assert "arXiv" in told["accuracy"]["source"]
