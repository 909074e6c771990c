"""What the tests of the gymnasium doors share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np

import inferencegym.gym
from inferencegym import registry
from inferencegym.registry import EnvSpec
from tests.server.toy_env import SPEC as TOY

SERVING = "InferenceGym/Serving-v0"
MODES = ("flat", "dict", "multidiscrete")
TASKS = ("task1", "task2", "task3")

assert inferencegym.gym.__all__  # importing it is what registers the environments


def make(**settings: Any) -> Any:
    return gymnasium.make(SERVING, **settings)


def make_vec(num_envs: int, mode: str = "vector_entry_point", **settings: Any) -> Any:
    return gymnasium.make_vec(SERVING, num_envs=num_envs, vectorization_mode=mode, **settings)


@contextmanager
def toy_registered() -> Iterator[EnvSpec]:
    """The toy environment in both registries for a while."""
    registry.register(TOY)
    inferencegym.gym.register_all()
    try:
        yield TOY
    finally:
        gymnasium.registry.pop(TOY.id)
        registry.unregister(TOY.id)


def assert_same_infos(ours: dict[str, Any], theirs: dict[str, Any], where: str = "") -> None:
    """Everything in ``ours`` is in ``theirs``, equal and of the same type."""
    for name, value in ours.items():
        place, other = f"{where}/{name}", theirs[name]
        if isinstance(value, dict):
            assert_same_infos(value, other, place)
        elif value.dtype == object:
            assert [one is None for one in value] == [one is None for one in other], place
            for one, two in zip(value, other, strict=True):
                assert one is None or np.array_equal(one, two), place
        else:
            assert value.dtype == other.dtype, place
            assert np.array_equal(value, other), place
