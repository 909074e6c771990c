"""Request traces from files: who asked for how much, when. CSV or JSON lines, recognised by column names.

=========  ==========================================  ================================================
format     columns                                     published by
=========  ==========================================  ================================================
azure      TIMESTAMP, ContextTokens, GeneratedTokens   AzurePublicDataset, LLM inference traces (dates)
burstgpt   Timestamp, Request tokens, Response tokens  BurstGPT (seconds)
mooncake   timestamp, input_length, output_length      Mooncake (milliseconds)
bailian    the same, chat_id, parent_chat_id           Qwen-Bailian usage traces (seconds)
plain      timestamp_s, prompt_tokens, output_tokens   anyone who writes a file for this reader
=========  ==========================================  ================================================

Other columns are not looked at; upper and lower case are one. A file is read line by line, and everything in
it is doubted: an error names file, line and column, and nothing is kept of a file with an error.
"""

from __future__ import annotations

import csv
import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

import numpy as np
import numpy.typing as npt

from inferencegym.errors import TraceFileError

__all__ = [
    "FORMATS",
    "MAX_REQUESTS",
    "TOKENS_MAX",
    "RequestTrace",
    "TraceFormat",
    "parse_trace",
    "read_trace",
]

FloatArray = npt.NDArray[np.float64]

MAX_REQUESTS = 2_000_000
"""Requests that a file may hold (48 MB in memory); more is hours of traffic beyond what episodes need."""

TOKENS_MAX = 1_000_000
"""Longest prompt or output, tokens: beyond every context window that is served today."""

MILLISECOND_S = 1e-3

_MAX_LINE_BYTES = 1_000_000
_TIME_MAX_S = 1e11
"""Largest number taken for a time, seconds: 3,000 years after 1970. Milliseconds since 1970 are above it."""


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """Column names of a published format. ``unit_s``: seconds per unit of its time; None for dates.

    ``marks`` are columns that are not read and tell the format from another with the same three.
    """

    name: str
    time: str
    prompt: str
    output: str
    unit_s: float | None
    marks: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, str, str]:
        """The three columns that are read."""
        return self.time, self.prompt, self.output

    @property
    def unit(self) -> str:
        """What its times are."""
        units = {None: "a date and time (ISO 8601)", 1.0: "seconds", MILLISECOND_S: "milliseconds"}
        return units[self.unit_s]


_PLAIN = TraceFormat("plain", "timestamp_s", "prompt_tokens", "output_tokens", 1.0)

FORMATS = (
    TraceFormat("bailian", "timestamp", "input_length", "output_length", 1.0, ("chat_id", "parent_chat_id")),
    TraceFormat("azure", "TIMESTAMP", "ContextTokens", "GeneratedTokens", None),
    TraceFormat("burstgpt", "Timestamp", "Request tokens", "Response tokens", 1.0),
    TraceFormat("mooncake", "timestamp", "input_length", "output_length", MILLISECOND_S),
    _PLAIN,
)


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """Requests in the order of their arrival. Arrays are read-only, of shape (requests,).

    ``arrival_s`` counts from the first request; ``skipped`` requests of zero length were left out. ``notes``
    are sentences about what may have been meant otherwise.
    """

    name: str
    format: str
    arrival_s: FloatArray
    prompt_tokens: FloatArray
    output_tokens: FloatArray
    skipped: int = 0
    notes: tuple[str, ...] = ()

    @property
    def requests(self) -> int:
        """Requests in the trace."""
        return len(self.arrival_s)

    @property
    def duration_s(self) -> float:
        """Seconds from the first request to the last."""
        return float(self.arrival_s[-1])

    @property
    def rate_rps(self) -> float:
        """Mean arrivals per second."""
        return self.requests / max(self.duration_s, 1.0)


