"""What a workload is: arrivals, lengths, classes and objectives of a task, validated on load.

The shipped ones live in ``simulator/data/workload_configs.json``; every number there is either of the task
definition or a calibrated free parameter that docs/decisions.md explains.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from inferencegym.errors import InvalidValueError, UnknownNameError
from simulator.kernels.sums import ordered_sum

__all__ = [
    "CLASSES",
    "WORKLOAD_CONFIG_PATH",
    "ArrivalConfig",
    "LengthConfig",
    "RecordedConfig",
    "WorkloadConfig",
    "get_workload",
    "load_workloads",
]

WORKLOAD_CONFIG_PATH = Path(__file__).parents[2] / "data" / "workload_configs.json"

CLASSES = ("interactive", "batch", "best_effort")
"""Priority classes, served in this order."""

_NO_SLO_MS = 1e12
"""Stands for "no objective": longer than any wait."""

Share = Annotated[float, Field(ge=0.0, le=1.0)]


class _Strict(BaseModel, frozen=True):
    """No unknown fields, no infinities, hashable. Subclasses say ``frozen`` again for type checkers."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ArrivalConfig(_Strict, frozen=True):
    """Poisson arrivals at ``rate_rps``, raised to ``burst_rps`` for ``burst_s`` seconds every ``period_s``.

    The first burst starts at a second drawn from ``first_burst_s`` (inclusive), so that a policy cannot
    learn the clock by heart. No bursts when ``burst_s`` is 0.
    """

    rate_rps: float = Field(gt=0.0, le=5_000.0)
    burst_rps: float = Field(0.0, ge=0.0, le=5_000.0)
    burst_s: int = Field(0, ge=0)
    period_s: int = Field(1, ge=1)
    first_burst_s: tuple[int, int] = (0, 0)
    cooldown_s: int = Field(0, ge=0, description="Seconds after a burst that are labelled cooldown.")


class LengthConfig(_Strict, frozen=True):
    """A length distribution in tokens: uniform on [low, high], or lognormal(mu, sigma) clamped to it."""

    kind: Literal["uniform", "lognormal"] = "uniform"
    low: int = Field(ge=1)
    high: int = Field(ge=1)
    mu: float = 0.0
    sigma: float = Field(0.0, ge=0.0)

    @model_validator(mode="after")
    def _ordered(self) -> LengthConfig:
        if self.low > self.high:
            raise ValueError(f"low ({self.low}) must not exceed high ({self.high})")
        return self


class RecordedConfig(_Strict, frozen=True):
    """Traffic drawn from the figures of a public trace in ``recorded_traffic.json``.

    ``rate_factor`` multiplies its arrival rates; prompts longer than ``prompt_cap_tokens`` count as that.
    """

    name: str
    rate_factor: float = Field(1.0, gt=0.0, le=100.0)
    prompt_cap_tokens: int = Field(8192, ge=1)


class WorkloadConfig(_Strict, frozen=True):
    """Everything about a task that the traffic and the service level define.

    Where traffic is ``recorded``, arrivals and lengths come from there, and of ``arrivals``, ``prompts`` and
    ``outputs`` only the mean rate and the bounds are used.
    """

    arrivals: ArrivalConfig
    prompts: LengthConfig
    long_prompts: LengthConfig | None = None
    long_share_by_class: tuple[Share, Share, Share] = (0.0, 0.0, 0.0)
    """Share of long prompts within each class (their mean over the mix is the task's long share)."""
    outputs: LengthConfig
    recorded: RecordedConfig | None = None
    class_mix: tuple[Share, Share, Share] = (1.0, 0.0, 0.0)
    replicas: int = Field(1, ge=1, le=256)
    base_acceptance_rate: float = Field(ge=0.0, lt=1.0)
    ttft_slo_ms: tuple[float | None, float | None, float | None]
    memory_limit_gb: float | None = None
    cost_budget: float | None = None

    @model_validator(mode="after")
    def _mix_sums_to_one(self) -> WorkloadConfig:
        if abs(ordered_sum(self.class_mix) - 1.0) > 1e-9:
            raise ValueError(f"class_mix must sum to 1, got {ordered_sum(self.class_mix)}")
        return self

    @property
    def slo_ms(self) -> tuple[float, float, float]:
        """TTFT objective per class, ms; a very large number where there is none."""
        return tuple(_NO_SLO_MS if v is None else v for v in self.ttft_slo_ms)  # type: ignore[return-value]

    @property
    def primary_slo_ms(self) -> float:
        """The objective that the latency term of the reward is measured against, ms."""
        return min(self.slo_ms)


@cache
def load_workloads(path: Path = WORKLOAD_CONFIG_PATH) -> dict[str, WorkloadConfig]:
    """All workloads of a JSON file by task id. Raises InvalidValueError naming file, task and field."""
    configs: dict[str, WorkloadConfig] = {}
    for task_id, raw in json.loads(path.read_text()).items():
        try:
            configs[task_id] = WorkloadConfig.model_validate(raw)
        except ValidationError as error:
            detail = error.errors()[0]
            field = ".".join([task_id, *(str(part) for part in detail["loc"])])
            raise InvalidValueError(f"{path.name}: {field}", detail.get("input"), detail["msg"]) from None
    return configs


def get_workload(task_id: str) -> WorkloadConfig:
    """The shipped workload of a task. Raises UnknownNameError with near matches."""
    workloads = load_workloads()
    if task_id not in workloads:
        raise UnknownNameError("task_id", task_id, workloads)
    return workloads[task_id]
