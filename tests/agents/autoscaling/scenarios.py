"""Whole episodes of Autoscaling-v0 for tests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from env.autoscaling.episode import AutoscalingEnv, make_env
from grader.autoscaling.grader import GRADER
from inferencegym.models.autoscaling import AutoscalingObservation
from simulator.autoscaling.engine import Fleet


@cache
def fleet_class() -> Any:
    """The fast one, where numba is there."""
    try:
        from simulator.autoscaling.compiled import CompiledFleet
    except ImportError:
        return Fleet
    return CompiledFleet


def quick_env(task_id: str, seed: int = 42, scenario: str | None = None) -> AutoscalingEnv:
    config = None if scenario is None else {"scenario": scenario}
    return make_env(task_id, seed, config, fleet=fleet_class())


@dataclass
class Course:
    """What an episode was like."""

    score: float
    passed: bool
    healthy_ratio: float
    survived: bool
    reward: float
    observations: list[AutoscalingObservation]
    metrics: list[dict[str, Any]]

    def column(self, name: str) -> Any:
        return np.asarray([metrics[name] for metrics in self.metrics])


def play(agent: Any, env: AutoscalingEnv) -> Course:
    observation = env.reset()
    agent.reset()
    seen, metrics, reward = [observation], [], 0.0
    while not env.done:
        observation, gained, _, info = env.step(agent.act(observation))
        seen.append(observation)
        metrics.append(info["metrics"])
        reward += gained
    grade = GRADER.grade_log(env.task.id, [{"metrics": entry} for entry in metrics])
    state = env.state()
    ratio = state["healthy_steps"] / state["step_count"]
    return Course(grade.score, bool(grade.passed), ratio, state["survived"], reward, seen, metrics)
