"""``infos`` of the serving vector environment: arrays by name, and gymnasium's ``_name`` masks."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from env.serving_batch import TERM_COLUMNS
from simulator.compiled import compiled
from simulator.vector_state import RESULT

__all__ = ["InfoWriter", "add_rows"]

BoolArray = npt.NDArray[np.bool_]
Infos = dict[str, Any]
Numbers = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]

_FLOATS = {
    "ttft_p50_ms": "ttft_p50_ms",
    "ttft_p99_ms": "ttft_p99_ms",
    "tpot_ms": "tpot_ms",
    "tokens_per_sec": "tokens_per_s",
    "gpu_memory_gb": "memory_gb",
    "cost_per_1k": "cost_per_1k",
    "spec_accept_rate": "accept_rate",
    "slo_violation_rate": "violation_rate",
}
_WHOLE = {"eviction_events": "evictions", "slo_violations": "violations", "oom": "oom"}
"""Metrics of the single environment, and their columns in the results."""

_FLOAT_COLUMNS = np.asarray([RESULT[column] for column in _FLOATS.values()])
_WHOLE_COLUMNS = np.asarray([RESULT[column] for column in _WHOLE.values()])


class InfoWriter:
    """Makes the ``infos`` of ``count`` sub-environments that share one action mask."""

    def __init__(self, count: int, action_mask: npt.NDArray[np.int8]) -> None:
        self.count = count
        self._masks = np.tile(action_mask, (count, 1))

    def new_numbers(self) -> Numbers:
        """Room for the numbers of one step: (8 metrics + 4 reward terms, N) and (3 metrics, N)."""
        return (
            np.empty((len(_FLOATS) + len(TERM_COLUMNS), self.count)),
            np.empty((len(_WHOLE), self.count), dtype=np.int64),
        )

    def write(self, low: int, high: int, results: Any, terms: Any, numbers: Numbers) -> None:
        """Fill columns ``low..high - 1``."""
        _write(low, high, results, terms, _FLOAT_COLUMNS, _WHOLE_COLUMNS, *numbers)

    def after_step(self, numbers: Numbers, steps: Any, stepped: BoolArray) -> Infos:
        """``infos`` of the sub-environments that were stepped."""
        floats, whole = numbers
        metrics: Infos = {name: floats[row] for row, name in enumerate(_FLOATS)}
        metrics |= {name: whole[row] for row, name in enumerate(_WHOLE)}
        metrics["oom"] = metrics["oom"].astype(np.bool_)
        terms: Infos = {name: floats[len(_FLOATS) + row] for row, name in enumerate(TERM_COLUMNS)}
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
