"""InferenceGym/Market-v0 as a gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from env.protocols import Episode
from inferencegym.gym.env import GymEnv, wants_compiled
from inferencegym.registry import EnvSpec, TaskName

__all__ = ["MarketGymEnv"]


class MarketGymEnv(GymEnv):
    """InferenceGym/Market-v0.

    **Description.** Set the price of GPU capacity every hour while price-sensitive customers come and go; see
    :class:`env.market.episode.MarketEnv`.

    **Action space.** One entry, the relative change of the price, from -0.2 to 0.2; it ends at the scenario's
    bounds. By ``action_mode``: "flat" is Box [-1, 1] over that range, "dict" a Box in its own units,
    "multidiscrete" a grid of -0.2, -0.1, -0.05, -0.02, 0, 0.02, 0.05, 0.1 and 0.2.

    **Observation space.** 13 float32 entries in [0, 1] or [-1, 1]; the table is in
    :mod:`inferencegym.gym.market.codec`.

    **Rewards.** In [-1, 1], see :mod:`env.market.reward`.

    **Starting state.** A day at the scenario's opening price, begun by a provider that was empty.
    ``reset(seed=n)`` is the episode of seed n, on every door of this project.

    **Episode end.** Truncated after 200 hours; terminated when the market dies.

    **Arguments.** ``task_id`` ("steady", "surge" or "adversarial"), ``action_mode``, ``render_mode``,
    ``config`` (fields of :class:`~inferencegym.models.market.MarketConfig`) and ``backend``: "compiled"
    (machine code by numba), "python", or "auto" (compiled where numba is installed). The numbers are the
    same.

    **Version history.** v0: first release.
    """

    def __init__(
        self,
        task_id: TaskName | None = "steady",
        action_mode: str = "flat",
        render_mode: str | None = None,
        config: Mapping[str, Any] | None = None,
        backend: str = "auto",
    ) -> None:
        self._compiled = wants_compiled(backend)
        super().__init__("market", task_id, action_mode, render_mode, config)

    def _make_episode(self, spec: EnvSpec, config: Mapping[str, Any] | None) -> Episode:
        from env.market.episode import MarketEnv

        if not self._compiled:
            return MarketEnv(self.task.id, config=config)
        from simulator.market.compiled import CompiledMarketEngine

        return MarketEnv(self.task.id, config=config, engine=CompiledMarketEngine)
