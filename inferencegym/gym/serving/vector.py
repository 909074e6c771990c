"""InferenceGym/Serving-v0 as a vector environment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

from env.serving.batch import OBSERVATION_COLUMNS, TERM_COLUMNS, ServingBatch
from env.serving.episode import make_env
from inferencegym.gym.env import task_of
from inferencegym.gym.serving.codec import CODEC
from inferencegym.gym.vector import BatchVectorEnv, VectorOptions
from inferencegym.gym.vector_info import InfoColumns
from inferencegym.registry import TaskName, get_spec
from simulator.serving.rows import RESULT

__all__ = ["ServingVectorEnv"]

_INFO = InfoColumns(
    floats={
        "ttft_p50_ms": RESULT["ttft_p50_ms"],
        "ttft_p99_ms": RESULT["ttft_p99_ms"],
        "tpot_ms": RESULT["tpot_ms"],
        "tokens_per_sec": RESULT["tokens_per_s"],
        "gpu_memory_gb": RESULT["memory_gb"],
        "cost_per_1k": RESULT["cost_per_1k"],
        "spec_accept_rate": RESULT["accept_rate"],
        "slo_violation_rate": RESULT["violation_rate"],
    },
    whole={"eviction_events": RESULT["evictions"], "slo_violations": RESULT["violations"]},
    flags={"oom": RESULT["oom"]},
    terms=TERM_COLUMNS,
)


class ServingVectorEnv(BatchVectorEnv):
    """N serving episodes at once; spaces and rewards are those of
    :class:`inferencegym.gym.serving.env.ServingGymEnv`.

    Args:
        num_envs: episodes side by side.
        task_id: "task1", "task2" or "task3"; None is the first.
        config: reward weights, trace_pack and engine_timing.
        action_mode, options (autoreset_mode, threads, render_mode): see :class:`BatchVectorEnv`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        task_id: TaskName | None = "task1",
        action_mode: str = "flat",
        config: Mapping[str, Any] | None = None,
        **options: Unpack[VectorOptions],
    ) -> None:
        env = make_env(task_of(get_spec("serving"), task_id).id, config=config)
        super().__init__(
            partial(ServingBatch, env),
            env.task,
            CODEC,
            OBSERVATION_COLUMNS,
            _INFO,
            num_envs,
            action_mode,
            **options,
        )
