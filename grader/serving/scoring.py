"""Scores of InferenceGym/Serving-v0 from per-step figures. Pure functions: numbers in, numbers out.

=====  ==========================================================================================
task1  throughput: (mean tokens/s - floor) / (optimum - floor), clipped to [0, 1]
task2  1/2 TTFT: 1 - mean TTFT p50 / 300 ms; 1/2 memory: 1 up to a peak of 36 GB, 0 at 46 GB or when
       memory ever ran out
task3  0.40 throughput + 0.30 SLO compliance + 0.20 cost (1 - total / 5.0)
       + 0.10 stability (1 - min(1, (std of batch changes / 512 + std of kv changes) / 0.5))
others 0.60 SLO compliance + 0.30 cost + 0.10 stability, each with its own cost budget
=====  ==========================================================================================

An episode that was not played to its end is scored on what was played, times the share that was played:
stopping early never pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.kernels.sums import ordered_sum

__all__ = ["COST_BUDGET", "Anchors", "StepFigures", "score_columns", "score_steps"]

TTFT_SCALE_MS = 300.0
MEMORY_FULL_GB, MEMORY_ZERO_GB = 36.0, 46.0
COST_BUDGET = 5.0
"""Sum of cost_per_1k over 200 steps at which the cost score of task3 is 0: a mean of 0.025 cents per 1,000
tokens."""

BATCH_SCALE = 512.0
STABILITY_SCALE = 0.5

_RECORDED = {"slo_compliance": 0.60, "cost": 0.30, "stability": 0.10}
"""No throughput: what such traffic asks for is served by any setting that keeps up, and work lost and done
again would count twice."""

WEIGHTS: dict[str, dict[str, float]] = {
    "task1": {"throughput": 1.0},
    "task2": {"ttft": 0.5, "memory": 0.5},
    "task3": {"throughput": 0.40, "slo_compliance": 0.30, "cost": 0.20, "stability": 0.10},
    "azure-conversation": _RECORDED,
    "azure-code": _RECORDED,
    "mooncake-conversation": _RECORDED,
}


@dataclass(frozen=True, slots=True)
class StepFigures:
    """What the grade needs of one step."""

    tokens_per_s: float
    ttft_p50_ms: float
    memory_gb: float
    cost_per_1k: float
    slo_violation_rate: float
    batch_size: int
    kv_budget: float
    oom: bool = False


@dataclass(frozen=True, slots=True)
class Anchors:
    """What scores 0 and 1: tokens/s (see ``grader/serving/calibrate.py``), the GPU's memory as a multiple of
    the 40 GiB that the memory limits are written for, and the sum of cost_per_1k that scores 0."""

    floor_tokens_per_s: float
    optimum_tokens_per_s: float
    memory_scale: float = 1.0
    cost_budget: float = COST_BUDGET


_Columns = dict[str, "np.ndarray[tuple[int], np.dtype[np.float64]]"]


def score_steps(
    task_id: str, steps: Sequence[StepFigures], episode_length: int, anchors: Anchors
) -> tuple[float, dict[str, float]]:
    """Score in [0, 1] and its breakdown (components in [0, 1], and ``completed``)."""
    columns = {
        name: np.array([getattr(step, name) for step in steps], dtype=np.float64)
        for name in StepFigures.__slots__
    }
    return score_columns(task_id, columns, episode_length, anchors)


def score_columns(
    task_id: str, columns: _Columns, episode_length: int, anchors: Anchors
) -> tuple[float, dict[str, float]]:
    """The same from one array for each field of ``StepFigures``, all of one length."""
    weights = WEIGHTS[task_id]
    steps = len(columns["tokens_per_s"])
    completed = min(1.0, steps / episode_length)
    parts = dict.fromkeys(weights, 0.0)
    if steps:
        parts = {name: float(_COMPONENTS[name](columns, anchors)) for name in weights}
    score = completed * ordered_sum(weight * parts[name] for name, weight in weights.items())
    return min(1.0, max(0.0, score)), {**parts, "completed": completed}


def _throughput(columns: _Columns, anchors: Anchors) -> float:
    span = anchors.optimum_tokens_per_s - anchors.floor_tokens_per_s
    return _clip((_mean(columns["tokens_per_s"]) - anchors.floor_tokens_per_s) / span)


def _ttft(columns: _Columns, anchors: Anchors) -> float:
    return _clip(1.0 - _mean(columns["ttft_p50_ms"]) / TTFT_SCALE_MS)


def _memory(columns: _Columns, anchors: Anchors) -> float:
    if columns["oom"].any():
        return 0.0  # a setting that does not fit reports the limit, but it asked for more than there is
    peak = float(columns["memory_gb"].max()) / anchors.memory_scale
    return _clip((MEMORY_ZERO_GB - peak) / (MEMORY_ZERO_GB - MEMORY_FULL_GB))


def _slo_compliance(columns: _Columns, anchors: Anchors) -> float:
    return _clip(1.0 - _mean(columns["slo_violation_rate"]))


def _cost(columns: _Columns, anchors: Anchors) -> float:
    return _clip(1.0 - float(np.sum(columns["cost_per_1k"])) / anchors.cost_budget)


def _stability(columns: _Columns, anchors: Anchors) -> float:
    if len(columns["batch_size"]) < 2:
        return 1.0
    movement = float(np.std(np.diff(columns["batch_size"]))) / BATCH_SCALE
    movement += float(np.std(np.diff(columns["kv_budget"])))
    return 1.0 - min(1.0, movement / STABILITY_SCALE)


_COMPONENTS = {
    "throughput": _throughput,
    "ttft": _ttft,
    "memory": _memory,
    "slo_compliance": _slo_compliance,
    "cost": _cost,
    "stability": _stability,
}


def _mean(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(np.mean(values))


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))
