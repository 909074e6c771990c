"""What the local and the remote gymnasium environment have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import gymnasium
import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from env.checks import checked_seed
from env.protocols import TaskInfo
from inferencegym.errors import InvalidValueError
from inferencegym.gym.codec import ActionMode, FloatVector, GymCodec
from inferencegym.gym.render import Frame, draw_chart, draw_text

__all__ = ["SEED_RANGE", "CodecEnv"]

SEED_RANGE = 2**31
"""Seeds of episodes that are started without one are drawn from 0 to this, exclusive."""


class CodecEnv(gymnasium.Env[FloatVector, Any]):
    """A gymnasium environment over an episode that speaks in models.

    Args:
        codec: turns models into vectors.
        task: the task that is played.
        action_mode: "flat", "dict" or "multidiscrete"; see :meth:`GymCodec.action_space`.
        render_mode: None, "ansi" (text) or "rgb_array" (a chart of the episode so far; needs matplotlib).
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, codec: GymCodec, task: TaskInfo, action_mode: str, render_mode: str | None) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise InvalidValueError("render_mode", render_mode, "None, 'ansi' or 'rgb_array'")
        self.codec = codec
        self.task = task
        self.observation_space: Any = codec.observation_space()
        self.action_space = codec.action_space(action_mode)
        self.action_mode: ActionMode = cast("ActionMode", action_mode)
        self.render_mode = render_mode
        self.episode_seed = -1
        self._mask = codec.action_mask(task.active_actions)
        self._seen: Sequence[float] = ()
        self._frames: list[Frame] = []

    @abstractmethod
    def _begin(self, seed: int) -> BaseModel:
        """Start an episode and return its first observation."""

    @abstractmethod
    def _play(self, action: BaseModel) -> tuple[BaseModel, float, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated, truncated, info."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatVector, dict[str, Any]]:
        """Start an episode.

        With a ``seed`` it is the episode of that seed. Without one its seed is the next draw of
        ``np_random``: later episodes differ, and follow from the last seed that was given.

        Raises:
            InvalidValueError: a seed that is no whole number from 0 to 2**63 - 1, or any option (there are
                none); the episode goes on.
        """
        seed = None if seed is None else checked_seed(seed)
        if options is not None and options != {}:
            raise InvalidValueError("options", options, "None or {}; there are no options")
        super().reset(seed=seed)
        self.episode_seed = int(self.np_random.integers(SEED_RANGE)) if seed is None else seed
        values = self.codec.read(self._begin(self.episode_seed))
        self._seen = values
        self._frames.clear()
        return self.codec.encode(values, values), {
            "seed": self.episode_seed,
            "action_mask": self._mask.copy(),
        }

    def step(self, action: Any) -> tuple[FloatVector, float, bool, bool, dict[str, Any]]:
        """Play one step; ``info`` is the episode's own, with ``action_mask`` (1 for each free knob) added.

        Raises:
            InvalidValueError: not an element of the action space; nothing was changed. Only flat entries
                beyond [-1, 1] are held at the bound, because policies with an unbounded output, which have
                to clip for a Box, often do not.
        """
        model = self.codec.decode(self.action_mode, action)
        observation, reward, terminated, truncated, info = self._play(model)
        values, before = self.codec.read(observation), self._seen
        self._seen = values
        if self.render_mode is not None:
            self._frames.append(Frame(model, reward, info.get("metrics", {})))
        info["action_mask"] = self._mask.copy()
        return self.codec.encode(values, before), reward, terminated, truncated, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Levels that mode "multidiscrete" allows, all knobs in a row (what sb3-contrib's MaskablePPO asks
        for): of a locked knob only its default's."""
        return np.concatenate(self.codec.level_masks(self.task.active_actions)).astype(np.bool_)

    def render(self) -> Any:
        """Text ("ansi") or an array (height, width, 3) of uint8 ("rgb_array"); None without a render mode."""
        if self.render_mode == "ansi":
            return draw_text(self.task, self.codec, self._frames)
        if self.render_mode == "rgb_array":
            return draw_chart(self.task, self.codec, self._frames)
        return None
