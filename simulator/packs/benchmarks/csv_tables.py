"""A plain table of measured points, for figures that no tool wrote.

Columns, in any order; others are named and not looked at:

- ``batch_size``: sequences that decode together, with no prefill in between; or ``concurrency``: clients of a
  closed loop, each of which asks again when it is answered. One of the two.
- ``prompt_tokens``; ``output_tokens`` (256, the pack's reference length, where there is no such column).
- ``tpot_ms``, ``ttft_ms``, or ``latency_s`` of a whole offline batch of ``batch_size`` prompts; with
  ``concurrency`` that of a request, which TTFT and TPOT are held against. A cell may be empty, not all of
  them. TTFT is that of one prompt without a queue: leave it empty where prompts were prefilled together.
- ``completed``, ``failed``, ``num_prompts``, ``request_throughput`` and ``request_rate``, by which a row is
  doubted as a result of ``vllm bench serve`` is.
- ``tier``: FP16, INT8 or INT4, or as the pack in question names them; where there is no such column, what the
  caller says.
"""

from __future__ import annotations

from inferencegym.errors import InvalidValueError
from simulator.packs.benchmarks.doubts import request_rate, speculation
from simulator.packs.benchmarks.record import Record
from simulator.packs.building.columns import PackSettings
from simulator.packs.importing.load_test import LATENCY_FACTOR, LoadTest, Names, too_many_failed
from simulator.packs.importing.measurements import Collected, Measurement

__all__ = ["COLUMNS", "MAX_ROWS", "is_plain_table", "read_plain_table"]

COLUMNS = (
    "batch_size", "concurrency", "prompt_tokens", "output_tokens", "tpot_ms", "ttft_ms", "latency_s", "tier",
    "completed", "failed", "num_prompts", "request_throughput", "request_rate",
)  # fmt: skip

MAX_ROWS = 10_000
"""Rows of a table; a fit of six numbers needs dozens."""

MAX_SEQUENCES = 4096.0

_KNOWN = (
    "Needed: batch_size or concurrency; prompt_tokens; tpot_ms, ttft_ms (milliseconds) or latency_s "
    "(seconds). "
    "Optional: output_tokens, tier, and completed, failed, num_prompts, request_throughput, request_rate."
)


def is_plain_table(header: list[str]) -> bool:
    """Has the header any of the columns?"""
    return any(name in COLUMNS for name in header)


def read_plain_table(
    file: str, rows: list[tuple[int, list[str]]], tier: int, tier_names: tuple[str, ...], into: Collected
) -> None:
    """Take all rows in; the first is the header. Raises ``InvalidValueError`` naming line and column."""
    line, header = rows[0]
    _check_header(f"{file}: line {line}", header)
    filled = [(number, cells) for number, cells in rows[1:] if any(cells)]
    unread = [name for name in header if name not in COLUMNS]
    if unread and filled:
        times = any(word in name.casefold() for name in unread for word in ("ttft", "tpot", "itl", "latency"))
        known = (
            "; times are read from tpot_ms, ttft_ms (milliseconds) and latency_s (seconds)" if times else ""
        )
        into.leave_out(f"{file}: line {line}", f"columns that are not known: {', '.join(unread)}{known}")
    for number, cells in filled:
        place = f"{file}: line {number}"
        if len(cells) != len(header):
            raise InvalidValueError(place, len(cells), f"{len(header)} cells, as in the header")
        row = Record(place, "column", dict(zip(header, cells, strict=True)))
        _take_in(row, _tier(row, tier_names) if row.has("tier") else tier, into)


def _check_header(place: str, header: list[str]) -> None:
    twice = [name for name in COLUMNS if header.count(name) > 1]
    if twice:
        raise InvalidValueError(f"{place}, column {twice[0]}", "two of them", "one")
    if ("batch_size" in header) == ("concurrency" in header):
        raise InvalidValueError(place, header, "one of the columns batch_size and concurrency", _KNOWN)
    if "prompt_tokens" not in header or not {"tpot_ms", "ttft_ms", "latency_s"} & {*header}:
        missing = "prompt_tokens" if "prompt_tokens" not in header else "tpot_ms, ttft_ms or latency_s"
        raise InvalidValueError(place, header, f"a table with the column {missing}", _KNOWN)


