"""Environments of the registry as gymnasium environments, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from pydantic import BaseModel

from env.protocols import Episode, TaskInfo, task_named
from inferencegym.errors import UnknownNameError
from inferencegym.gym.base import CodecEnv
from inferencegym.gym.codec import GymCodec
from inferencegym.gym.registration import codec_of
from inferencegym.registry import EnvSpec, TaskName, get_spec

__all__ = ["BACKENDS", "GymEnv", "task_of", "wants_compiled"]

BACKENDS = ("auto", "compiled", "python")


def wants_compiled(backend: str) -> bool:
    """Whether machine code is to be used: "compiled", or "auto" where numba is installed.

    Raises:
        UnknownNameError: neither of those, nor "python".
    """
    if backend not in BACKENDS:
        raise UnknownNameError("backend", backend, BACKENDS)
    return backend == "compiled" or (backend == "auto" and find_spec("numba") is not None)


def task_of(spec: EnvSpec, task_id: TaskName | None) -> TaskInfo:
    """A task of an environment; its first one for None. Raises UnknownNameError with near matches."""
    tasks: Mapping[str, TaskInfo] = spec.part("tasks")
    if task_id is None:
        return next(iter(tasks.values()))
    return task_named(tasks, task_id)


class GymEnv(CodecEnv):
    """Any environment of the registry.

    Args:
        env_id: id or short name, for example "InferenceGym/Serving-v0" or "serving".
        task_id: default the environment's first task.
        action_mode: "flat" (Box [-1, 1]), "dict" (one space a knob) or "multidiscrete" (each knob on a grid).
        render_mode: None, "ansi" or "rgb_array".
        config: the environment's own settings, for example reward weights.
        codec: default the environment's own.
    """

    def __init__(
        self,
        env_id: str,
        task_id: TaskName | None = None,
        action_mode: str = "flat",
        render_mode: str | None = None,
        config: Mapping[str, Any] | None = None,
        codec: GymCodec | None = None,
    ) -> None:
        spec = get_spec(env_id)
        super().__init__(codec or codec_of(spec), task_of(spec, task_id), action_mode, render_mode)
        self.episode: Episode = self._make_episode(spec, config)
        """The environment behind it: snapshot, restore and state."""

    def _make_episode(self, spec: EnvSpec, config: Mapping[str, Any] | None) -> Episode:
        return spec.part("make_env")(self.task.id, config=config)

    def _begin(self, seed: int) -> BaseModel:
        return self.episode.reset(seed)

    def _play(self, action: BaseModel) -> tuple[BaseModel, float, bool, bool, dict[str, Any]]:
        observation, reward, done, info = self.episode.step(action)
        terminated = bool(info.get("terminated", False))
        return observation, reward, terminated, done and not terminated, info
