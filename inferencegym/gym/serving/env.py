"""InferenceGym/Serving-v0 as a gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from env.protocols import Episode
from inferencegym.gym.env import GymEnv, wants_compiled
from inferencegym.registry import EnvSpec, TaskName

__all__ = ["ServingGymEnv"]


class ServingGymEnv(GymEnv):
    """InferenceGym/Serving-v0.

    **Description.** Tune one LLM engine's five knobs every simulated second while traffic changes; see
    :class:`env.serving.episode.InferenceEnv`.

    **Action space.** By ``action_mode``:

    ===============  ==================  ====================  ==========================================
    knob             "flat" (5 entries)  "dict"                "multidiscrete"
    ===============  ==================  ====================  ==========================================
    kv_budget        [-1, 1], linear     Box(0.1, 1.0, (1,))   10 levels, 0.1 to 1.0
    spec_length      [-1, 1], 5 parts    Discrete(5)           0, 1, 2, 4, 8
    batch_size       [-1, 1], log scale  Discrete(512, 1)      16 levels, 1 to 512, nearly log
    prefill_disagg   [-1, 1], 2 parts    Discrete(2)           off, on
    quant_tier       [-1, 1], 3 parts    Discrete(3)           FP16, INT8, INT4
    ===============  ==================  ====================  ==========================================

    Knobs that the task locks may be set to anything and stay at their defaults; ``info["action_mask"]`` has 0
    for them.

    **Observation space.** 16 float32 entries in [0, 1] or [-1, 1]; the table is in
    :mod:`inferencegym.gym.serving.codec`.

    **Rewards.** In [-1, 1], see :mod:`env.serving.reward`.

    **Starting state.** One second of traffic served with the default action. ``reset(seed=n)`` is the episode
    of seed n, on every door of this project.

    **Episode end.** Truncated after 200 steps; never terminated.

    **Arguments.** ``task_id`` ("task1", "task2" or "task3"), ``action_mode``, ``render_mode``, ``config``
    (reward weights: alpha, beta, gamma, delta; trace_pack, engine_timing) and ``backend``: "compiled"
    (machine code by numba, twice as fast; the very first use compiles for some seconds), "python", or "auto"
    (compiled where numba is installed). The numbers are the same.

    **Version history.** v0: first release.
    """

    def __init__(
        self,
        task_id: TaskName | None = "task1",
        action_mode: str = "flat",
        render_mode: str | None = None,
        config: Mapping[str, Any] | None = None,
        backend: str = "auto",
    ) -> None:
        self._compiled = wants_compiled(backend)
        super().__init__("serving", task_id, action_mode, render_mode, config)

    def _make_episode(self, spec: EnvSpec, config: Mapping[str, Any] | None) -> Episode:
        from env.serving.episode import make_env

        if not self._compiled:
            return make_env(self.task.id, config=config)
        from simulator.serving.compiled import CompiledEngine

        return make_env(self.task.id, config=config, engine=CompiledEngine)
