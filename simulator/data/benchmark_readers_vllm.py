"""Results of ``vllm bench serve`` and of ``benchmark_serving.py`` (``--save-result``, ``--append-result``).

One JSON object a run: ``duration`` (s), ``completed``, ``failed``, ``total_input_tokens``,
``total_output_tokens``, ``request_throughput``, ``max_concurrency``, ``request_rate`` (``"inf"`` for none),
``mean_ttft_ms``, ``median_ttft_ms``, ``p99_ttft_ms``, the same of ``tpot``, and ``model_id``. SGLang's
``bench_serving`` writes the same names. TPOT leaves the first token out.
"""

from __future__ import annotations

from typing import Any

from simulator.data.benchmark_record import Record
from simulator.data.measurements import Collected, LoadTest

__all__ = ["is_vllm_result", "read_vllm_result"]

_MARKS = ("total_input_tokens", "total_output_tokens", "mean_ttft_ms", "mean_tpot_ms", "num_prompts")

_ENGINES = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm", "lmdeploy": "lmdeploy"}
"""Backends that name an engine; the others (``openai``, ``openai-chat``) name a protocol."""


def is_vllm_result(document: dict[str, Any]) -> bool:
    """Does the object look like one?"""
    return sum(mark in document for mark in _MARKS) >= 2


def read_vllm_result(result: Record, tier: int, into: Collected) -> None:
    """Take one run in. Raises ``InvalidValueError`` for a value that cannot be."""
    for name in ("model_id", "model"):
        if isinstance(result.values.get(name), str):
            into.models.setdefault(result.values[name], result.place)
            break
    engine = _ENGINES.get(str(result.values.get("backend")))
    if engine is not None:
        into.engines.add(engine)
    reason = _unusable(result)
    if reason:
        into.leave_out(result.place, reason)
        return
    completed = result.number("completed")
    failed = result.optional("failed", above=False) or 0.0
    for metric in ("ttft", "tpot"):
        result.ordered(f"median_{metric}_ms", f"p99_{metric}_ms")
    into.add_load_test(
        LoadTest(
            where=result.place,
            tier=tier,
            prompt_tokens=result.number("total_input_tokens") / completed,
            output_tokens=result.number("total_output_tokens") / completed,
            mean_ttft_ms=result.number("mean_ttft_ms"),
            mean_tpot_ms=result.number("mean_tpot_ms"),
            median_ttft_ms=result.optional("median_ttft_ms"),
            median_tpot_ms=result.optional("median_tpot_ms"),
            throughput_rps=result.optional("request_throughput") or completed / result.number("duration"),
            concurrency=result.optional("max_concurrency"),
            failed_share=failed / (completed + failed),
        )
    )


def _unusable(result: Record) -> str:
    """Why a whole run is of no use, or nothing."""
    _check_lists(result)
    if result.number("completed", above=False) == 0.0:
        return "no request was completed"
    if not (result.has("mean_ttft_ms") and result.has("mean_tpot_ms")):
        return (
            "it has no token timings (mean_ttft_ms, mean_tpot_ms): a pooling run, or one without a tokenizer"
        )
    if result.has("ramp_up_strategy"):
        return "its request rate was ramped up (ramp_up_strategy): there is no steady state to read"
    if any(name.startswith("spec_decode_") for name in result.values):
        return "it decoded speculatively (spec_decode_*): measure with speculation off, the pack adds it"
    if result.number("total_output_tokens", above=False) <= result.number("completed"):
        return "its outputs have one token each: there is no time per output token"
    return ""


def _check_lists(result: Record) -> None:
    """With ``--save-detailed`` there is a list of lengths a side, request by request."""
    inputs, outputs = result.values.get("input_lens"), result.values.get("output_lens")
    if isinstance(inputs, list) and isinstance(outputs, list):
        sizes: tuple[int, int] = (len(inputs), len(outputs))  # pyright: ignore[reportUnknownArgumentType]
        if sizes[0] != sizes[1]:
            result.refuse("output_lens", f"a list as long as input_lens, {sizes[0]}, not {sizes[1]}")
