"""What a PPO policy sees and turns: between an environment of the registry and a policy network.

A :class:`Coding` turns gymnasium observations into what the network sees, and the network's choice, a setting
for each *dial*, into actions. An environment may bring its own as ``agents/NAME/ppo_coding.py`` with a class
``Coding(task_id)``; any other gets :class:`PlainCoding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from agents.llm.task_text import find_task
from agents.registry import agent_names
from env.protocols import TaskInfo
from inferencegym.gym.registration import codec_of
from inferencegym.registry import EnvSpec, get_spec

__all__ = ["Coding", "PlainCoding", "Training", "coding_of", "observation_entries"]

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Training:
    """How long a task is trained when nothing is said: environment steps, and episodes side by side."""

    steps: int = 200_000
    envs: int = 64


class Coding(Protocol):
    """Dials and observations of one task. All methods take N rows at once and keep no state."""

    task: TaskInfo
    training: Training
    action_mode: Literal["flat", "dict", "multidiscrete"]
    """Kind of action that :meth:`actions` makes."""
    sizes: IntArray
    """(D,): settings of each dial."""
    width: int
    """Entries of what the network sees."""
    references: tuple[str, ...]
    """Agents that a trained policy is compared with."""
    lines: dict[str, str]
    """Those of them that are lines in the picture of the learning curve, and what to call them there."""

    def start(self, count: int) -> IntArray:
        """(N, D): where the dials stand when an episode begins."""
        ...

    def turn(self, dials: IntArray, wanted: IntArray) -> IntArray:
        """(N, D): the dials after a step towards ``wanted`` (N, D)."""
        ...

    def see(self, observations: FloatArray, dials: IntArray) -> FloatArray:
        """(N, width): gymnasium observations and, where they matter, the dials, spread over [-1, 1]."""
        ...

    def actions(self, dials: IntArray) -> Any:
        """What the dials set, as a batch of actions of the vector environment."""
        ...

    def action(self, dials: IntArray) -> BaseModel:
        """The action model of a single row (1, D)."""
        ...


class PlainCoding:
    """A dial for each knob that the task opens, free to go to any level of its grid at once.

    The settings are those of the gymnasium environment's mode "multidiscrete"; the network sees the
    gymnasium observation.
    """

    action_mode: Literal["flat", "dict", "multidiscrete"] = "multidiscrete"

    def __init__(self, env_id: str, task_id: str, training: Training | None = None) -> None:
        spec = get_spec(env_id)
        self.task: TaskInfo = find_task(spec, task_id)
        self.training = training or Training()
        self.codec = codec_of(spec)
        knobs = self.codec.knobs
        self.open = [row for row, knob in enumerate(knobs) if knob.name in self.task.active_actions]
        self.sizes = np.array([len(knobs[row].levels) for row in self.open])
        self.width = len(self.codec.features)
        unfit = {"random", "ppo", "llm"}
        self.references: tuple[str, ...] = tuple(a for a in agent_names(spec.id) if a not in unfit)
        self.lines: dict[str, str] = {name: name for name in self.references[:3]}
        self._defaults = np.array([knob.default_level for knob in knobs])
        box = self.codec.observation_space()
        self._low, self._high = box.low, box.high

    def start(self, count: int) -> IntArray:
        """(N, D): the levels of the default action."""
        return np.tile(self._defaults[self.open], (count, 1))

    def turn(self, dials: IntArray, wanted: IntArray) -> IntArray:
        """(N, D): a copy of ``wanted``, whose owner keeps it while dials are set anew at an end."""
        return wanted.copy()

    def see(self, observations: FloatArray, dials: IntArray) -> FloatArray:
        """(N, width): gymnasium observations spread over [-1, 1]."""
        return (2.0 * (observations - self._low) / (self._high - self._low) - 1.0).astype(np.float32)

    def actions(self, dials: IntArray) -> IntArray:
        """(N, knobs): a level for every knob, of those that the task locks the default's."""
        rows = np.tile(self._defaults, (len(dials), 1))
        rows[:, self.open] = dials
        return rows

    def action(self, dials: IntArray) -> BaseModel:
        """The action model of a single row (1, D)."""
        return self.codec.decode("multidiscrete", self.actions(dials)[0])


def coding_of(env_id: str, task_id: str) -> Coding:
    """The coding of a task.

    Raises:
        UnknownNameError: no such environment or task; lists near matches.
    """
    spec = get_spec(env_id)
    find_task(spec, task_id)
    room = f"agents.{spec.name}"
    if find_spec(room) is None:
        return PlainCoding(spec.id, task_id)
    return import_module(f"{room}.ppo_coding").Coding(task_id)


def observation_entries(spec: EnvSpec, observation: BaseModel, before: BaseModel) -> FloatArray:
    """(1, features): the gymnasium observation of a model and the one a step earlier."""
    codec = codec_of(spec)
    values: Sequence[float] = codec.read(observation)
    return codec.encode(values, codec.read(before))[np.newaxis]
