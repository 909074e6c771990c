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
from simulator.packs.benchmarks.doubts import apart, reported_errors, speculation
from simulator.packs.benchmarks.record import Record
from simulator.packs.importing.load_test import LoadTest, Names
from simulator.packs.importing.measurements import Collected

__all__ = ["is_aiperf_export", "read_aiperf_csv", "read_aiperf_json"]

_TTFT, _TPOT = "time_to_first_token", "inter_token_latency"
_PROMPT, _OUTPUT = "input_sequence_length", "output_sequence_length"
_RATE, _DONE, _FAILED = "request_throughput", "request_count", "error_request_count"
_LATENCY, _SERVED = "request_latency", "usage_completion_tokens"
_DURATION, _TOKEN_RATE = "benchmark_duration", "output_token_throughput"
_METRICS = (
    _TTFT, _TPOT, _PROMPT, _OUTPUT, _RATE, _DONE, _FAILED, _LATENCY, _SERVED, _DURATION, _TOKEN_RATE,
)  # fmt: skip

_MS = {"ms": 1.0, "s": 1e3, "sec": 1e3, "us": 1e-3, "ns": 1e-6}
"""Milliseconds in a unit of time."""

_CONCURRENCY = (
    ("perf_analyzer", "stimulus", "concurrency"),  # GenAI-Perf from 0.0.12 on
    ("loadgen", "concurrency"),  # AIPerf
    ("phases", "profiling", "concurrency"),  # AIPerf's resolved configuration
    ("concurrency",),  # GenAI-Perf before
)
_REQUEST_RATE = (
    ("perf_analyzer", "stimulus", "request_rate"),
    ("loadgen", "request_rate"),
    ("phases", "profiling", "request_rate"),
    ("request_rate",),
)
_ASKED = (("loadgen", "request_count"), ("phases", "profiling", "request_count"), ("request_count",))
"""Requests that were to be sent."""

_MODELS = (("endpoint", "model_names"), ("model_names",), ("models", "items"), ("model",))


_SPECULATIVE = "it decoded speculatively ({}): measure with speculation off, the pack adds it"


def is_aiperf_export(document: Mapping[str, Any]) -> bool:
    """Does the object hold metrics of these tools?"""
    return any(isinstance(document.get(name), dict) for name in _METRICS)


def read_aiperf_json(export: Record, tier: int, into: Collected) -> None:
    """Take the run of one export in. Raises ``InvalidValueError`` for a value that cannot be."""
    config = export.values.get("input_config")
    config = cast("dict[str, Any]", config) if isinstance(config, dict) else {}
    models = _model_names(config)
    if len(models) > 1:
        into.leave_out(export.place, f"it mixes several models: {', '.join(models)} (input_config)")
        return
    for model in models:
        into.models.setdefault(model, export.place)
    if export.values.get("was_cancelled") is True:
        into.leave_out(export.place, "the run was cancelled (was_cancelled)")
        return
    if drafts := speculation(export.values):
        into.leave_out(export.place, _SPECULATIVE.format(drafts))
        return
    metrics: dict[str, Record] = {}
    for name in _METRICS:
        block = export.values.get(name)
        if block is None:
            continue
        if not isinstance(block, dict):
            export.refuse(name, "an object with unit and avg")
        metrics[name] = Record(f"{export.place}, {name}", "key", cast("dict[str, Any]", block))
    paths = {"concurrency": _CONCURRENCY, "request_rate": _REQUEST_RATE, "request_count": _ASKED}
    found = {name: _first(config, places) for name, places in paths.items()}
    load = Record(f"{export.place}, input_config", "key", found)
    _take_in(export.place, metrics, load, reported_errors(export), tier, into)


def read_aiperf_csv(file: str, rows: list[tuple[int, list[str]]], tier: int, into: Collected) -> None:
    """Take the run of one CSV export in: ``rows`` are line numbers and cells."""
    metrics: dict[str, Record] = {}
    header: list[str] = []
    drafts = ""
    for line, cells in rows:
        if "Metric" in cells:
            header = cells if cells[0] == "Metric" else []  # tables of GPU telemetry have other first columns
        elif header and any(cells):
            name, unit = _name_and_unit(cells[0])
            values = dict(zip(header[1:], cells[1:], strict=False))
            drafts = drafts or speculation({name: values.get("Value", values.get("avg"))})
            if name in metrics:
                at = f"{file}: line {line}"
                raise InvalidValueError(
                    at, f"{cells[0]} again", "one run a file", "Give each run's own export."
                )
            if name in _METRICS:
                metrics[name] = Record(f"{file}: line {line}", "column", {**values, "unit": unit})
    if drafts:
        into.leave_out(file, _SPECULATIVE.format(drafts))
    else:
        _take_in(file, metrics, Record(file, "column", {}), 0.0, tier, into)


