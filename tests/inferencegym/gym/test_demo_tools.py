"""What the training tools expect: Stable-Baselines3's checker, masks, the chart."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from tests.inferencegym.gym.tools import TASKS, make

pytestmark = pytest.mark.demo


@pytest.mark.parametrize("mode", ["flat", "multidiscrete"])
@pytest.mark.parametrize("task_id", TASKS)
def test_stable_baselines_approves_without_a_warning(task_id: str, mode: str) -> None:
    from stable_baselines3.common.env_checker import check_env

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(task_id=task_id, action_mode=mode), warn=True)


@pytest.mark.filterwarnings("default")
def test_maskable_ppo_never_moves_a_locked_knob() -> None:
    from sb3_contrib import MaskablePPO

    env: Any = make(task_id="task1", action_mode="multidiscrete")
    model = MaskablePPO("MlpPolicy", env, n_steps=64, batch_size=32, device="cpu", seed=0)
    model.learn(64)
    observation, _ = env.reset(seed=0)
    for _ in range(20):
        action, _ = model.predict(observation, action_masks=env.unwrapped.action_masks())
        assert action[[1, 3, 4]].tolist() == [0, 0, 0]
        observation, *_ = env.step(action)


def test_the_chart_is_a_picture_that_changes() -> None:
    env = make(task_id="task3", render_mode="rgb_array")
    env.reset(seed=0)
    empty = env.render()
    for _ in range(30):
        env.step(env.action_space.sample())
    chart = env.render()
    assert chart.dtype == np.uint8
    assert chart.shape == empty.shape
    assert chart.shape[2] == 3
    assert (chart != empty).any()
