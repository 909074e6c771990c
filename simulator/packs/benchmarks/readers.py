"""Read what people have measured: one reader a format, recognised by what is in the file.

==============================================  =============================================================
format                                          reader
==============================================  =============================================================
``vllm bench serve``, ``benchmark_serving.py``  :mod:`~simulator.packs.benchmarks.vllm`
AIPerf and GenAI-Perf, JSON and CSV             :mod:`~simulator.packs.benchmarks.aiperf`
a plain CSV table                               :mod:`~simulator.packs.benchmarks.csv_tables`
==============================================  =============================================================

A JSON file holds one result, a list of them, or one after another (JSON lines). Everything is doubted: an
error names file, line or key, and column, and nothing is kept of files with an error.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from inferencegym.errors import InvalidValueError
from simulator.packs.benchmarks.aiperf import is_aiperf_export, read_aiperf_csv, read_aiperf_json
from simulator.packs.benchmarks.csv_tables import MAX_ROWS, is_plain_table, read_plain_table
from simulator.packs.benchmarks.record import Record
from simulator.packs.benchmarks.vllm import is_vllm_result, read_vllm_result
from simulator.packs.importing.measurements import Collected, Measurements
from simulator.packs.schema import TIER_NAMES

__all__ = ["MAX_FILE_BYTES", "read_measurements"]

MAX_FILE_BYTES = 64 * 2**20
"""Largest file that is read: thousands of results, or one with every token's time of some thousand
requests."""

_FORMATS = (
    "a result of vllm bench serve (--save-result), an export of AIPerf or GenAI-Perf (JSON, CSV), or a CSV "
    "table with batch_size or concurrency, prompt_tokens, and tpot_ms, ttft_ms or latency_s"
)
_PER_REQUEST = "Give the summary beside it: profile_export_aiperf.json or profile_export_genai_perf.json."


def read_measurements(
    paths: Sequence[Path], tier: int = 0, tier_names: tuple[str, ...] = TIER_NAMES
) -> Measurements:
    """Read files of any known format.

    Args:
        paths: the files; all must be about one model.
        tier: index of the quantisation tier of figures that do not name theirs.
        tier_names: what tables may call the tiers.

    Raises:
        InvalidValueError: what is wrong, in which file, line or key, and column.
    """
    into = Collected()
    for path in paths:
        before = len(into.points) + len(into.left_out)
        _read_file(path, tier, tier_names, into)
        if len(into.points) + len(into.left_out) == before:
            raise InvalidValueError(path.name, "a file without results", "one result or row at least")
    if len(into.models) > 1:
        (first, first_place), (other, place) = list(into.models.items())[:2]
        raise InvalidValueError(
            f"{place}, model", other, f"{first}, the model of {first_place}", "Import one model at a time."
        )
    return Measurements(
        points=tuple(into.points),
        left_out=tuple(into.left_out),
        model=next(iter(into.models), None),
        engine=next(iter(into.engines)) if len(into.engines) == 1 else None,
        files=tuple(path.name for path in paths),
    )


def _read_file(path: Path, tier: int, tier_names: tuple[str, ...], into: Collected) -> None:
    text = _text(path)
    if text.lstrip()[:1] in ("{", "["):
        for place, document in _documents(path.name, text):
            _read_document(place, document, tier, into)
        return
    rows = _rows(path.name, text)
    header = rows[0][1]
    if header[0] == "Metric":
        read_aiperf_csv(path.name, rows, tier, into)
    elif is_plain_table(header):
        read_plain_table(path.name, rows, tier, tier_names, into)
    else:
        raise InvalidValueError(f"{path.name}: line {rows[0][0]}", ",".join(header), _FORMATS)


def _text(path: Path) -> str:
    """The whole file, which must be UTF-8, not empty and not huge."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            hint = "Save results without --save-detailed, or cut the file into parts."
            allowed = f"a file of at most {MAX_FILE_BYTES // 2**20} MiB"
            raise InvalidValueError(path.name, f"{size / 2**20:,.0f} MiB", allowed, hint)
        raw = path.read_bytes()
    except OSError as error:
        raise InvalidValueError("FILE", str(path), "a readable file", error.strerror or str(error)) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{raw[error.start]:02x}"
        raise InvalidValueError(f"{path.name}: line {line}", byte, "UTF-8 text, not compressed") from None
    if not text.strip():
        raise InvalidValueError(path.name, "an empty file", _FORMATS)
    return text


def _documents(file: str, text: str) -> Iterator[tuple[str, Any]]:
    """The JSON documents of a file, one after the other, with their places."""
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    start = _skip_space(text, 0)
    line, count = 1 + text.count("\n", 0, start), 0
    while start < len(text):
        at = f"{file}: line {line}"
        try:
            document, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            where = f"{file}: line {error.lineno}, character {error.colno}"
            raise InvalidValueError(where, text[error.pos : error.pos + 20], f"JSON: {error.msg}") from None
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, deep nesting
            raise InvalidValueError(at, str(error), "a benchmark result") from None
        following = _skip_space(text, end)
        place = file if not count and following == len(text) else at
        entries: list[Any] = cast("list[Any]", document) if isinstance(document, list) else [document]
        for index, entry in enumerate(entries):
            count += 1
            if count > MAX_ROWS:
                raise InvalidValueError(at, "more results", f"at most {MAX_ROWS:,}")
            yield (f"{place}: result [{index}]" if entries is document else place), entry
        line += text.count("\n", start, following)
        start = following


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. One with a key twice is of two runs, and Python would take the last without a word."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object with two keys {twice}")
    return values


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _read_document(place: str, document: Any, tier: int, into: Collected) -> None:
    if not isinstance(document, dict):
        raise InvalidValueError(place, document, "a JSON object")
    values = cast("dict[str, Any]", document)
    record = Record(place, "key", values)
    if is_vllm_result(values):
        read_vllm_result(record, tier, into)
    elif is_aiperf_export(values):
        read_aiperf_json(record, tier, into)
    else:
        hint = _PER_REQUEST if {"experiments", "metadata"} & {*values} else ""
        keys = ", ".join(list(values)[:6])
        raise InvalidValueError(place, f"an object with the keys {keys}", _FORMATS, hint)


def _rows(file: str, text: str) -> list[tuple[int, list[str]]]:
    """Line numbers and stripped cells of a CSV file; empty lines before the first are left out."""
    rows: list[tuple[int, list[str]]] = []
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if not rows and not any(cells):
                continue
            rows.append((reader.line_num, [cell.strip() for cell in cells]))
            if len(rows) > MAX_ROWS + 1:
                hint = "Average the points first."
                allowed = f"at most {MAX_ROWS:,} rows"
                raise InvalidValueError(f"{file}: line {reader.line_num}", "more rows", allowed, hint)
    except csv.Error as error:
        raise InvalidValueError(f"{file}: line {reader.line_num}", "this line", f"CSV: {error}") from None
    if not rows:
        raise InvalidValueError(file, "a table without cells", _FORMATS)
    return rows
