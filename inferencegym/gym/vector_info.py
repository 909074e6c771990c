"""``infos`` of a vector environment: arrays by name, and gymnasium's ``_name`` masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from simulator.kernels.compiled import compiled

__all__ = ["InfoColumns", "InfoWriter", "add_rows"]

BoolArray = npt.NDArray[np.bool_]
Infos = dict[str, Any]
Numbers = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class InfoColumns:
    """Names of an environment's metrics and of its reward's terms.

    Attributes:
        floats: metrics that are real numbers, and their columns in the results of a batch.
        whole: metrics that are whole numbers.
        flags: metrics that are true or false.
        terms: the columns of the reward's terms.
    """

    floats: Mapping[str, int]
    whole: Mapping[str, int] = field(default_factory=dict[str, int])
    flags: Mapping[str, int] = field(default_factory=dict[str, int])
    terms: Sequence[str] = ()


class InfoWriter:
    """Makes the ``infos`` of ``count`` sub-environments that share one action mask."""

    def __init__(self, count: int, action_mask: npt.NDArray[np.int8], columns: InfoColumns) -> None:
        self.count = count
        self._columns = columns
        self._whole = {**columns.whole, **columns.flags}
        self._float_columns = np.asarray(list(columns.floats.values()), dtype=np.int64)
        self._whole_columns = np.asarray(list(self._whole.values()), dtype=np.int64)
        self._masks = np.tile(action_mask, (count, 1))

    def new_numbers(self) -> Numbers:
        """Room for the numbers of one step: (real metrics + terms, N) and (whole metrics and flags, N)."""
        return (
            np.empty((len(self._float_columns) + len(self._columns.terms), self.count)),
            np.empty((len(self._whole_columns), self.count), dtype=np.int64),
        )

    def write(self, low: int, high: int, results: Any, terms: Any, numbers: Numbers) -> None:
        """Fill columns ``low..high - 1``."""
        _write(low, high, results, terms, self._float_columns, self._whole_columns, *numbers)

    def after_step(self, numbers: Numbers, steps: Any, stepped: BoolArray) -> Infos:
        """``infos`` of the sub-environments that were stepped."""
        floats, whole = numbers
        columns = self._columns
        metrics: Infos = {name: floats[row] for row, name in enumerate(columns.floats)}
        metrics |= {name: whole[row] for row, name in enumerate(self._whole)}
        metrics |= {name: metrics[name].astype(np.bool_) for name in columns.flags}
        terms: Infos = {name: floats[len(columns.floats) + row] for row, name in enumerate(columns.terms)}
        infos: Infos = {
            "metrics": _masked(metrics, stepped),
            "reward_terms": _masked(terms, stepped),
            "timestep": steps.copy(),
            "action_mask": self._masks.copy(),
        }
        return _masked(infos, stepped)

    def after_reset(self, mask: BoolArray, seeds: npt.NDArray[np.int64]) -> Infos:
        """``infos`` of the sub-environments that were reset."""
        infos: Infos = {"seed": np.where(mask, seeds, 0), "action_mask": self._masks * mask[:, None]}
        return _masked(infos, mask)

    def only(self, infos: Infos, mask: BoolArray) -> Infos:
        """The part of ``infos`` that concerns the sub-environments of ``mask``; zeros elsewhere."""
        if not mask.any():
            return {}
        chosen: Infos = {}
        for name, value in infos.items():
            if isinstance(value, dict):
                chosen[name] = self.only(cast("Infos", value), mask)
            else:
                chosen[name] = value * mask.reshape(-1, *(1,) * (value.ndim - 1))
        return chosen


def _masked(infos: Infos, mask: BoolArray) -> Infos:
    """Each value with a mask of those that have it."""
    shared = mask.copy()
    return {**infos, **{f"_{name}": shared for name in infos}}


def add_rows(infos: Infos, more: Infos) -> Infos:
    """Both ``infos`` in one, where they concern different sub-environments (the others' numbers are 0)."""
    merged = dict(infos)
    for name, value in more.items():
        if name not in merged:
            merged[name] = value
        elif value.dtype == np.bool_:
            merged[name] = merged[name] | value
        else:
            merged[name] = merged[name] + value
    return merged


def _write_columns(
    low: int, high: int, results: Any, terms: Any, floats: Any, whole: Any, out_floats: Any, out_whole: Any
) -> None:
    for i in range(low, high):
        for row in range(len(floats)):
            out_floats[row, i] = results[i, floats[row]]
        for row in range(terms.shape[1]):
            out_floats[len(floats) + row, i] = terms[i, row]
        for row in range(len(whole)):
            out_whole[row, i] = int(results[i, whole[row]])


_write = compiled(_write_columns, keep=True)
