"""InferenceGym/Autoscaling-v0 as a vector environment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

from env.autoscaling.batch import OBSERVATION_COLUMNS, TERM_COLUMNS, AutoscalingBatch
from env.autoscaling.episode import FLAG_METRICS, WHOLE_METRICS, make_env
from inferencegym.gym.autoscaling.codec import CODEC
from inferencegym.gym.env import task_of
from inferencegym.gym.vector import BatchVectorEnv, VectorOptions
from inferencegym.gym.vector_info import InfoColumns
from inferencegym.registry import TaskName, get_spec
from simulator.autoscaling.rows import RESULT

__all__ = ["AutoscalingVectorEnv"]

_INFO = InfoColumns(
    floats={name: RESULT[name] for name in RESULT if name not in {*WHOLE_METRICS, *FLAG_METRICS}},
    whole={name: RESULT[name] for name in WHOLE_METRICS},
    flags={name: RESULT[name] for name in FLAG_METRICS},
    terms=TERM_COLUMNS,
)


class AutoscalingVectorEnv(BatchVectorEnv):
    """N autoscaling episodes at once; see :class:`inferencegym.gym.autoscaling.env.AutoscalingGymEnv` for
    spaces and rewards. Moves that would have no effect may be chosen; there are no masks here.

    Args:
        num_envs: episodes side by side.
        task_id: "balanced", "high_traffic" or "failure_heavy"; None is the first.
        config: scenario and trace_pack.
        action_mode, options (autoreset_mode, threads, render_mode): see :class:`BatchVectorEnv`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        task_id: TaskName | None = "balanced",
        action_mode: str = "flat",
        config: Mapping[str, Any] | None = None,
        **options: Unpack[VectorOptions],
    ) -> None:
        env = make_env(task_of(get_spec("autoscaling"), task_id).id, config=config)
        super().__init__(
            partial(AutoscalingBatch, env),
            env.task,
            CODEC,
            OBSERVATION_COLUMNS,
            _INFO,
            num_envs,
            action_mode,
            **options,
        )