def _take_in(row: Record, tier: int, into: Collected) -> None:
    if drafts := speculation(row.values):
        reason = f"it decoded speculatively ({drafts}): measure with speculation off, the pack adds it"
        into.leave_out(row.place, reason)
        return
    failed_share, failed_by = _failures(row)
    output = PackSettings(build_date="").reference_output_tokens
    output_tokens = row.tokens("output_tokens") if row.has("output_tokens") else float(output)
    if "concurrency" in row.values:
        clients = row.number("concurrency", low=1.0, high=MAX_SEQUENCES, above=False)
        into.add_load_test(
            LoadTest(
                where=row.place,
                tier=tier,
                prompt_tokens=row.tokens("prompt_tokens"),
                output_tokens=output_tokens,
                mean_ttft_ms=row.number("ttft_ms"),
                mean_tpot_ms=row.number("tpot_ms"),
                throughput_rps=row.optional("request_throughput"),
                concurrency=clients,
                failed_share=failed_share,
                failed_by=failed_by,
                request_rate_rps=request_rate(row),
                requests=row.optional("num_prompts") or row.optional("completed"),
                mean_latency_ms=row.number("latency_s") * 1e3 if row.has("latency_s") else None,
                names=Names(
                    requests="num_prompts" if row.has("num_prompts") else "completed",
                    throughput="request_throughput",
                ),
            )
        )
        return
    point = Measurement(
        where=row.place,
        tier=tier,
        batch=row.number("batch_size", low=1.0, high=MAX_SEQUENCES, above=False),
        prompt_tokens=row.tokens("prompt_tokens"),
        output_tokens=output_tokens,
        colocated=False,
        tpot_ms=row.optional("tpot_ms"),
        ttft_ms=row.optional("ttft_ms"),
        latency_s=row.optional("latency_s"),
    )
    if point.tpot_ms is None and point.ttft_ms is None and point.latency_s is None:
        raise InvalidValueError(row.place, "a row without figures", "tpot_ms, ttft_ms or latency_s")
    if reason := too_many_failed(failed_share, failed_by) or _against_latency(point):
        into.leave_out(row.place, reason)
    else:
        into.points.append(point)


def _failures(row: Record) -> tuple[float, str]:
    """Share of the requests that failed, and the columns that say so."""
    failed, by = row.optional("failed", above=False) or 0.0, "failed"
    sent, completed = row.optional("num_prompts"), row.optional("completed", above=False)
    if sent is not None and completed is not None:
        if completed > sent:
            row.refuse("completed", f"a number up to num_prompts, {sent:g}")
        failed, by = max((failed, by), (sent - completed, "num_prompts - completed"))
    if failed == 0.0:
        return 0.0, ""
    return failed / (sent or row.number("completed", above=False) + failed), f"{by} {failed:g}"


def _against_latency(point: Measurement) -> str:
    """A batch's latency holds its decoding, and beside it a prefill for each prompt."""
    if point.latency_s is None or point.tpot_ms is None:
        return ""
    decode_s = point.tpot_ms * (point.output_tokens - 1.0) / 1e3
    said = f"latency_s is {point.latency_s:.4g} s, tpot_ms x (output_tokens - 1)"
    if point.latency_s < decode_s / LATENCY_FACTOR:
        return f"{said} {decode_s:.4g} s: one of them is in another unit, or they do not belong to one run"
    if point.ttft_ms is None:
        return ""
    whole_s = decode_s + point.batch * point.ttft_ms / 1e3
    if point.latency_s > whole_s * LATENCY_FACTOR:
        return (
            f"{said} + batch_size x ttft_ms {whole_s:.4g} s: one of them is in another unit, or they do not "
            "belong to one run"
        )
    return ""


def _tier(row: Record, names: tuple[str, ...]) -> int:
    name = str(row.values["tier"]).upper()
    if name not in names:
        row.refuse("tier", ", ".join(names))
    return names.index(name)