def read_trace(path: str | Path, *, skip_empty: bool = False) -> RequestTrace:
    """Read a trace of any known format.

    Args:
        path: CSV or JSON lines, UTF-8, sorted by time.
        skip_empty: leave out requests without a prompt or an output token (traces log failed requests so)
            instead of refusing the file.

    Raises:
        TraceFileError: what is wrong, in which line and column.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            return _read(path.name, file, skip_empty)
    except OSError as error:
        raise TraceFileError(f"{path.name}: cannot be read: {error.strerror}.") from None


def parse_trace(text: str, *, skip_empty: bool = False) -> RequestTrace:
    """The same from a text. Raises TraceFileError that calls the file "traffic"."""
    return _read("traffic", BytesIO(text.encode()), skip_empty)


def _read(name: str, file: BinaryIO, skip_empty: bool) -> RequestTrace:
    lines = _decoded_lines(name, file)
    first = next((line for line in lines if line[1].strip()), None)
    if first is None:
        raise TraceFileError(f"{name}: the file is empty.", _KNOWN)
    source = _JsonLines if first[1].lstrip().startswith("{") else _Csv
    table = source(name, chain([first], lines))
    collector = _Collector(name, _recognise(name, first[0], table.names), skip_empty)
    for line, cells in table.rows(collector.format.columns):
        collector.add(line, *cells)
    return collector.trace()


# --- lines and cells ---------------------------------------------------------------------------------------

_Lines = Iterator[tuple[int, str]]
_Rows = Iterator[tuple[int, tuple[Any, Any, Any]]]


def _decoded_lines(name: str, file: BinaryIO) -> _Lines:
    number = 0
    while raw := file.readline(_MAX_LINE_BYTES):
        number += 1
        if len(raw) == _MAX_LINE_BYTES:
            raise TraceFileError(f"{name}: line {number} is longer than {_MAX_LINE_BYTES} bytes.")
        try:
            yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            byte = raw[error.start]
            raise TraceFileError(
                f"{name}: line {number} is not UTF-8 text (byte 0x{byte:02x} at position {error.start}).",
                "Compressed files must be unpacked first.",
            ) from None


class _Csv:
    """A table with a header line."""

    def __init__(self, name: str, lines: _Lines) -> None:
        self._name = name
        self._line = 0
        self._reader = csv.reader(self._texts(lines))
        self.names = [cell.strip() for cell in self._next() or []]

    def _texts(self, lines: _Lines) -> Iterator[str]:
        for self._line, text in lines:
            yield text

    def _next(self) -> list[str] | None:
        try:
            return next(self._reader, None)
        except csv.Error as error:
            raise TraceFileError(f"{self._name}: line {self._line} is no CSV: {error}.") from None

    def rows(self, columns: tuple[str, str, str]) -> _Rows:
        """Line number and the cells of three columns, row by row."""
        folded = [cell.casefold() for cell in self.names]
        twice = [column for column in columns if folded.count(column.casefold()) > 1]
        if twice:
            raise TraceFileError(f"{self._name}: line {self._line}: there are two columns {twice[0]}.")
        places = [folded.index(column.casefold()) for column in columns]
        time, prompt, output = places
        while (row := self._next()) is not None:
            if not any(row):
                continue
            if len(row) <= max(places):
                missing = columns[places.index(max(places))]
                raise TraceFileError(f"{self._name}: line {self._line}: column {missing} is missing.")
            if len(row) > len(folded) and any(row[len(folded) :]):
                raise TraceFileError(
                    f"{self._name}: line {self._line}: there are {len(row)} cells, in the header "
                    f"{len(folded)} columns.",
                    "A number must not be written with a comma.",
                )
            yield self._line, (row[time], row[prompt], row[output])


class _JsonLines:
    """An object a line."""

    def __init__(self, name: str, lines: _Lines) -> None:
        self._name = name
        line, text = next(lines)
        self._lines = chain([(line, text)], lines)
        self.names = list(self._object(line, text))

    def _object(self, line: int, text: str) -> dict[str, Any]:
        try:
            value: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise TraceFileError(f"{self._name}: line {line} is no JSON: {error}.") from None
        if not isinstance(value, dict):
            raise TraceFileError(f"{self._name}: line {line} is no JSON object.")
        return cast("dict[str, Any]", value)

    def rows(self, columns: tuple[str, str, str]) -> _Rows:
        """Line number and the values of three keys, line by line."""
        folded = {name.casefold(): name for name in reversed(self.names)}
        keys = tuple(folded[column.casefold()] for column in columns)
        for line, text in self._lines:
            if not text.strip():
                continue
            value = self._object(line, text)
            missing = [key for key in keys if key not in value]
            if missing:
                raise TraceFileError(f"{self._name}: line {line}: column {missing[0]} is missing.")
            yield line, (value[keys[0]], value[keys[1]], value[keys[2]])


_KNOWN = (
    "Known columns: " + "; ".join(f"{', '.join((*f.columns, *f.marks))} ({f.name})" for f in FORMATS) + "."
)


def _recognise(name: str, line: int, names: list[str]) -> TraceFormat:
    """The format whose columns are all there."""
    folded = {column.casefold() for column in names}
    formats = [f for f in FORMATS if folded.issuperset(f.marks)]
    missing = {f: [c for c in f.columns if c.casefold() not in folded] for f in formats}
    nearest = min(formats, key=lambda f: len(missing[f]))
    if not missing[nearest]:
        return nearest
    if len(missing[nearest]) < len(nearest.columns) - 1:
        raise TraceFileError(
            f"{name}: line {line}: column {missing[nearest][0]} ({nearest.name} format) is missing.", _KNOWN
        )
    shown = ", ".join(names)
    shown = shown if len(shown) <= 120 else shown[:117] + "..."
    raise TraceFileError(f"{name}: line {line}: no known columns in: {shown}.", _KNOWN)


_WHOLE = f"a whole number from 1 to {TOKENS_MAX:,}"


# --- requests ----------------------------------------------------------------------------------------------


class _Collector:
    """Checks requests one by one."""

    def __init__(self, name: str, trace_format: TraceFormat, skip_empty: bool) -> None:
        self.format = trace_format
        self._name = name
        self._skip_empty = skip_empty
        self._skipped = 0
        self._arrival, self._prompt, self._output = array("d"), array("d"), array("d")
        self._first: float | datetime | None = None
        self._fractions = 0
        self._fraction: Any = None

    def add(self, line: int, time: Any, prompt: Any, output: Any) -> None:
        """Keep a request, if it is one."""
        arrival_s = self._seconds(line, time)
        if self._arrival and arrival_s < self._arrival[-1]:
            allowed = "a time not before that of the line above; sort the file by time"
            self._refuse(line, self.format.time, time, allowed)
        prompt_tokens = self._tokens(line, self.format.prompt, prompt)
        output_tokens = self._tokens(line, self.format.output, output)
        if prompt_tokens == 0.0 or output_tokens == 0.0:
            self._skipped += 1
            return
        if len(self._arrival) == MAX_REQUESTS:
            raise TraceFileError(
                f"{self._name}: line {line}: more than {MAX_REQUESTS:,} requests.", "Cut the file into parts."
            )
        self._arrival.append(arrival_s)
        self._prompt.append(prompt_tokens)
        self._output.append(output_tokens)

    def trace(self) -> RequestTrace:
        """All requests, from time 0."""
        if not self._arrival:
            raise TraceFileError(f"{self._name}: there are no requests in the file.")
        arrival_s, prompt, output = (np.array(v) for v in (self._arrival, self._prompt, self._output))
        arrival_s -= arrival_s[0]
        for values in (arrival_s, prompt, output):
            values.setflags(write=False)
        notes = self._notes(float(arrival_s[-1]))
        return RequestTrace(self._name, self.format.name, arrival_s, prompt, output, self._skipped, notes)

    def _notes(self, duration_s: float) -> tuple[str, ...]:
        """A word where the unit of time is taken from more than the names that are read."""
        if self.format.marks:
            marks = " and ".join(self.format.marks)
            return (f"{marks} tell the {self.format.name} format: {self.format.time} is {self.format.unit}.",)
        if self.format.unit_s != MILLISECOND_S or not self._fractions:
            return ()
        note = (
            f"{self._fractions} times of column {self.format.time} have fractions, such as {self._fraction}. "
            f"The {self.format.name} format has milliseconds in whole numbers, and so they were read, which "
            f"makes {duration_s:.3g} s of traffic. Are they seconds? Then name the columns "
            f"{', '.join(_PLAIN.columns)}."
        )
        return (note,)

    def _seconds(self, line: int, cell: Any) -> float:
        """Time since the first line."""
        unit_s = self.format.unit_s
        when = _date(cell) if unit_s is None else _number(cell)
        limit = _TIME_MAX_S / (unit_s or 1.0)
        if when is None or (isinstance(when, float) and abs(when) > limit):
            unit = self.format.unit
            allowed = unit if unit_s is None else f"a number of {unit} up to {limit:g}"
            self._refuse(line, self.format.time, cell, allowed)
        first = self._first = when if self._first is None else self._first
        if isinstance(when, float) and isinstance(first, float):
            if not when.is_integer():
                self._fractions, self._fraction = self._fractions + 1, when
            return (when - first) * cast("float", unit_s)
        return self._span_s(line, cell, cast("datetime", first), cast("datetime", when))

    def _span_s(self, line: int, cell: Any, first: datetime, when: datetime) -> float:
        if (first.tzinfo is None) != (when.tzinfo is None):
            self._refuse(line, self.format.time, cell, "a UTC offset in every line or in none")
        return (when - first).total_seconds()

    def _tokens(self, line: int, column: str, cell: Any) -> float:
        tokens = _number(cell)
        if tokens is not None and tokens.is_integer() and 1.0 <= tokens <= TOKENS_MAX:
            return tokens
        if tokens == 0.0:
            if self._skip_empty:
                return 0.0
            self._refuse(line, column, cell, _WHOLE, "Pass skip_empty=True to leave such requests out.")
        return self._refuse(line, column, cell, _WHOLE)

    def _refuse(self, line: int, column: str, cell: Any, allowed: str, hint: str = "") -> NoReturn:
        shown = repr(cell)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        raise TraceFileError(
            f"{self._name}: line {line}, column {column}: {shown} is not allowed; allowed: {allowed}.", hint
        )


def _number(cell: Any) -> float | None:
    """A finite number, or None for what is none. Text counts: CSV has nothing else."""
    if isinstance(cell, bool) or not isinstance(cell, str | int | float):
        return None
    try:
        value = float(cell)
    except (ValueError, OverflowError):
        return None
    plain = not isinstance(cell, str) or (cell.isascii() and "_" not in cell)
    return value if isfinite(value) and plain else None


def _date(cell: Any) -> datetime | None:
    """A date with any number of fractional digits; those below the microsecond are cut off."""
    try:
        return datetime.fromisoformat(cell.strip())
    except (ValueError, AttributeError):
        return None
