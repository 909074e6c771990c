"""Routing episodes for tests: random actions and transcripts. As a program: fingerprints of episodes."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import numpy as np

from env.routing.episode import RoutingEnv, make_env
from env.routing.tasks import TASKS
from inferencegym.models.routing import ModelChoice, RoutingAction, Strategy

TASK_IDS = list(TASKS)
CLASSIC = [task_id for task_id, task in TASKS.items() if task.facts["kind"] == "classic"]
STREAMS = [task_id for task_id in TASKS if task_id not in CLASSIC]


def started(task_id: str, seed: int = 0, **config: Any) -> RoutingEnv:
    env = make_env(task_id, seed, config or None)
    env.reset()
    return env


def random_actions(seed: int, count: int) -> list[RoutingAction]:
    rng = np.random.default_rng(seed)
    drawn = zip(
        rng.integers(6, size=count), rng.integers(3, size=count), rng.integers(2, size=count), strict=True
    )
    return [
        RoutingAction(strategy=Strategy(s), model_choice=ModelChoice(m), exit_flag=bool(f))
        for s, m, f in drawn
    ]


def as_json(step: tuple[Any, float, bool, dict[str, Any]]) -> str:
    observation, reward, done, info = step
    return json.dumps([observation.model_dump(mode="json"), reward, done, info], allow_nan=False)


def transcript(env: RoutingEnv, actions: list[RoutingAction]) -> list[str]:
    return [as_json(env.step(action)) for action in actions]


def digest(task_id: str, seed: int, action_seed: int) -> str:
    env = make_env(task_id, seed)
    first = env.reset().model_dump_json()
    lines = transcript(env, random_actions(action_seed, env.task.episode_length))
    return hashlib.sha256("\n".join([first, *lines, json.dumps(env.state())]).encode()).hexdigest()


if __name__ == "__main__":
    for case in json.loads(sys.argv[1]):
        print(digest(*case))
