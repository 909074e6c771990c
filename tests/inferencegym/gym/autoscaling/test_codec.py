"""Autoscaling-v0 through gymnasium: single and vector play the same episodes, bit by bit."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import inferencegym.gym
from inferencegym.errors import InvalidValueError
from inferencegym.gym.autoscaling.codec import CODEC

ENV = "InferenceGym/Autoscaling-v0"
TASKS = ("balanced", "high_traffic", "failure_heavy", "rolling_update")
assert inferencegym.gym.__all__


def make(**settings: Any) -> Any:
    return gymnasium.make(ENV, **settings)


def make_vec(count: int, **settings: Any) -> Any:
    return gymnasium.make_vec(ENV, count, "vector_entry_point", **settings)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasium_s_own_checks() -> None:
    check_env(make(task_id="failure_heavy", action_mode="multidiscrete").unwrapped, skip_render_check=True)


@pytest.mark.parametrize("task_id", TASKS)
def test_a_vector_plays_what_single_environments_play(task_id: str) -> None:
    count = 3
    envs = [make(task_id=task_id, action_mode="multidiscrete") for _ in range(count)]
    vector = make_vec(count, task_id=task_id, action_mode="multidiscrete")
    together, _ = vector.reset(seed=21)
    for index, env in enumerate(envs):
        assert np.array_equal(env.reset(seed=21 + index)[0], together[index])
    rng = np.random.default_rng(2)
    for _ in range(300):  # past the end of the first episodes
        actions = rng.integers(0, 3, size=(count, 1))
        together, rewards, terminated, truncated, infos = vector.step(actions)
        assert not terminated.any()
        for index, env in enumerate(envs):
            alone, reward, _, cut, info = env.step(actions[index])
            assert reward == rewards[index]
            assert cut == truncated[index]
            if cut:
                alone, _ = env.reset()
            else:
                for name, value in info["reward_terms"].items():
                    assert infos["reward_terms"][name][index] == value
                assert infos["metrics"]["ttft_p95_ms"][index] == info["metrics"]["ttft_p95_ms"]
                assert infos["metrics"]["healthy"][index] == info["metrics"]["healthy"]
            assert np.array_equal(alone, together[index])
    vector.close()


def test_machine_code_and_python_play_the_same() -> None:
    fast, plain = (make(task_id="failure_heavy", backend=backend) for backend in ("compiled", "python"))
    first, second = fast.reset(seed=4)[0], plain.reset(seed=4)[0]
    rng = np.random.default_rng(0)
    for _ in range(120):
        assert np.array_equal(first, second)
        action = rng.uniform(-1.0, 1.0, 1).astype(np.float32)
        first, reward, *_ = fast.step(action)
        second, same, *_ = plain.step(action)
        assert reward == same


def test_masks_say_which_moves_have_an_effect() -> None:
    env = make(task_id="balanced", action_mode="multidiscrete").unwrapped
    env.reset(seed=1)
    assert env.action_masks().tolist() == [True, True, True]
    for _ in range(30):
        env.step([0])
    assert env.action_masks().tolist() == [False, True, True]


def test_every_entry_of_the_observation_moves_and_stays_in_bounds() -> None:
    seen: list[Any] = []
    for task_id in ("failure_heavy", "rolling_update"):
        env = make(task_id=task_id, action_mode="multidiscrete")
        seen.append(env.reset(seed=6)[0])
        rng = np.random.default_rng(1)
        for step in range(240):
            move = int(rng.integers(3)) if step > 60 else 0
            seen.append(env.step([move])[0])
    space = CODEC.observation_space()
    assert all(space.contains(entry) for entry in seen)
    assert (np.ptp(np.stack(seen), axis=0) > 0.0).all()


def test_it_renders() -> None:
    env = make(task_id="balanced", render_mode="ansi")
    env.reset(seed=1)
    env.step(np.ones(1, dtype=np.float32))
    text = env.render()
    assert "Balanced Autoscaling" in text
    assert "replicas ready" in text


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(LookupError, match="backend"):
        make(backend="cuda")


def test_no_task_is_the_first_task() -> None:
    vector, single = make_vec(2, task_id=None), make(task_id=None)
    assert single.unwrapped.task.id == "balanced"
    assert np.array_equal(vector.reset(seed=5)[0][0], single.reset(seed=5)[0])
    vector.close()


@pytest.mark.parametrize("config", [[], "metrics_outage", 5, {"scenario": "earthquake"}])
def test_a_bad_config_is_refused_by_both(config: Any) -> None:
    for attempt in (lambda: make(config=config), lambda: make_vec(2, config=config)):
        with pytest.raises(InvalidValueError, match="config"):
            attempt()


def test_a_vector_plays_on_another_gpu_too() -> None:
    config = {"trace_pack": "h100_llama3_8b"}
    first = make_vec(2, config=config).reset(seed=5)[0][0]
    assert np.array_equal(first, make(config=config).reset(seed=5)[0])
    assert not np.array_equal(first, make().reset(seed=5)[0])
