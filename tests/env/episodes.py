"""Serving episodes for tests: random actions and transcripts. As a program: fingerprints of episodes."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

from env.serving.episode import InferenceEnv, make_env
from env.serving.tasks import TASKS
from inferencegym.models.serving import QuantTier, ServeAction, ServeObservation

TASK_IDS = list(TASKS)
LENGTH = 200

SEEDS = st.integers(0, 2**63 - 1)
ACTIONS = st.builds(
    ServeAction,
    kv_budget=st.one_of(st.sampled_from([0.1, 1.0]), st.floats(0.1, 1.0)),
    spec_length=st.sampled_from([0, 1, 2, 4, 8]),
    batch_size=st.one_of(st.sampled_from([1, 32, 512]), st.integers(1, 512)),
    prefill_disagg=st.booleans(),
    quant_tier=st.sampled_from(QuantTier),
)
PLANS = st.lists(st.tuples(ACTIONS, st.integers(1, 60)), min_size=1, max_size=40)
"""Actions and for how many steps each is held."""

OUT_OF_MEMORY = ServeAction(batch_size=512)

Step = tuple[ServeObservation, float, bool, dict[str, Any]]


def held(plan: Iterable[tuple[ServeAction, int]], steps: int = LENGTH) -> Iterator[ServeAction]:
    """``steps`` actions of a plan; the last one goes on."""
    left, action = steps, ServeAction()
    for action, count in plan:
        for _ in range(min(count, left)):
            yield action
        left -= min(count, left)
    for _ in range(left):
        yield action


def random_actions(seed: int, steps: int = LENGTH) -> list[ServeAction]:
    """Uniformly random actions, each held for a few steps."""
    rng = np.random.default_rng(seed)
    plan = [
        (
            ServeAction(
                kv_budget=float(rng.uniform(0.1, 1.0)),
                spec_length=int(rng.choice([0, 1, 2, 4, 8])),  # type: ignore[arg-type]
                batch_size=int(rng.integers(1, 513)),
                prefill_disagg=bool(rng.integers(2)),
                quant_tier=QuantTier(int(rng.integers(3))),
            ),
            int(rng.integers(1, 6)),
        )
        for _ in range(steps)
    ]
    return list(held(plan, steps))


def started(task_id: str, seed: int = 0) -> InferenceEnv:
    env = make_env(task_id, seed)
    env.reset()
    return env


def as_json(step: Step) -> str:
    """One step as the server would write it, every digit included."""
    observation, reward, done, info = step
    return json.dumps([observation.model_dump(mode="json"), reward, done, info], allow_nan=False)


def transcript(env: InferenceEnv, actions: Iterable[ServeAction]) -> list[str]:
    """JSON of every step."""
    return [as_json(env.step(action)) for action in actions]


def digest(task_id: str, seed: int, action_seed: int) -> str:
    """Fingerprint of all bytes of an episode: first observation, steps, state."""
    env = make_env(task_id, seed)
    lines = [env.reset().model_dump_json(), *transcript(env, random_actions(action_seed))]
    lines.append(json.dumps(env.state()))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


if __name__ == "__main__":
    for arguments in json.loads(sys.argv[1]):
        print(digest(*arguments))
