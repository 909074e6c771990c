"""Episodes of the reference agents, each played once per test process, with their grades and rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.serving.agents import AGENTS
from env.protocols import GradeResult
from env.serving.episode import make_env
from grader.serving.grader import GRADER
from inferencegym.models.serving import ServeAction

TASK_IDS = ("task1", "task2", "task3")
REFERENCE_AGENTS = ("random", "zero", "baseline", "static", "reactive", "adaptive")

HELD_OUT = tuple(range(100, 120))
"""Seeds that neither calibration nor any agent has seen."""

STUDENT_T_19 = 2.093
"""Two-sided 95 % quantile for the mean of 20 values."""

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Played:
    """One episode: its log as /step replies hold it, its grade, and means of reward and reward terms."""

    log: list[dict[str, Any]]
    grade: GradeResult
    mean_reward: float
    mean_terms: dict[str, float]

    @property
    def actions(self) -> list[dict[str, Any]]:
        return [entry["action"] for entry in self.log]


@cache
def played(task_id: str, agent_name: str, seed: int) -> Played:
    env = make_env(task_id, seed)
    agent, observation = AGENTS[agent_name](task_id, seed), env.reset()
    agent.reset()
    log: list[dict[str, Any]] = []
    terms: list[dict[str, float]] = []
    while not env.done:
        observation, reward, _, info = env.step(agent.act(observation))
        log.append({"action": info["action"], "reward": reward, "metrics": info["metrics"]})
        terms.append(info["reward_terms"])
    return Played(
        log,
        GRADER.grade_log(task_id, log),
        float(np.mean([entry["reward"] for entry in log])),
        {name: float(np.mean([one[name] for one in terms])) for name in terms[0]},
    )


def constant_log(task_id: str, action: ServeAction, seed: int, steps: int = 200) -> list[dict[str, Any]]:
    env = make_env(task_id, seed)
    env.reset()
    log = []
    for _ in range(steps):
        _, reward, _, info = env.step(action)
        log.append({"action": info["action"], "reward": reward, "metrics": info["metrics"]})
    return log


def scores(task_id: str, agent_name: str, seeds: Sequence[int] = HELD_OUT) -> FloatArray:
    return np.array([played(task_id, agent_name, seed).grade.score for seed in seeds])


def rewards(task_id: str, agent_name: str, seeds: Sequence[int] = HELD_OUT) -> FloatArray:
    return np.array([played(task_id, agent_name, seed).mean_reward for seed in seeds])


def interval(values: FloatArray) -> tuple[float, float]:
    """95 % confidence interval of the mean of 20 values."""
    half = STUDENT_T_19 * float(values.std(ddof=1)) / len(values) ** 0.5
    return float(values.mean()) - half, float(values.mean()) + half
