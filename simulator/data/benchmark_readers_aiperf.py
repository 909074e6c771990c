"""Exports of AIPerf and GenAI-Perf: ``profile_export_aiperf.json``, ``profile_export_genai_perf.json``, CSV.

Both tools write the same metrics. JSON has an object a metric, ``{"unit": "ms", "avg": …, "p50": …}``, and
``input_config`` with model and load. CSV has a table of request metrics (``Metric, avg, min, max, p99, …``),
an empty line, and a table ``Metric, Value``; the unit is in the metric's name, and neither model nor load are
there, so that the running batch follows from throughput alone. ``inter_token_latency`` is per request
(latency - TTFT) / (output tokens - 1): what this project calls TPOT.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from inferencegym.errors import InvalidValueError
from simulator.data.benchmark_record import Record
from simulator.data.measurements import Collected, LoadTest

__all__ = ["is_aiperf_export", "read_aiperf_csv", "read_aiperf_json"]

_TTFT, _TPOT = "time_to_first_token", "inter_token_latency"
_PROMPT, _OUTPUT = "input_sequence_length", "output_sequence_length"
_RATE, _DONE, _FAILED = "request_throughput", "request_count", "error_request_count"
_METRICS = (_TTFT, _TPOT, _PROMPT, _OUTPUT, _RATE, _DONE, _FAILED)

_MS = {"ms": 1.0, "s": 1e3, "sec": 1e3, "us": 1e-3, "ns": 1e-6}
"""Milliseconds in a unit of time."""

_CONCURRENCY = (
    ("perf_analyzer", "stimulus", "concurrency"),  # GenAI-Perf from 0.0.12 on
    ("loadgen", "concurrency"),  # AIPerf
    ("phases", "profiling", "concurrency"),  # AIPerf's resolved configuration
    ("concurrency",),  # GenAI-Perf before
)
_MODELS = (("endpoint", "model_names"), ("model_names",), ("models", "items"), ("model",))


def is_aiperf_export(document: Mapping[str, Any]) -> bool:
    """Does the object hold metrics of these tools?"""
    return any(isinstance(document.get(name), dict) for name in (*_METRICS, "request_latency"))


def read_aiperf_json(export: Record, tier: int, into: Collected) -> None:
    """Take the run of one export in. Raises ``InvalidValueError`` for a value that cannot be."""
    config = export.values.get("input_config")
    config = cast("dict[str, Any]", config) if isinstance(config, dict) else {}
    models = _model_names(config)
    if len(models) > 1:
        into.leave_out(export.place, f"it mixes several models: {', '.join(models)}")
        return
    for model in models:
        into.models.setdefault(model, export.place)
    if export.values.get("was_cancelled") is True:
        into.leave_out(export.place, "the run was cancelled (was_cancelled)")
        return
    metrics: dict[str, Record] = {}
    for name in _METRICS:
        block = export.values.get(name)
        if block is None:
            continue
        if not isinstance(block, dict):
            export.refuse(name, "an object with unit and avg")
        metrics[name] = Record(f"{export.place}, {name}", "key", cast("dict[str, Any]", block))
    load = Record(f"{export.place}, input_config", "key", {"concurrency": _first(config, _CONCURRENCY)})
    _take_in(export.place, metrics, load.optional("concurrency"), tier, into)


def read_aiperf_csv(file: str, rows: list[tuple[int, list[str]]], tier: int, into: Collected) -> None:
    """Take the run of one CSV export in: ``rows`` are line numbers and cells."""
    metrics: dict[str, Record] = {}
    header: list[str] = []
    for line, cells in rows:
        if "Metric" in cells:
            header = cells if cells[0] == "Metric" else []  # tables of GPU telemetry have other first columns
        elif header and any(cells):
            name, unit = _name_and_unit(cells[0])
            if name in _METRICS:
                values = dict(zip(header[1:], cells[1:], strict=False))
                metrics[name] = Record(f"{file}: line {line}", "column", {**values, "unit": unit})
    _take_in(file, metrics, None, tier, into)


def _take_in(
    place: str, metrics: dict[str, Record], concurrency: float | None, tier: int, into: Collected
) -> None:
    if _TTFT not in metrics or _TPOT not in metrics:
        reason = f"it has no {_TTFT} or no {_TPOT}: it was measured without streaming (--streaming)"
        into.leave_out(place, reason)
        return
    for name in (_PROMPT, _OUTPUT):
        if name not in metrics:
            raise InvalidValueError(f"{place}, {name}", None, "the metric; it is missing")
    if concurrency is None and _RATE not in metrics:
        raise InvalidValueError(f"{place}, {_RATE}", None, "the metric, or a concurrency; both are missing")
    failed = _average(metrics[_FAILED], least=0.0) if _FAILED in metrics else 0.0
    done = _average(metrics[_DONE]) if _DONE in metrics else None
    ttft, tpot = metrics[_TTFT], metrics[_TPOT]
    into.add_load_test(
        LoadTest(
            where=place,
            tier=tier,
            prompt_tokens=_average(metrics[_PROMPT]),
            output_tokens=_average(metrics[_OUTPUT]),
            mean_ttft_ms=_average(ttft) * _unit_ms(ttft),
            mean_tpot_ms=_average(tpot) * _unit_ms(tpot),
            median_ttft_ms=_median_ms(ttft),
            median_tpot_ms=_median_ms(tpot),
            throughput_rps=_average(metrics[_RATE]) if _RATE in metrics else None,
            concurrency=concurrency,
            failed_share=failed / (done + failed) if done else 0.0,
        )
    )


def _average(metric: Record, least: float | None = None) -> float:
    name = "Value" if "Value" in metric.values else "avg"
    return metric.number(name) if least is None else metric.number(name, low=least, above=False)


def _median_ms(metric: Record) -> float | None:
    for smaller, larger in (("min", "p50"), ("p50", "max")):
        metric.ordered(smaller, larger)
    return metric.number("p50") * _unit_ms(metric) if metric.has("p50") else None


def _unit_ms(metric: Record) -> float:
    unit = metric.values.get("unit")
    if unit not in _MS:
        metric.refuse("unit", f"a unit of time: {', '.join(_MS)}")
    return _MS[unit]


def _name_and_unit(text: str) -> tuple[str, str]:
    """``Time To First Token (ms)`` as ``time_to_first_token`` and ``ms``."""
    found = re.fullmatch(r"(.*?)\s*(?:\(([^()]*)\))?", text.strip())
    assert found is not None, "the pattern takes any line"
    return found[1].casefold().replace(" ", "_"), found[2] or ""


def _first(config: Mapping[str, Any], paths: tuple[tuple[str, ...], ...]) -> Any:
    """The first value there is under one of several paths."""
    for path in paths:
        value: Any = config
        for key in path:
            value = _child(value, key)
        if value is not None:
            return value
    return None


def _child(value: Any, key: str) -> Any:
    """A member of an object, or the object of that ``name`` in a list."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).get(key)
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        return next((entry for entry in entries if _child(entry, "name") == key), None) if entries else None
    return None


def _model_names(config: Mapping[str, Any]) -> list[str]:
    found: Any = _first(config, _MODELS)
    entries: list[Any] = cast("list[Any]", found) if isinstance(found, list) else [found]
    names = [
        cast("dict[str, Any]", entry).get("name") if isinstance(entry, dict) else entry for entry in entries
    ]
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))
