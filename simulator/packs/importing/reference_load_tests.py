"""Load tests of the reference engine, in the form of ``vllm bench serve``: a deployment whose pack is known.

The reference simulates iteration by iteration and knows nothing of the formulas that an import reads its
results with, so that holding the driving pack against these results tells what the formulas are worth.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from simulator.packs.trace_table import TraceTable
from simulator.reference.engine import ReferenceEngine
from simulator.serving.engine import EngineModel, Knobs
from simulator.serving.traffic.config import WorkloadConfig
from simulator.serving.traffic.workload import WorkloadGenerator

__all__ = ["LOADS", "Load", "load_tests"]


class Load(NamedTuple):
    """Poisson arrivals a second, and lengths that are uniform within 6 % of a mean."""

    rate_rps: float
    prompt_tokens: int
    output_tokens: int


LOADS = (
    *(Load(rate, 256, 256) for rate in (0.2, 1.0, 3.0, 6.0, 9.0)),
    *(Load(rate, 1024, 256) for rate in (0.2, 1.0, 2.0, 4.0)),
    *(Load(rate, 128, 512) for rate in (1.0, 4.0, 7.0)),
    *(Load(rate, 2048, 128) for rate in (0.2, 1.5)),
)

_SPREAD = 0.06
_WARM_UP_S, _DRAIN_S = 40, 40
_BATCH = 250


def load_tests(
    table: TraceTable, loads: Iterable[Load] = LOADS, seconds: int = 200, seed: int = 0
) -> list[dict[str, Any]]:
    """One result a load: of the requests that arrive in ``seconds`` after a warm-up."""
    return [_load_test(table, load, seconds, seed) for load in loads]


def _load_test(table: TraceTable, load: Load, seconds: int, seed: int) -> dict[str, Any]:
    workload = _workload(load)
    total_s = _WARM_UP_S + seconds + _DRAIN_S
    traffic = WorkloadGenerator(workload, total_s - 1).episode(np.random.default_rng(seed))
    engine = ReferenceEngine(EngineModel(table, workload), traffic)
    for _ in range(total_s):
        engine.serve(Knobs(batch_size=_BATCH))
    requests = engine.requests
    counted = (requests.arrival_s >= _WARM_UP_S) & (requests.arrival_s < _WARM_UP_S + seconds)
    counted &= requests.finish_s > 0.0
    output = traffic.output[counted]
    ttft_ms = 1e3 * (requests.first_token_s - requests.arrival_s)[counted]
    tpot_ms = 1e3 * (requests.finish_s - requests.first_token_s)[counted] / (output - 1.0)
    completed = int(counted.sum())
    return {
        "backend": "vllm",
        "model_id": table.metadata.model,
        "request_rate": load.rate_rps,
        "max_concurrency": None,
        "num_prompts": completed,
        "completed": completed,
        "duration": float(seconds),
        "request_throughput": completed / seconds,
        "total_input_tokens": int(traffic.prompt[counted].sum()),
        "total_output_tokens": int(output.sum()),
        "mean_ttft_ms": float(ttft_ms.mean()),
        "median_ttft_ms": float(np.median(ttft_ms)),
        "mean_tpot_ms": float(tpot_ms.mean()),
        "median_tpot_ms": float(np.median(tpot_ms)),
    }


def _workload(load: Load) -> WorkloadConfig:
    def around(mean: int) -> dict[str, int]:
        return {"low": round(mean * (1 - _SPREAD)), "high": round(mean * (1 + _SPREAD))}

    return WorkloadConfig.model_validate(
        {
            "arrivals": {"rate_rps": load.rate_rps},
            "prompts": around(load.prompt_tokens),
            "outputs": around(load.output_tokens),
            "base_acceptance_rate": 0.80,
            "ttft_slo_ms": (500.0, None, None),
        }
    )