def _take_in(
    place: str, metrics: dict[str, Record], load: Record, errors: float, tier: int, into: Collected
) -> None:
    reason = _unusable(metrics)
    if reason:
        into.leave_out(place, reason)
        return
    for name in (_PROMPT, _OUTPUT):
        if name not in metrics:
            raise InvalidValueError(f"{place}, {name}", None, "the metric; it is missing")
    concurrency, rate_rps = load.optional("concurrency"), _throughput(metrics)
    if concurrency is None and rate_rps is None:
        raise InvalidValueError(f"{place}, {_RATE}", None, "the metric, or a concurrency; both are missing")
    done = _average(metrics[_DONE]) if _DONE in metrics else None
    failed_by, failed = _failures(metrics, load, errors, done)
    if failed and done is None:
        into.leave_out(place, f"{failed_by}, and no {_DONE} to tell which share of its requests failed")
        return
    ttft, tpot = metrics[_TTFT], metrics[_TPOT]
    into.add_load_test(
        LoadTest(
            where=place,
            tier=tier,
            prompt_tokens=_average(metrics[_PROMPT]),
            output_tokens=_average(metrics[_OUTPUT]),
            mean_ttft_ms=_mean_ms(ttft),
            mean_tpot_ms=_mean_ms(tpot),
            median_ttft_ms=_median_ms(ttft),
            median_tpot_ms=_median_ms(tpot),
            throughput_rps=rate_rps,
            concurrency=concurrency,
            failed_share=failed / (done + failed) if done else 0.0,
            failed_by=failed_by,
            request_rate_rps=load.optional("request_rate"),
            requests=None if done is None else done + failed,
            mean_latency_ms=_mean_ms(metrics[_LATENCY]) if _LATENCY in metrics else None,
            unusable=_tokens_apart(metrics) or _rates_apart(metrics),
            names=Names(
                _TTFT,
                _TPOT,
                _LATENCY,
                "concurrency",
                _DONE,
                throughput=_throughput_name(metrics),
                output=_OUTPUT,
            ),
        )
    )


def _unusable(metrics: dict[str, Record]) -> str:
    """Why a whole run is of no use, or nothing."""
    if _TTFT not in metrics or _TPOT not in metrics:
        return f"it has no {_TTFT} or no {_TPOT}: it was measured without streaming (--streaming)"
    for name in (_TTFT, _TPOT):
        if metrics[name].has("p50") and not any(metrics[name].has(mean) for mean in ("avg", "Value")):
            return f"{name} has p50 and no avg: throughput times latency is about means, not medians"
    return ""


def _failures(
    metrics: dict[str, Record], load: Record, errors: float, done: float | None
) -> tuple[str, float]:
    """The field that tells of most failures, and how many."""
    asked = load.optional("request_count")
    counted = {
        _FAILED: _average(metrics[_FAILED], least=0.0) if _FAILED in metrics else 0.0,
        "error_summary": errors,
        f"request_count asked for - {_DONE}": 0.0 if asked is None or done is None else asked - done,
    }
    field, failed = max(counted.items(), key=lambda entry: entry[1])
    return f"{field} {failed:g}" if failed > 0.0 else "", max(failed, 0.0)


def _tokens_apart(metrics: dict[str, Record]) -> str:
    """Output tokens by the tokenizer against those that the server says it made."""
    if _SERVED not in metrics:
        return ""
    counted, served = _average(metrics[_OUTPUT]), _average(metrics[_SERVED], least=0.0)
    if not apart(counted, served):
        return ""
    said = f"{_OUTPUT} is {counted:g}, {_SERVED} {served:g}"
    return f"{said}: tokens are counted wrongly, and so is the time per token"


def _throughput(metrics: dict[str, Record]) -> float | None:
    """Requests a second: as stated, or as counted over the whole run."""
    if _RATE in metrics:
        return _average(metrics[_RATE])
    if _DONE in metrics and _DURATION in metrics:
        return _average(metrics[_DONE]) / _duration_s(metrics)
    return None


def _throughput_name(metrics: dict[str, Record]) -> str:
    return _RATE if _RATE in metrics else f"{_DONE} / {_DURATION}"


def _duration_s(metrics: dict[str, Record]) -> float:
    return _mean_ms(metrics[_DURATION]) / 1e3


def _rates_apart(metrics: dict[str, Record]) -> str:
    """Rates that are not what their counts say are of another run, or of several."""
    expected: dict[str, tuple[str, float]] = {}
    if _DONE in metrics and _DURATION in metrics:
        expected[_RATE] = f"{_DONE} / {_DURATION}", _average(metrics[_DONE]) / _duration_s(metrics)
    if (rate_rps := _throughput(metrics)) is not None:
        name = f"{_throughput_name(metrics)} x {_OUTPUT}"
        expected[_TOKEN_RATE] = name, rate_rps * _average(metrics[_OUTPUT])
    for rate, (name, value) in expected.items():
        if rate in metrics and apart(stated := _average(metrics[rate], least=0.0), value):
            return f"{rate} is {stated:.4g}/s, {name} {value:.4g}/s: its figures do not belong to one run"
    return ""


def _mean_ms(metric: Record) -> float:
    return _average(metric) * _unit_ms(metric)


def _average(metric: Record, least: float | None = None) -> float:
    name = "Value" if "Value" in metric.values else "avg"
    return metric.number(name) if least is None else metric.number(name, low=least, above=False)


def _median_ms(metric: Record) -> float | None:
    for smaller, larger in (("min", "p50"), ("p50", "p99"), ("p50", "max")):
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
