"""InferenceGym/Routing-v0 as a gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferencegym.gym.env import GymEnv
from inferencegym.registry import TaskName

__all__ = ["RoutingGymEnv"]


class RoutingGymEnv(GymEnv):
    """InferenceGym/Routing-v0.

    **Description.** Decide for each query which model answers it and when, or whether a cache or a
    knowledge base does; see :class:`env.routing.episode.RoutingEnv`.

    **Action space.** By ``action_mode``: strategy (6), model_choice (3) and exit_flag (2) as parts of [-1, 1]
    ("flat"), as Discrete spaces ("dict"), or as ``MultiDiscrete([6, 3, 2])`` ("multidiscrete").

    **Observation space.** 22 float32 entries in [0, 1]; the table is in
    :mod:`inferencegym.gym.routing.codec`.

    **Rewards.** Streams: in [-1, 1]; classic tasks: in [-2, 1.5].

    **Starting state.** The first query. ``reset(seed=n)`` is the episode of seed n, on every door of this
    project.

    **Episode end.** Terminated with the last query; never truncated.

    **Arguments.** ``task_id`` (id or alias), ``action_mode``, ``render_mode``, ``config`` (region,
    start_hour; streams only).

    **Version history.** v0: first release.
    """

    def __init__(
        self,
        task_id: TaskName | None = "task_1",
        action_mode: str = "flat",
        render_mode: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__("routing", task_id, action_mode, render_mode, config)
