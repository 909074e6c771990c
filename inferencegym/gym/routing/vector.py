"""InferenceGym/Routing-v0 as a vector environment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

import gymnasium
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from env.routing.batch import METRIC_COLUMNS, OBSERVATION_COLUMNS, RoutingBatch
from env.routing.episode import make_env
from env.routing.stream import TERMS
from env.routing.tasks import get_task
from inferencegym.errors import InvalidValueError
from inferencegym.gym.env import task_of
from inferencegym.gym.routing.codec import CODEC
from inferencegym.gym.routing.env import RoutingGymEnv
from inferencegym.gym.vector import BatchVectorEnv, VectorOptions
from inferencegym.gym.vector_info import InfoColumns
from inferencegym.registry import TaskName, get_spec

__all__ = ["RoutingVectorEnv", "routing_vector_env"]

_FLOATS = ("energy_wh", "co2_g", "latency_s")
_WHOLE = ("timeouts", "start_hour")

_INFO = InfoColumns(
    floats={name: METRIC_COLUMNS[name] for name in _FLOATS},
    whole={name: METRIC_COLUMNS[name] for name in _WHOLE},
    flags={name: column for name, column in METRIC_COLUMNS.items() if name not in (*_FLOATS, *_WHOLE)},
    terms=TERMS,
)


class RoutingVectorEnv(BatchVectorEnv):
    """N streams at once; spaces and rewards are those of the single environment.

    Args:
        num_envs: episodes side by side.
        task_id: "stream_1", "stream_2" or "stream_3".
        config: region and start hour.
        action_mode, options (autoreset_mode, threads, render_mode): see :class:`BatchVectorEnv`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        task_id: TaskName = "stream_1",
        action_mode: str = "flat",
        config: Mapping[str, Any] | None = None,
        **options: Unpack[VectorOptions],
    ) -> None:
        env = make_env(task_id, config=config)
        if get_task(env.task.id).stream is None:
            raise InvalidValueError("task_id", task_id, "a stream: stream_1, stream_2 or stream_3")
        super().__init__(
            partial(RoutingBatch, env),
            env.task,
            CODEC,
            OBSERVATION_COLUMNS,
            _INFO,
            num_envs,
            action_mode,
            **options,
        )


def routing_vector_env(
    num_envs: int = 1, task_id: TaskName | None = "task_1", **settings: Any
) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Streams in arrays; classic games, over after one to five steps, as single environments in turn."""
    name = task_of(get_spec("routing"), task_id).id
    if get_task(name).stream is not None:
        return RoutingVectorEnv(num_envs, name, **settings)
    autoreset_mode = settings.pop("autoreset_mode", AutoresetMode.SAME_STEP)
    settings.pop("threads", None)
    return SyncVectorEnv([partial(RoutingGymEnv, name, **settings)] * num_envs, autoreset_mode=autoreset_mode)
