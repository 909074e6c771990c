"""The gymnasium environment in this process."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from env.serving.episode import make_env
from inferencegym.errors import EpisodeDoneError, InferenceGymError, InvalidValueError
from inferencegym.gym import GymEnv, ServingGymEnv
from inferencegym.gym.serving.codec import CODEC
from tests.inferencegym.gym.tools import MODES, TASKS, make, toy_registered

HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


@pytest.mark.filterwarnings("ignore:.*symmetric and normalized space.*")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("task_id", TASKS)
def test_gymnasium_approves(task_id: str, mode: str) -> None:
    check_env(make(task_id=task_id, action_mode=mode).unwrapped, skip_render_check=not HAS_MATPLOTLIB)


def test_gymnasium_approves_of_any_environment() -> None:
    with toy_registered() as spec:
        check_env(GymEnv(spec.id, "windy"), skip_render_check=True)


@pytest.mark.parametrize("backend", ["python", "compiled"])
@pytest.mark.parametrize("task_id", TASKS)
def test_it_plays_the_episode_of_the_core_environment(task_id: str, backend: str) -> None:
    env, core = make(task_id=task_id, backend=backend), make_env(task_id)
    env.action_space.seed(2)
    observation, _ = env.reset(seed=9)
    seen = CODEC.read(core.reset(9))
    assert observation.tolist() == CODEC.encode(seen, seen).tolist()
    for step in range(200):
        action = env.action_space.sample()
        observation, reward, terminated, truncated, info = env.step(action)
        model, expected, done, core_info = core.step(CODEC.decode("flat", action))  # type: ignore[arg-type]
        now = CODEC.read(model)
        assert observation.tolist() == CODEC.encode(now, seen).tolist()
        assert (reward, terminated, truncated) == (expected, False, done == (step == 199) and done)
        assert info.pop("action_mask").tolist() == CODEC.action_mask(core.task.active_actions).tolist()
        assert info == core_info
        seen = now
    with pytest.raises(EpisodeDoneError):
        env.step(action)


def first_observations(env: Any, resets: int) -> list[bytes]:
    return [env.reset()[0].tobytes() for _ in range(resets)]


def test_seeds_differ_in_the_first_reset_and_in_later_ones() -> None:
    one, same, other = (make(task_id="task2") for _ in range(3))
    starts = [env.reset(seed=seed)[0].tobytes() for env, seed in ((one, 1), (same, 1), (other, 2))]
    assert starts[0] == starts[1] != starts[2]
    later = [first_observations(env, 4) for env in (one, same, other)]
    assert later[0] == later[1]
    assert len({starts[0], starts[2], *later[0], *later[2]}) == 10


def test_without_any_seed_runs_differ() -> None:
    assert make().reset()[1]["seed"] != make().reset()[1]["seed"]


def test_an_episode_can_be_played_again_from_its_seed() -> None:
    env = make(task_id="task3")
    env.reset(seed=5)
    observation, info = env.reset()
    assert np.array_equal(env.reset(seed=info["seed"])[0], observation)


def test_reward_weights_are_passed_on() -> None:
    env = make(config={"alpha": 0.0})
    env.reset(seed=0)
    assert env.step(env.action_space.sample())[4]["reward_terms"]["throughput"] == 0.0
    with pytest.raises(InvalidValueError, match="alpha"):
        make(config={"alpha": 2.0})


def test_locked_knobs_are_masked_and_have_no_effect() -> None:
    env = make(task_id="task1", action_mode="multidiscrete")
    env.reset(seed=0)
    _, reward, _, _, info = env.step([9, 4, 7, 1, 2])
    assert info["action_mask"].tolist() == [1, 0, 1, 0, 0]
    assert info["action"]["spec_length"] == 0
    env.reset(seed=0)
    assert env.step([9, 0, 7, 0, 0])[1] == reward
    masks = env.unwrapped.action_masks()
    assert masks.dtype == np.bool_
    assert masks.shape == (10 + 5 + 16 + 2 + 3,)
    assert masks.sum() == 10 + 1 + 16 + 1 + 1


def test_a_refused_action_changes_nothing() -> None:
    env = make(task_id="task1", action_mode="multidiscrete")
    env.reset(seed=0)
    with pytest.raises(InvalidValueError):
        env.step([99, 0, 0, 0, 0])
    assert env.step([9, 0, 7, 0, 0])[4]["timestep"] == 1


@pytest.mark.parametrize("seed", [-5, True, 1.0, "34", [1], 2**63, np.float64(3.0)])
def test_a_refused_seed_changes_nothing(seed: Any) -> None:
    env, twin = make(), make()
    for each in (env, twin):
        each.reset(seed=3)
    with pytest.raises(InvalidValueError, match="seed"):
        env.reset(seed=seed)
    action = np.zeros(5, dtype=np.float32)
    assert env.step(action)[0].tolist() == twin.step(action)[0].tolist()
    assert env.reset()[1]["seed"] == twin.reset()[1]["seed"]
    assert env.reset(seed=np.int64(3))[1]["seed"] == 3


@pytest.mark.parametrize("options", ["abc", 5, {"reset_mask": [True]}, [], [1], False])
def test_there_are_no_options(options: Any) -> None:
    env = make()
    with pytest.raises(InvalidValueError, match="options"):
        env.reset(seed=3, options=options)
    env.reset(seed=3, options={})


def test_text_rendering() -> None:
    env = make(task_id="task2", render_mode="ansi")
    env.reset(seed=0)
    assert "step 0 of 200" in env.render()
    assert "Nothing to show before the first step." in env.render()
    env.step(env.action_space.sample())
    text = env.render()
    assert "task2 Bursty ShareGPT: step 1 of 200" in text
    assert "batch_size=" in text
    assert "TTFT p50 (ms)" in text
    assert "Nothing to show" not in text
    env.reset()
    assert "step 0 of 200" in env.render()


@pytest.mark.skipif(not HAS_MATPLOTLIB, reason="needs matplotlib")
def test_the_chart_shows_something_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.axes import Axes

    env = make(task_id="task2", render_mode="rgb_array").unwrapped
    env.reset(seed=0)
    told = env.render()
    monkeypatch.setattr("inferencegym.gym.render._NOTHING_YET", "")
    assert not np.array_equal(told, env.render())
    drawn: list[Any] = []
    plot = Axes.plot
    monkeypatch.setattr(Axes, "plot", lambda axis, *a, **k: drawn.append(k["marker"]) or plot(axis, *a, **k))
    env.step(env.action_space.sample())
    env.render()
    assert set(drawn) == {"o"}  # a line through one point cannot be seen
    drawn.clear()
    env.step(env.action_space.sample())
    env.render()
    assert set(drawn) == {None}


def test_render_modes() -> None:
    env = ServingGymEnv()
    env.reset(seed=0)
    assert env.render() is None
    with pytest.raises(InvalidValueError, match="render_mode"):
        ServingGymEnv(render_mode="human")


@pytest.mark.skipif(HAS_MATPLOTLIB, reason="matplotlib is installed")
def test_the_chart_says_what_it_needs() -> None:
    env = ServingGymEnv(render_mode="rgb_array")
    env.reset(seed=0)
    with pytest.raises(InferenceGymError, match="matplotlib"):
        env.render()
