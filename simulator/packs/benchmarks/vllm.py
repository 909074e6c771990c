"""Results of ``vllm bench serve`` and of ``benchmark_serving.py`` (``--save-result``, ``--append-result``).

One JSON object a run: ``duration`` (s), ``completed``, ``failed``, ``total_input_tokens``,
``total_output_tokens``, ``request_throughput``, ``max_concurrency``, ``request_rate`` (``"inf"`` for none),
``mean_ttft_ms``, ``median_ttft_ms``, ``p99_ttft_ms``, the same of ``tpot``, and ``model_id``. SGLang's
``bench_serving`` writes the same names, and no ``num_prompts``. TPOT leaves the first token out.
"""

from __future__ import annotations

from typing import Any

from simulator.kernels.sums import ordered_sum
from simulator.packs.benchmarks.counts import Counts, counts_of
from simulator.packs.benchmarks.doubts import apart, request_rate, speculation
from simulator.packs.benchmarks.record import Record
from simulator.packs.importing.load_test import LoadTest, Names, too_many_failed
from simulator.packs.importing.measurements import Collected

__all__ = ["is_vllm_result", "read_vllm_result"]

_MARKS = ("total_input_tokens", "total_output_tokens", "mean_ttft_ms", "mean_tpot_ms", "num_prompts")

_ENGINES = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm", "lmdeploy": "lmdeploy"}
"""Backends that name an engine; the others (``openai``, ``openai-chat``) name a protocol."""

_LATENCIES = ("mean_e2el_ms", "mean_e2e_latency_ms")
"""Mean latency as vLLM and SGLang name it."""

_RATES = {
    "request_throughput": ("completed",),
    "output_throughput": ("total_output_tokens",),
    "input_throughput": ("total_input_tokens",),
    "total_token_throughput": ("total_input_tokens", "total_output_tokens"),
    "total_throughput": ("total_input_tokens", "total_output_tokens"),
}
"""What each rate is, times the duration: names of vLLM and of SGLang."""


def is_vllm_result(document: dict[str, Any]) -> bool:
    """Does the object look like one?"""
    return sum(mark in document for mark in _MARKS) >= 2  # whole numbers


def read_vllm_result(result: Record, tier: int, into: Collected) -> None:
    """Take one run in. Raises ``InvalidValueError`` for a value that cannot be."""
    for name in ("model_id", "model"):
        if isinstance(result.values.get(name), str):
            into.models.setdefault(result.values[name], result.place)
            break
    engine = _ENGINES.get(str(result.values.get("backend")))
    if engine is not None:
        into.engines.add(engine)
    counts = counts_of(result)
    reason = _unusable(result, counts)
    if reason:
        into.leave_out(result.place, reason)
    else:
        into.add_load_test(_load_test(result, counts, tier))


def _load_test(result: Record, counts: Counts, tier: int) -> LoadTest:
    for metric in ("ttft", "tpot"):
        result.ordered(f"median_{metric}_ms", f"p99_{metric}_ms")
    latency = next((name for name in _LATENCIES if result.has(name)), _LATENCIES[0])
    rate_rps = result.optional("request_throughput")
    return LoadTest(
        where=result.place,
        tier=tier,
        prompt_tokens=result.number("total_input_tokens") / counts.completed,
        output_tokens=result.number("total_output_tokens") / counts.answered,
        mean_ttft_ms=result.number("mean_ttft_ms"),
        mean_tpot_ms=result.number("mean_tpot_ms"),
        median_ttft_ms=result.optional("median_ttft_ms"),
        median_tpot_ms=result.optional("median_tpot_ms"),
        throughput_rps=rate_rps or counts.completed / result.number("duration"),
        concurrency=result.optional("max_concurrency"),
        failed_share=counts.failed_share,
        failed_by=counts.failed_by,
        request_rate_rps=request_rate(result),
        requests=counts.sent,
        most_in_flight=result.optional("max_concurrent_requests"),
        mean_latency_ms=result.optional(latency),
        unusable=_rates_apart(result),
        names=Names(
            "mean_ttft_ms",
            "mean_tpot_ms",
            latency,
            "max_concurrency",
            "num_prompts" if result.has("num_prompts") else "completed",
            "max_concurrent_requests",
            "request_throughput" if rate_rps else "completed / duration",
            "total_output_tokens / completed",
        ),
    )


def _unusable(result: Record, counts: Counts) -> str:
    """Why a whole run is of no use, or nothing."""
    if counts.answered <= 0.0:
        return f"no request was completed ({counts.failed_by or 'completed 0'})"
    if failed := too_many_failed(counts.failed_share, counts.failed_by):
        return failed
    if not (result.has("mean_ttft_ms") and result.has("mean_tpot_ms")):
        return _without_means(result)
    if result.has("ramp_up_strategy"):
        return "its request rate was ramped up (ramp_up_strategy): there is no steady state to read"
    if drafts := speculation(result.values):
        return f"it decoded speculatively ({drafts}): measure with speculation off, the pack adds it"
    if counts.contradiction:
        return counts.contradiction
    outputs = result.number("total_output_tokens", above=False)
    if outputs <= counts.answered:
        return (
            f"total_output_tokens is {outputs:g} for {counts.answered:g} answers: with one token each there "
            "is no time per output token"
        )
    return ""


def _without_means(result: Record) -> str:
    """What is there in place of the two means."""
    missing = [name for name in ("mean_ttft_ms", "mean_tpot_ms") if not result.has(name)]
    for name in missing:
        metric = name.split("_")[1]
        if other := next((n for n in (f"mean_{metric}_s", f"mean_{metric}") if result.has(n)), ""):
            return f"it has {other} where {name} belongs: is it in seconds? Give milliseconds under that name"
        if other := next((n for n in (f"median_{metric}_ms", f"p50_{metric}_ms") if result.has(n)), ""):
            return f"it has {other} and no {name}: throughput times latency is about means, not medians"
    return f"it has no token timings ({', '.join(missing)}): a pooling run, or one without a tokenizer"


def _rates_apart(result: Record) -> str:
    """Rates that are not their counts by the duration are of another run, or of several."""
    duration_s, by = result.optional("duration"), "duration"
    if duration_s is None:
        duration_s = result.number("completed") / result.number("request_throughput")
        by = "(completed / request_throughput)"
    for rate, counts in _RATES.items():
        if not result.has(rate):
            continue
        stated = result.number(rate, above=False)
        counted = ordered_sum(result.number(count, above=False) for count in counts) / duration_s
        if apart(stated, counted):
            of = counts[0] if len(counts) == 1 else f"({' + '.join(counts)})"
            return (
                f"{rate} is {stated:.4g}/s, {of} / {by} {counted:.4g}/s: its figures do not belong to one run"
            )
    return ""
