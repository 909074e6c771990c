"""What an episode of Serving-v0 changes of its task, and what it tells the grader of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from pydantic import ValidationError

from env.checks import invalid_value
from env.serving.tasks import RewardWeights
from inferencegym.errors import InvalidValueError
from inferencegym.models.serving import EngineTiming, RewardConfig
from simulator.serving.traffic.replay import ReplayWorkload
from simulator.serving.traffic.workload import WorkloadGenerator

__all__ = ["parse_config", "told_settings", "weights_of"]


def parse_config(config: RewardConfig | Mapping[str, Any]) -> RewardConfig:
    """Validate a mapping. Raises InvalidValueError that names the first bad field."""
    if isinstance(config, RewardConfig):
        return config
    try:
        return RewardConfig.model_validate(config)
    except ValidationError as error:
        raise invalid_value("config", error, RewardConfig) from None


def weights_of(config: RewardConfig, default: RewardWeights) -> RewardWeights:
    """A task's weights with the overrides of ``config``. Raises InvalidValueError when they are too heavy."""
    given = config.model_dump(exclude_none=True, include=set(default.__slots__))
    weights = replace(default, **given)
    if weights.beta + weights.gamma + weights.delta > 1.0 + 1e-9:
        raise InvalidValueError(
            "config", asdict(weights), "beta + gamma + delta of at most 1, so that rewards stay in [-1, 1]"
        )
    return weights


def told_settings(trace_pack: str, timing: EngineTiming, workload: WorkloadGenerator) -> dict[str, Any]:
    """What ``info["settings"]`` says of an episode. Additive engines, the usual ones, go unnamed, and so does
    the task's own traffic."""
    told: dict[str, Any] = {"trace_pack": trace_pack}
    if timing != "additive":
        told["engine_timing"] = timing
    if isinstance(workload, ReplayWorkload):
        told["traffic"] = workload.summary()
    return told
