"""Load tests of an imaginary deployment: what a benchmark tool would report of a pack's engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from simulator.packs.importing.measured_figures import Figure, PackPredictor
from simulator.packs.importing.measurements import Measurement
from simulator.packs.io import TracePack


def vllm_results(
    pack: TracePack,
    loads: Iterable[tuple[int, int, int]],
    rng: np.random.Generator | None = None,
) -> list[dict[str, Any]]:
    """Results of ``vllm bench serve`` for (concurrency, prompt, output); ``rng`` adds noise, 1 % on TPOT."""
    return [_result(PackPredictor(pack), *load, rng) for load in loads]


def _result(
    engine: PackPredictor, clients: int, prompt: int, output: int, rng: np.random.Generator | None
) -> dict[str, Any]:
    ttft_ms, tpot_ms = _closed_loop(engine, clients, prompt, output)
    if rng is not None:
        ttft_ms, tpot_ms = ttft_ms * rng.normal(1.0, 0.04), tpot_ms * rng.normal(1.0, 0.01)
    completed, rate = 10 * clients, 1e3 * clients / (ttft_ms + tpot_ms * (output - 1))
    return {
        "backend": "vllm",
        "model_id": "meta-llama/Llama-3.1-8B-Instruct",
        "num_prompts": completed,
        "request_rate": "inf",
        "max_concurrency": clients,
        "duration": completed / rate,
        "completed": completed,
        "total_input_tokens": completed * prompt,
        "total_output_tokens": completed * output,
        "request_throughput": rate,
        "mean_ttft_ms": ttft_ms,
        "median_ttft_ms": ttft_ms,
        "mean_tpot_ms": tpot_ms,
        "median_tpot_ms": tpot_ms,
    }


def vllm_bursts(pack: TracePack, loads: Iterable[tuple[int, int, int]]) -> list[dict[str, Any]]:
    """Results for (prompts, prompt, output) where all prompts are sent at once and prefilled one by one."""
    return [_burst(PackPredictor(pack), *load) for load in loads]


def _burst(engine: PackPredictor, prompts: int, prompt: int, output: int) -> dict[str, Any]:
    def alone(quantity: str, batch: float) -> float:
        point = Measurement("", 0, batch, float(prompt), float(output), colocated=False)
        return engine.predict(Figure(point, quantity, 1.0))

    prefill_ms, step_ms = alone("ttft_ms", 1.0), alone("tpot_ms", float(prompts))
    added_ms = prefill_ms - alone("tpot_ms", 1.0)  # a prefill beside decoding reads the weights only once
    tpot_ms = step_ms + 0.5 * (prompts - 1) * added_ms / (output - 1)
    ttft_ms = prefill_ms + 0.5 * (prompts - 1) * (added_ms + step_ms)
    return {
        "model_id": "meta-llama/Llama-3.1-8B-Instruct",
        "num_prompts": prompts,
        "request_rate": "inf",
        "max_concurrency": None,
        "duration": (2.0 * ttft_ms - prefill_ms + tpot_ms * (output - 1)) / 1e3,
        "completed": prompts,
        "total_input_tokens": prompts * prompt,
        "total_output_tokens": prompts * output,
        "mean_ttft_ms": ttft_ms,
        "mean_tpot_ms": tpot_ms,
    }


def _closed_loop(engine: PackPredictor, clients: int, prompt: int, output: int) -> tuple[float, float]:
    """TTFT and TPOT where so many clients send the next request when they have their answer."""
    batch, ttft_ms, tpot_ms = float(clients), 0.0, 0.0
    for _ in range(100):
        point = Measurement("", 0, batch, float(prompt), float(output), colocated=True)
        ttft_ms = engine.predict(Figure(point, "ttft_ms", 1.0))
        tpot_ms = engine.predict(Figure(point, "tpot_ms", 1.0))
        decode_ms = tpot_ms * (output - 1)
        batch = 0.5 * batch + 0.5 * (1.0 + (clients - 1) * decode_ms / (decode_ms + ttft_ms))
    return ttft_ms, tpot_ms
