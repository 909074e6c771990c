"""Routing-v0 through gymnasium: single and vector environments play the same episodes."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from inferencegym.errors import InvalidValueError
from inferencegym.gym.registration import codec_of
from inferencegym.gym.routing.codec import CODEC
from inferencegym.gym.routing.env import RoutingGymEnv
from inferencegym.registry import ROUTING
from tests.env.routing.episodes import STREAMS, TASK_IDS
from tests.inferencegym.gym.tools import MODES, assert_same_infos


def make(**settings: Any) -> Any:
    return gymnasium.make(ROUTING.id, **settings)


def make_vec(num_envs: int, mode: str = "vector_entry_point", **settings: Any) -> Any:
    return gymnasium.make_vec(ROUTING.id, num_envs=num_envs, vectorization_mode=mode, **settings)


def assert_same(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> None:
    for one, two in zip(ours[:-1], theirs[:-1], strict=True):
        assert one.dtype == two.dtype
        assert np.array_equal(one, two)
    assert_same_infos(ours[-1], theirs[-1])


def test_the_codec_is_the_environments_own() -> None:
    assert codec_of(ROUTING) is CODEC
    assert isinstance(make().unwrapped, RoutingGymEnv)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("task_id", TASK_IDS)
def test_observations_stay_in_their_space(task_id: str, mode: str) -> None:
    env = make(task_id=task_id, action_mode=mode)
    env.action_space.seed(0)
    assert env.observation_space.contains(env.reset(seed=3)[0])
    ended = False
    while not ended:
        observation, reward, ended, truncated, info = env.step(env.action_space.sample())
        assert env.observation_space.contains(observation)
        assert not truncated
        assert isinstance(reward, float)
        assert info["action_mask"].tolist() == [1, 1, 1]


def test_every_entry_says_something() -> None:
    envs = make_vec(8, task_id="stream_3")
    envs.action_space.seed(0)
    rows = [envs.reset(seed=0)[0], *(envs.step(envs.action_space.sample())[0] for _ in range(390))]
    assert (np.ptp(np.concatenate(rows), axis=0) > 0.0).all()
    envs.close()


def test_levels_are_strategies_models_and_the_flag() -> None:
    env = make(action_mode="multidiscrete")
    assert env.action_space.nvec.tolist() == [6, 3, 2]
    env.reset(seed=6)
    info = env.step(np.array([1, 2, 1]))[4]
    assert info["action"] == {"strategy": "USE_CACHE", "model_choice": "LARGE", "exit_flag": True}
    assert info["metrics"]["cache_hit"] is True


def test_rendering() -> None:
    env = make(task_id="stream_1", render_mode="ansi")
    env.reset(seed=0)
    env.step(env.action_space.sample())
    text = env.render()
    assert "stream_1 Support desk: step 1 of 300" in text
    assert "strategy=" in text
    assert "carbon (g CO2)" in text


@pytest.mark.parametrize("autoreset", list(AutoresetMode))
@pytest.mark.parametrize("task_id", STREAMS)
def test_vector_trajectories_are_those_of_single_environments(task_id: str, autoreset: AutoresetMode) -> None:
    """A whole episode and the start of the next, random actions."""
    ours = make_vec(3, task_id=task_id, autoreset_mode=autoreset)
    theirs = make_vec(3, "sync", task_id=task_id, vector_kwargs={"autoreset_mode": autoreset})
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert_same(ours.reset(seed=7), theirs.reset(seed=7))
    ours.action_space.seed(3)
    for _ in range(430):
        actions = ours.action_space.sample()
        answer = ours.step(actions)
        assert_same(answer, theirs.step(actions))
        if autoreset is AutoresetMode.DISABLED and answer[2].any():
            options = {"reset_mask": answer[2]}
            assert_same(ours.reset(options=dict(options)), theirs.reset(options=dict(options)))
    ours.close()


@pytest.mark.parametrize("mode", MODES)
def test_vector_actions_of_every_kind(mode: str) -> None:
    settings = {"task_id": "stream_3", "action_mode": mode, "config": {"region": "Iowa", "start_hour": 9}}
    ours = make_vec(4, threads=2, **settings)
    theirs = make_vec(4, "sync", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP}, **settings)
    assert_same(ours.reset(seed=[5, 1, 5, 8]), theirs.reset(seed=[5, 1, 5, 8]))
    ours.action_space.seed(0)
    for _ in range(60):
        actions = ours.action_space.sample()
        assert_same(ours.step(actions), theirs.step(actions))
    ours.close()


@pytest.mark.parametrize("task_id", ["task_1", "task_3"])
def test_classic_games_side_by_side(task_id: str) -> None:
    envs = make_vec(3, task_id=task_id, action_mode="multidiscrete")
    envs.reset(seed=0)
    single = make(task_id=task_id, action_mode="multidiscrete")
    single.reset(seed=1)
    envs.action_space.seed(2)
    ended = False
    while not ended:
        actions = envs.action_space.sample()
        observations, rewards, terminated, _, infos = envs.step(actions)
        observation, reward, ended, _, _ = single.step(actions[1])
        assert rewards[1] == reward
        seen = infos["final_obs"][1] if ended else observations[1]
        assert np.array_equal(seen, observation)
        assert terminated[1] == ended


@pytest.mark.parametrize(
    ("mode", "actions"),
    [
        ("multidiscrete", [[6, 0, 0]] * 2),
        ("multidiscrete", [[0, 0, 0.5]] * 2),
        ("flat", [[np.nan, 0, 0]] * 2),
    ],
)
def test_bad_vector_actions_are_refused(mode: str, actions: Any) -> None:
    env = make_vec(2, task_id="stream_1", action_mode=mode)
    env.reset(seed=0)
    with pytest.raises(InvalidValueError):
        env.step(actions)
    env.close()
