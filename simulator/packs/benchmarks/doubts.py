"""What tells a reader that a result does not mean what its names say: drafts, tokens, failures, rates.

Tools name these things differently, and older versions leave some out. Names seen: vLLM's ``spec_decode_*``;
SGLang's ``accept_length`` and, in its ``server_info``, ``speculative_algorithm`` and
``avg_spec_accept_length``; AIPerf's ``spec_decode_*``, ``total_draft_tokens`` and
``pooled_spec_decode_acceptance_histogram``; TensorRT-LLM's ``speculative_config`` and ``acceptance_length``.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, cast

from simulator.kernels.sums import ordered_sum
from simulator.packs.benchmarks.record import Record

__all__ = ["apart", "entries_of", "reported_errors", "request_rate", "speculation"]

MAX_DISAGREEMENT = 0.10
"""Relative difference of two counts of the same tokens or requests up to which both are believed. Text that
is put through a tokenizer again has up to 5 % fewer tokens in SGLang's published runs with real text; TPOT
is wrong by as much as the count is."""

_LENGTH = re.compile(r"(?:^|_)acc(?:ept(?:ance|ed)?)?_len(?:gth)?s?$")
"""Tokens a step: 1 without drafts."""

_DRAFTS = re.compile(
    r"(?:^|_)spec_?decod|^num_spec(?:ulative)?_(?:tokens|steps)$"
    r"|^(?:spec_)?(?:total_)?(?:num_)?(?:accepted_)?drafts?(?:_tokens)?$"
    r"|^(?:total_)?(?:num_)?accepted_tokens$|(?:^|_)(?:draft_)?accept(?:ance)?_rate$|^spec_verify_ct$"
)
"""Counts and rates that are 0 or absent without drafts."""

_METHOD = re.compile(
    r"^spec(?:ulative)?_(?:algorithm|algo|config|decoding_config|model|method|draft_model_path)$"
    r"|^(?:enable_)?speculative(?:_decoding)?$"
)
"""Settings that name a method of drafting."""

_LENGTHS_ASKED = re.compile(r"^speculative_(?:num_)?(?:draft_)?(?:tokens|steps)$")
"""Settings of a method, which have defaults where a method is named, and named none."""

_OFF = ("", "none", "null", "off", "false", "disabled", "no", "n/a", "-")

_OWN_TIMES = ("trace",)
"""What SGLang writes for a rate where prompts came at the times of a trace."""

_MAX_COUNT = 1e300


def speculation(values: Mapping[str, Any]) -> str:
    """The field that says that drafts were accepted or made, with its value, or nothing. At any depth."""
    entries = [(_key(name), path, value) for path, name, value in entries_of(values)]
    method_named = any(_METHOD.search(key) for key, _, _ in entries)
    for key, path, value in entries:
        if _LENGTH.search(key):
            speculative = _largest(value) > 1.0
        elif _DRAFTS.search(key) or (_LENGTHS_ASKED.search(key) and not method_named):
            speculative = _largest(value) > 0.0
        else:
            speculative = _METHOD.search(key) is not None and _is_set(value)
        if speculative:
            return f"{path} {_shown(value)}"
    return ""


def entries_of(values: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Path, name and value of everything in an object and in the objects in it."""
    waiting: deque[tuple[str, Mapping[str, Any]]] = deque([("", values)])
    while waiting:
        inside, entries = waiting.popleft()
        for name, value in entries.items():
            path = f"{inside}{name}"
            yield path, name, value
            inner = cast("list[Any]", value if isinstance(value, list) else [value])
            waiting += [
                (f"{path}.", cast("dict[str, Any]", entry)) for entry in inner if isinstance(entry, dict)
            ]


def reported_errors(result: Record, name: str = "error_summary") -> float:
    """Errors in a summary: a number, counts by message, or a list of objects with ``count``.

    Raises ``InvalidValueError`` for a count that is none.
    """
    summary = result.values.get(name)
    if isinstance(summary, dict):
        counts = Record(result.at(name), "key", cast("dict[str, Any]", summary))
        return ordered_sum(counts.number(key, above=False) for key in counts.values)
    if not isinstance(summary, list):
        return result.optional(name, above=False) or 0.0
    total = 0.0
    for index, entry in enumerate(cast("list[Any]", summary)):
        if not isinstance(entry, dict):
            total += 1.0 if _is_set(entry) else 0.0
            continue
        counted = Record(f"{result.at(name)} [{index}]", "key", cast("dict[str, Any]", entry))
        total += counted.number("count", above=False) if counted.has("count") else 1.0
    return total


def request_rate(result: Record) -> float | None:
    """Requests a second that were asked for; infinite where the client held nothing back, None where
    unsaid."""
    value = result.values.get("request_rate")
    if value == inf or (isinstance(value, str) and value.strip().casefold() in ("inf", "infinity")):
        return inf
    if not result.has("request_rate") or value in _OWN_TIMES:
        return None
    if isinstance(value, str) and result.noun == "key":
        result.refuse("request_rate", 'a number above 0, "inf" or "trace"')
    return result.number("request_rate")


def apart(one: float, other: float) -> bool:
    """Do two counts of the same thing disagree?"""
    return abs(one - other) > MAX_DISAGREEMENT * max(one, other)


def _key(name: str) -> str:
    return name.casefold().replace(" ", "_").replace("-", "_")


def _largest(value: Any) -> float:
    """The largest number of a value: of itself, of a list, or of a metric's object. What is none is
    infinite."""
    if isinstance(value, dict):
        metric = cast("dict[str, Any]", value)
        return _largest(metric["avg"] if "avg" in metric else list(metric.values()))
    if isinstance(value, list):
        return max((_largest(entry) for entry in cast("list[Any]", value)), default=0.0)
    if isinstance(value, str):
        return _largest_of_text(value)
    if not isinstance(value, int | float):
        return 0.0
    return inf if value != value or value > _MAX_COUNT else float(value)


def _largest_of_text(value: str) -> float:
    """A word that is no number and does not say "none" is taken for one that says that there were drafts."""
    try:
        return _largest(float(value))
    except ValueError:
        return inf if _is_set(value) else 0.0


def _is_set(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_is_set(entry) for entry in cast("dict[str, Any]", value).values())
    return value.strip().casefold() not in _OFF if isinstance(value, str) else bool(value)


def _shown(value: Any) -> str:
    if isinstance(value, dict) and "avg" in value:
        return _shown(cast("dict[str, Any]", value)["avg"])
    text = f"{value:g}" if isinstance(value, float) else str(cast("object", value))
    return text if len(text) <= 40 else text[:37] + "..."
