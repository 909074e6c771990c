"""InferenceGym/Market-v0 as a vector environment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

from env.market.batch import METRIC_COLUMNS, OBSERVATION_COLUMNS, MarketBatch
from env.market.episode import market_of
from env.market.reward import TERMS
from inferencegym.gym.env import task_of
from inferencegym.gym.market.codec import CODEC
from inferencegym.gym.vector import BatchVectorEnv, VectorOptions
from inferencegym.gym.vector_info import InfoColumns
from inferencegym.registry import TaskName, get_spec

__all__ = ["MarketVectorEnv"]

_FLOATS = ("price", "revenue", "utilization", "expected_wait_h", "death_risk", "fluid_revenue")
_FLAGS = ("dead",)

_INFO = InfoColumns(
    floats={name: METRIC_COLUMNS[name] for name in _FLOATS},
    whole={name: column for name, column in METRIC_COLUMNS.items() if name not in (*_FLOATS, *_FLAGS)},
    flags={name: METRIC_COLUMNS[name] for name in _FLAGS},
    terms=TERMS,
)


class MarketVectorEnv(BatchVectorEnv):
    """N market episodes at once; spaces and rewards: :class:`inferencegym.gym.market.env.MarketGymEnv`.

    Args:
        num_envs: episodes side by side.
        task_id: "steady", "surge" or "adversarial"; None is the first.
        config: fields of :class:`~inferencegym.models.market.MarketConfig`: another scenario, other weights.
        action_mode, options (autoreset_mode, threads, render_mode): see :class:`BatchVectorEnv`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        task_id: TaskName | None = "steady",
        action_mode: str = "flat",
        config: Mapping[str, Any] | None = None,
        **options: Unpack[VectorOptions],
    ) -> None:
        task = task_of(get_spec("market"), task_id)
        super().__init__(
            partial(MarketBatch, market_of(task.id, config)),
            task,
            CODEC,
            OBSERVATION_COLUMNS,
            _INFO,
            num_envs,
            action_mode,
            **options,
        )
