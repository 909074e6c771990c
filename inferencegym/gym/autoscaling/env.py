"""InferenceGym/Autoscaling-v0 as a gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from env.protocols import Episode
from inferencegym.gym.env import GymEnv, wants_compiled
from inferencegym.models.autoscaling import MOVES
from inferencegym.registry import EnvSpec, TaskName

__all__ = ["AutoscalingGymEnv"]


class AutoscalingGymEnv(GymEnv):
    """InferenceGym/Autoscaling-v0.

    **Description.** Decide every 15 seconds how many replicas of an LLM service run; see
    :class:`env.autoscaling.episode.AutoscalingEnv`.

    **Action space.** One knob, ``action``: scale_down, no_op, scale_up. "flat": Box [-1, 1] in three equal
    parts; "dict": Discrete(3) under its name; "multidiscrete": MultiDiscrete([3]). :meth:`action_masks` says
    which of the three would have an effect now.

    **Observation space.** 24 float32 entries in [0, 1] or [-1, 1]; the table is in
    :mod:`inferencegym.gym.autoscaling.codec`.

    **Rewards.** In [-1, 0.5], see :mod:`env.autoscaling.reward`.

    **Starting state.** One minute served by one replica more than the traffic needs. ``reset(seed=n)`` is the
    episode of seed n, on every door of this project.

    **Episode end.** Truncated after 240 steps; never terminated.

    **Arguments.** ``task_id`` ("balanced", "high_traffic" or "failure_heavy"), ``action_mode``,
    ``render_mode``, ``config`` (scenario and trace_pack) and ``backend``: "compiled" (machine code by numba;
    the very first use compiles for some seconds), "python", or "auto" (compiled where numba is installed).
    The numbers are the same.

    **Version history.** v0: first release.
    """

    def __init__(
        self,
        task_id: TaskName | None = "balanced",
        action_mode: str = "flat",
        render_mode: str | None = None,
        config: Mapping[str, Any] | None = None,
        backend: str = "auto",
    ) -> None:
        self._compiled = wants_compiled(backend)
        self._available: tuple[str, ...] = MOVES
        super().__init__("autoscaling", task_id, action_mode, render_mode, config)

    def _make_episode(self, spec: EnvSpec, config: Mapping[str, Any] | None) -> Episode:
        from env.autoscaling.episode import make_env

        if not self._compiled:
            return make_env(self.task.id, config=config)
        from simulator.autoscaling.compiled import CompiledFleet

        return make_env(self.task.id, config=config, fleet=CompiledFleet)

    def _begin(self, seed: int) -> BaseModel:
        return self._note(super()._begin(seed))

    def _play(self, action: BaseModel) -> tuple[BaseModel, float, bool, bool, dict[str, Any]]:
        played = super()._play(action)
        self._note(played[0])
        return played

    def _note(self, observation: Any) -> Any:
        self._available = observation.available_actions
        return observation

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The moves that would have an effect now, in the order of the action space."""
        return np.asarray([move in self._available for move in MOVES])
