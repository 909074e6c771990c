"""Results of ``vllm bench serve`` and of ``benchmark_serving.py`` (``--save-result``, ``--append-result``).

One JSON object a run: ``duration`` (s), ``completed``, ``failed``, ``total_input_tokens``,
``total_output_tokens``, ``request_throughput``, ``max_concurrency``, ``request_rate`` (``"inf"`` for none),
``mean_ttft_ms``, ``median_ttft_ms``, ``p99_ttft_ms``, the same of ``tpot``, and ``model_id``. SGLang's
``bench_serving`` writes the same names. TPOT leaves the first token out.
"""

from __future__ import annotations

from typing import Any, cast

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
    for metric in ("ttft", "tpot"):
        result.ordered(f"median_{metric}_ms", f"p99_{metric}_ms")
    answered = completed - empty_answers(result)
    prompts = result.optional("num_prompts")
    unlimited = _rate_is_unlimited(result)
    into.add_load_test(
        LoadTest(
            where=result.place,
            tier=tier,
            prompt_tokens=result.number("total_input_tokens") / completed,
            output_tokens=result.number("total_output_tokens") / answered,
            mean_ttft_ms=result.number("mean_ttft_ms"),
            mean_tpot_ms=result.number("mean_tpot_ms"),
            median_ttft_ms=result.optional("median_ttft_ms"),
            median_tpot_ms=result.optional("median_tpot_ms"),
            throughput_rps=result.optional("request_throughput") or completed / result.number("duration"),
            concurrency=result.optional("max_concurrency"),
            failed_share=failed_share(result),
            requests=prompts or completed + failed_requests(result),
            most_at_once=result.optional("max_concurrent_requests"),
            rate_unlimited=unlimited,
        )
    )


def _rate_is_unlimited(result: Record) -> bool:
    """Whether requests were sent as soon as the concurrency allowed; the tools write "inf" or Infinity."""
    rate = result.values.get("request_rate")
    return rate in ("inf", "Infinity") or rate == float("inf")


def failed_requests(result: Record) -> float:
    """Requests that did not succeed: as counted, as missing among the prompts, or as listed by error."""
    counted = result.optional("failed", above=False) or 0.0
    completed = result.number("completed", above=False)
    prompts = result.optional("num_prompts") or 0.0
    if prompts and completed > prompts:
        result.refuse("completed", f"at most num_prompts, {prompts:g}")
    errors: Any = result.values.get("error_summary")
    listed = 0.0
    if isinstance(errors, dict):
        kinds = cast("dict[str, Any]", errors)
        within = Record(f"{result.place}, key error_summary", result.noun, kinds)
        listed = sum(within.number(kind, above=False) for kind in kinds)
    return max(counted, prompts - completed, listed)


def empty_answers(result: Record) -> float:
    """Requests that count as completed and gave nothing."""
    outputs = result.values.get("output_lens")
    if not isinstance(outputs, list):
        return 0.0
    empty = sum(1 for length in cast("list[Any]", outputs) if length == 0)
    # The list has a zero for every failed request too.
    completed = result.number("completed", above=False)
    return float(max(0, empty - max(0, len(cast("list[Any]", outputs)) - int(completed))))


def failed_share(result: Record) -> float:
    """Share of all requests that failed or were answered with nothing."""
    failed, completed = failed_requests(result), result.number("completed")
    return (failed + empty_answers(result)) / (failed + completed)


def _unusable(result: Record) -> str:
    """Why a whole run is of no use, or nothing."""
    _check_lists(result)
    completed = result.number("completed", above=False)
    if completed == 0.0:
        return "no request was completed"
    if empty_answers(result) >= completed:
        return "every output is empty (output_lens)"
    if not (result.has("mean_ttft_ms") and result.has("mean_tpot_ms")):
        return _no_timings(result)
    if result.has("ramp_up_strategy"):
        return "its request rate was ramped up (ramp_up_strategy): there is no steady state to read"
    speculation = _speculation(result)
    if speculation:
        return f"it decoded speculatively ({speculation}): measure with speculation off, the pack adds it"
    disagreement = _disagreement(result)
    if disagreement:
        return disagreement
    if result.number("total_output_tokens", above=False) <= completed:
        return "its outputs have one token each: there is no time per output token"
    return ""


def _no_timings(result: Record) -> str:
    for metric in ("ttft", "tpot"):
        for name in (f"mean_{metric}_s", f"mean_{metric}"):
            if result.has(name):
                return f"its times are not in milliseconds ({name}); mean_{metric}_ms is needed"
    medians = [name for name in ("median_ttft_ms", "median_tpot_ms") if result.has(name)]
    missing = [name for name in ("mean_ttft_ms", "mean_tpot_ms") if not result.has(name)]
    if medians:
        return (
            f"it has {' and '.join(medians)} but no {' and no '.join(missing)}: how many requests ran "
            "together follows from means alone"
        )
    return f"it has no token timings ({', '.join(missing)}): a pooling run, or one without a tokenizer"


_ACCEPTED = ("accept_length", "acceptance_length", "accept_len")
"""What SGLang and others call the mean number of tokens that a verify step yields."""


def _speculation(result: Record) -> str:
    """What says that a draft was used, or nothing."""
    for name, value in result.values.items():
        plain = name.casefold()
        if plain.startswith(("spec_decode", "speculative_")) and value not in (None, False, 0, "", "none"):
            return name if plain.startswith("speculative_") else "spec_decode_*"
        if any(word in plain for word in _ACCEPTED) and isinstance(value, int | float) and value > 1.0:
            return f"{name} = {value:g}"
    return ""


MAX_DISAGREEMENT = 0.05
"""Relative difference of two counts of the same tokens up to which they are one: tokenizers differ at the
ends of texts."""


def _disagreement(result: Record) -> str:
    """Two counts of the same tokens that cannot both be right, or nothing."""
    names = [
        ("total_output_tokens", "total_output_tokens_retokenized"),
        ("total_input_tokens", "total_input_tokens_retokenized"),
    ]
    for name, other in names:
        if result.has(other):
            one, two = result.number(name), result.number(other, above=False)
            if abs(one - two) > MAX_DISAGREEMENT * max(one, two):
                return f"{name}, {one:g}, and {other}, {two:g}, differ: some ended early, or are miscounted"
    for name, listed in (("total_output_tokens", "output_lens"), ("total_input_tokens", "input_lens")):
        lengths = result.values.get(listed)
        if isinstance(lengths, list) and lengths:
            one, two = result.number(name), float(sum(_whole(each) for each in cast("list[Any]", lengths)))
            if abs(one - two) > MAX_DISAGREEMENT * max(one, two):
                return f"{name}, {one:g}, is not the sum of {listed}, {two:g}"
    return ""


def _whole(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _check_lists(result: Record) -> None:
    """With ``--save-detailed`` there is a list of lengths a side, request by request."""
    inputs, outputs = result.values.get("input_lens"), result.values.get("output_lens")
    if isinstance(inputs, list) and isinstance(outputs, list):
        sizes: tuple[int, int] = (len(inputs), len(outputs))  # pyright: ignore[reportUnknownArgumentType]
        if sizes[0] != sizes[1]:
            result.refuse("output_lens", f"a list as long as input_lens, {sizes[0]}, not {sizes[1]}")
