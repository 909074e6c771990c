"""A codec for many rows at once: compiled copies of what :mod:`inferencegym.gym.codec` does for one.

A choice among names is handed on as its place among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from inferencegym.errors import InvalidValueError
from inferencegym.gym.codec import ActionMode, GymCodec, encode_row, feature_columns
from inferencegym.gym.knobs import Knob, unit_of
from simulator.kernels.compiled import compiled

__all__ = ["VectorCodec"]

FloatArray = npt.NDArray[np.float64]

_FLAT, _LEVELS, _NATURAL = range(3)
_KINDS = {"real": 0, "whole": 1, "choice": 2}
_REAL, _WHOLE, _CHOICE = range(3)


class _Features(NamedTuple):
    """Arguments of ``encode_row`` as arrays."""

    scale: npt.NDArray[np.int64]
    source: npt.NDArray[np.int64]
    low: FloatArray
    factor: FloatArray
    norm: FloatArray


class _Knobs(NamedTuple):
    """The table of knobs as arrays; rows of ``levels`` and ``edges`` are as long as the longest."""

    kind: npt.NDArray[np.int64]
    low: FloatArray
    high: FloatArray
    levels: FloatArray
    level_count: npt.NDArray[np.int64]
    edges: FloatArray
    edge_count: npt.NDArray[np.int64]


class VectorCodec:
    """Rows of numbers to observation vectors, and batches of actions to rows of knobs.

    Args:
        codec: the environment's codec.
        columns: path of each column of the rows that are encoded.
    """

    def __init__(self, codec: GymCodec, columns: Sequence[str]) -> None:
        self.codec = codec
        scale, source, low, factor, norm = feature_columns(codec.features, columns)
        self._features = _Features(
            np.asarray(scale, dtype=np.int64),
            np.asarray(source, dtype=np.int64),
            np.asarray(low),
            np.asarray(factor),
            np.asarray(norm),
        )
        knobs = codec.knobs
        self._knobs = _Knobs(
            np.asarray([_KINDS[knob.kind] for knob in knobs], dtype=np.int64),
            np.asarray([knob.low for knob in knobs], dtype=np.float64),
            np.asarray([knob.high for knob in knobs], dtype=np.float64),
            _table([_numbers(knob) for knob in knobs]),
            np.asarray([len(knob.levels) for knob in knobs], dtype=np.int64),
            _table([list(knob.edges) for knob in knobs]),
            np.asarray([len(knob.edges) for knob in knobs], dtype=np.int64),
        )

    def rows_of(self, mode: ActionMode, actions: Any, count: int) -> FloatArray:
        """A batch of actions as an array (N, knobs) that :meth:`decode` takes, checked.

        Raises:
            InvalidValueError: the wrong shape, or an entry that the space does not have (flat entries beyond
                [-1, 1] are held at it).
        """
        if mode == "dict":
            return self._from_dict(actions, count)
        rows = _real_numbers("actions", actions, "an array of numbers")
        if rows.shape != (count, len(self.codec.knobs)):
            raise InvalidValueError(
                "actions", f"shape {rows.shape}", f"shape {(count, len(self.codec.knobs))}"
            )
        if mode == "flat":
            fine = np.isfinite(rows)
            allowed = "a number in [-1, 1]"
        else:
            fine = (rows >= 0) & (rows < self._knobs.level_count) & (rows == np.floor(rows))
            allowed = "a level of the grid"
        if not fine.all():
            row, column = divmod(int(np.flatnonzero(~fine)[0]), len(self.codec.knobs))
            name = self.codec.knobs[column].name
            raise InvalidValueError(f"actions[{row}].{name}", float(rows[row, column]), allowed)
        return rows

    def _from_dict(self, actions: Any, count: int) -> FloatArray:
        _check_names(actions, [knob.name for knob in self.codec.knobs])
        rows = np.empty((count, len(self.codec.knobs)))
        for index, knob in enumerate(self.codec.knobs):
            field = f"actions.{knob.name}"
            values = _real_numbers(field, actions[knob.name], f"{count} numbers")
            if values.size != count:
                raise InvalidValueError(field, f"{values.size} numbers", f"{count} numbers")
            values = values.reshape(count)
            low, high = _range(knob)
            fine = (values >= low) & (values <= high)
            if knob.kind != "real":
                fine &= values == np.floor(values)
            if not fine.all():
                row = int(np.flatnonzero(~fine)[0])
                raise InvalidValueError(f"actions[{row}].{knob.name}", float(values[row]), str(knob.space()))
            if knob.kind == "choice":
                values = self._knobs.levels[index, values.astype(np.int64)]
            rows[:, index] = np.clip(values, knob.low, knob.high) if knob.kind == "real" else values
        return rows

    def decode(self, low: int, high: int, mode: ActionMode, rows: FloatArray) -> None:
        """Replace rows ``low..high - 1`` of checked actions by the knobs that they stand for."""
        if mode != "dict":
            _decode(low, high, _FLAT if mode == "flat" else _LEVELS, rows, self._knobs)

    def encode(self, low: int, high: int, values: FloatArray, previous: FloatArray, out: Any) -> None:
        """Fill rows ``low..high - 1`` of ``out`` (N, features), float32."""
        _encode(low, high, values, previous, self._features, out)


def _check_names(actions: Any, names: Sequence[str]) -> None:
    """Exactly one entry a knob."""
    allowed = f"a mapping with exactly {', '.join(names)}"
    if not isinstance(actions, Mapping):
        raise InvalidValueError("actions", actions, allowed)
    given = cast("Mapping[Any, Any]", actions)
    for name in (*given, *names):
        if name not in names or name not in given:
            raise InvalidValueError(f"actions.{name}", given.get(name), allowed)


def _real_numbers(field: str, values: Any, allowed: str) -> FloatArray:
    """A copy as float64. Neither texts nor complex numbers are taken for real ones."""
    try:
        array: npt.NDArray[Any] = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(field, values, allowed) from error
    if array.dtype.kind not in "biuf":
        raise InvalidValueError(field, values, allowed)
    return array.astype(np.float64)


def _numbers(knob: Knob) -> list[float]:
    """Levels as numbers; of a choice among names, their places."""
    if any(isinstance(level, str) for level in knob.levels):
        return [float(place) for place in range(len(knob.levels))]
    return [float(level) for level in knob.levels]


def _range(knob: Knob) -> tuple[float, float]:
    """Bounds of a knob: the exact ones, and what float32 makes of them (0.1 becomes a little more)."""
    if knob.kind == "real":
        return min(knob.low, float(np.float32(knob.low))), max(knob.high, float(np.float32(knob.high)))
    return (knob.low, knob.high) if knob.kind == "whole" else (0.0, len(knob.levels) - 1.0)


def _table(rows: Sequence[Sequence[float]]) -> FloatArray:
    table = np.zeros((len(rows), max(1, *(len(row) for row in rows))))
    for index, row in enumerate(rows):
        table[index, : len(row)] = row
    return table


# --- compiled ----------------------------------------------------------------------------------------------


def _decode_rows(low: int, high: int, mode: int, rows: Any, knobs: Any) -> None:
    for i in range(low, high):
        for knob in range(rows.shape[1]):
            entry = rows[i, knob]
            kind = knobs.kind[knob]
            if mode == _LEVELS:
                rows[i, knob] = knobs.levels[knob, int(entry)]
            elif kind == _REAL:
                span = knobs.high[knob] - knobs.low[knob]
                rows[i, knob] = min(knobs.low[knob] + unit_of(entry) * span, knobs.high[knob])
            elif kind == _WHOLE:
                below = count_below(knobs.edges[knob], knobs.edge_count[knob], unit_of(entry))
                rows[i, knob] = knobs.low[knob] + below
            else:
                count = knobs.level_count[knob]
                rows[i, knob] = knobs.levels[knob, min(int(unit_of(entry) * count), count - 1)]


def count_below(edges: Any, count: int, value: float) -> int:
    """``bisect_right``."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if value < edges[middle]:
            high = middle
        else:
            low = middle + 1
    return low


def _encode_rows(low: int, high: int, values: Any, previous: Any, features: Any, out: Any) -> None:
    for i in range(low, high):
        encode_row(
            values[i],
            previous[i],
            features.scale,
            features.source,
            features.low,
            features.factor,
            features.norm,
            out[i],
        )


_decode = compiled(_decode_rows, keep=True)
_encode = compiled(_encode_rows, keep=True)
