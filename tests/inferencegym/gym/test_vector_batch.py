"""The vector environment over any batch: episodes that end by what happens in them, and by their length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from env.protocols import TaskInfo
from inferencegym.gym.codec import Feature, GymCodec
from inferencegym.gym.knobs import real
from inferencegym.gym.vector import BatchVectorEnv
from inferencegym.gym.vector_info import InfoColumns
from tests.server.toy_env import Push

LENGTH = 6


class Countdown:
    """Fuel falls by the force of each push; an episode ends when it is gone, or after six steps."""

    def __init__(self, count: int) -> None:
        self.observation = np.zeros((count, 1))
        self.previous = np.zeros((count, 1))
        self.reward = np.zeros(count)
        self.terms = np.zeros((count, 1))
        self.results = np.zeros((count, 3))
        self.steps = np.zeros(count, dtype=np.int64)

    @property
    def terminated(self) -> Any:
        return self.observation[:, 0] <= 0.0

    @property
    def truncated(self) -> Any:
        return (self.steps >= LENGTH) & ~self.terminated

    def restart(self, rows: Sequence[int], seeds: Sequence[int], spread: Any) -> None:
        for row, seed in zip(rows, seeds, strict=True):
            self.observation[row] = self.previous[row] = 1.0 + seed % 4
            self.steps[row] = 0

    def advance(self, low: int, high: int, knobs: Any, stepped: Any) -> None:
        for row in range(low, high):
            if stepped[row]:
                self.previous[row] = self.observation[row]
                self.observation[row] -= knobs[row, 0]
                self.reward[row] = self.terms[row, 0] = knobs[row, 0] / 2
                self.results[row] = self.observation[row, 0], self.steps[row], self.observation[row, 0] < 1
                self.steps[row] += 1


def make(autoreset: str, count: int = 4) -> BatchVectorEnv:
    return BatchVectorEnv(
        Countdown,
        TaskInfo("calm", "Calm", "easy", "", ("force",), LENGTH),
        GymCodec(Push, (Feature("fuel", "fuel", 0, 10),), (real("force", 0.0, 1.0, 0.0),)),
        ("fuel",),
        InfoColumns({"fuel": 0}, {"second": 1}, {"low": 2}, ("push",)),
        count,
        "dict",
        autoreset,
        threads=1,
    )


def push(env: BatchVectorEnv, force: float) -> tuple[Any, ...]:
    return env.step({"force": np.full((env.num_envs, 1), force, dtype=np.float32)})


def test_ends_are_told_apart() -> None:
    env = make("Disabled")
    env.reset(seed=0)
    for step in range(4):
        _, _, terminated, truncated, infos = push(env, 1.0)
        assert not truncated.any()
        assert infos["metrics"]["low"].dtype == np.bool_
        assert terminated.tolist() == [row == step for row in range(4)]
        assert infos["metrics"]["second"].tolist()[step] == step
        if terminated.any() and step < 3:
            env.reset(seed=[3] * 4, options={"reset_mask": terminated})
    env.reset(seed=3)
    for step in range(LENGTH):
        _, _, terminated, truncated, _ = push(env, 0.1)
        assert not terminated.any()
        assert truncated.all() == (step == LENGTH - 1)


@pytest.mark.parametrize("autoreset", ["SameStep", "NextStep"])
def test_an_episode_that_terminates_starts_over(autoreset: str) -> None:
    env = make(autoreset)
    env.reset(seed=0)
    ends = np.zeros(4, dtype=int)
    for _ in range(10):
        observations, rewards, terminated, truncated, infos = push(env, 1.0)
        assert not truncated.any()
        ends += terminated
        assert ("final_obs" in infos) == (autoreset == "SameStep" and bool(terminated.any()))
        if autoreset == "SameStep" and terminated.any():
            row = int(np.flatnonzero(terminated)[0])
            assert infos["final_obs"][row] == [0.0]
            assert infos["final_info"]["metrics"]["fuel"][row] == 0.0
            assert observations[row] > 0.0
            assert rewards[row] == 0.5
    assert ends[0] >= 2
