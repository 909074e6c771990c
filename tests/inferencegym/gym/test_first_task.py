"""A task that is not named is the environment's first, single and in vectors."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

import inferencegym.gym  # noqa: F401 (registers)
from inferencegym.errors import InvalidValueError
from inferencegym.gym.routing.vector import RoutingVectorEnv
from inferencegym.registry import EnvSpec, all_specs


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_no_task_is_the_first(spec: EnvSpec) -> None:
    first = next(iter(spec.part("tasks")))
    single: Any = gymnasium.make(spec.id, task_id=None).unwrapped
    assert single.task.id == first
    rows = []
    for task in (None, first):
        envs = gymnasium.make_vec(spec.id, 2, "vector_entry_point", task_id=task)
        rows.append(envs.reset(seed=3)[0].tolist())
        envs.close()
    assert rows[0] == rows[1]


def test_a_classic_game_is_no_stream() -> None:
    with pytest.raises(InvalidValueError, match="stream_1"):
        RoutingVectorEnv(2, "task_1")
