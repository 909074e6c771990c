"""Many autoscaling episodes at once, in arrays: the same numbers as
:class:`env.autoscaling.episode.AutoscalingEnv`.

Needs numba (extra ``gym``). Tests hold every observation and reward to the single environment's bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from env.autoscaling.episode import AutoscalingEnv
from env.autoscaling.reward import AutoscalingTerms, reward_terms
from inferencegym.models.autoscaling import AUTOSCALING_STEPS
from simulator.autoscaling.compiled import arrays_of, start_rows
from simulator.autoscaling.kernel import play_interval
from simulator.autoscaling.plan import INTERVAL_S, WARM_UP_INTERVALS
from simulator.autoscaling.rows import COUNT, MEASURED, RESULT, Fleets, put_plan
from simulator.kernels.compiled import compiled, inlined

__all__ = ["OBSERVATION_COLUMNS", "TERM_COLUMNS", "AutoscalingBatch"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Spread = Callable[[Callable[[int, int], None], int], None]

OBSERVATION_COLUMNS = (
    *MEASURED,
    *("replicas_ready", "replicas_pending", "replicas_draining", "replicas_warming", "replicas_target"),
    *("metrics_age_s", "metrics_missing", "update_in_progress", "step_count", "healthy_ratio"),
)
"""Columns of an array of observations: fields of AutoscalingObservation."""

TERM_COLUMNS = AutoscalingTerms._fields


class _Sheets(NamedTuple):
    """What N agents see, and what their rewards are made of."""

    observation: FloatArray
    previous: FloatArray
    terms: FloatArray
    reward: FloatArray
    healthy: npt.NDArray[np.int64]


class AutoscalingBatch:
    """``count`` episodes of one task, each with its own seed and its own clock.

    Args:
        env: says what is played (task, scenario, GPU); it is not stepped itself.
        count: episodes side by side.
    """

    def __init__(self, env: AutoscalingEnv, count: int) -> None:
        self.count = count
        self._simulator = env.simulator
        self._table, self._rules = arrays_of(env.simulator), env.simulator.rules
        self._fleets = Fleets.empty(count)
        columns = len(OBSERVATION_COLUMNS)
        self._sheets = _Sheets(
            np.zeros((count, columns)),
            np.zeros((count, columns)),
            np.zeros((count, len(TERM_COLUMNS))),
            np.zeros(count),
            np.zeros(count, dtype=np.int64),
        )

    @property
    def observation(self) -> FloatArray:
        """(N, 22), see ``OBSERVATION_COLUMNS``."""
        return self._sheets.observation

    @property
    def previous(self) -> FloatArray:
        """(N, 22): the observation one step ago; the same one right after a restart."""
        return self._sheets.previous

    @property
    def reward(self) -> FloatArray:
        """(N,): of the last step."""
        return self._sheets.reward

    @property
    def terms(self) -> FloatArray:
        """(N, 8): signed parts of the last reward, see ``TERM_COLUMNS``."""
        return self._sheets.terms

    @property
    def results(self) -> FloatArray:
        """(N, 32): what happened in the last interval, columns as in ``RESULT``."""
        return self._fleets.result

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """(N,): steps taken in each episode."""
        return self._fleets.count[:, COUNT["now"]] - WARM_UP_INTERVALS

    @property
    def terminated(self) -> BoolArray:
        """(N,): none; an episode ends by its clock."""
        return np.zeros(self.count, dtype=np.bool_)

    @property
    def truncated(self) -> BoolArray:
        """(N,): episodes that reached their length."""
        return self.steps >= AUTOSCALING_STEPS

    def restart(self, rows: Sequence[int], seeds: Sequence[int], spread: Spread) -> None:
        """Start the episodes of ``rows`` over, each with its seed."""
        chosen = np.asarray(rows, dtype=np.int64)
        initial = np.zeros(len(chosen), dtype=np.int64)
        for index, (row, seed) in enumerate(zip(rows, seeds, strict=True)):
            plan = self._simulator.plan(int(seed))
            put_plan(self._fleets, row, plan)
            initial[index] = plan.initial_replicas

        def start(low: int, high: int) -> None:
            start_rows(self._table, self._rules, self._fleets, chosen[low:high], initial[low:high])
            _restart(chosen[low:high], self._fleets, self._sheets)

        spread(start, len(chosen))

    def advance(self, low: int, high: int, knobs: FloatArray, stepped: BoolArray) -> None:
        """Serve one interval of those episodes from ``low`` to ``high - 1`` for which ``stepped`` is true.

        ``knobs`` (N, 1): 0 for scale_down, 1 for no_op, 2 for scale_up. Episodes that are over must not be
        stepped. Ranges that do not overlap may be advanced by different threads.
        """
        _advance(low, high, knobs, stepped, self._table, self._rules, self._fleets, self._sheets)


# --- compiled ----------------------------------------------------------------------------------------------

_NOW, _OLD = COUNT["now"], COUNT["old"]
_READY, _PENDING, _DRAINING = COUNT["ready"], COUNT["pending"], COUNT["draining"]
_WARMING, _TARGET = COUNT["warming"], COUNT["target"]
_LATENCY, _CPU, _ERROR_RATE = RESULT["latency"], RESULT["cpu_steady"], RESULT["error_rate"]
_PAID, _REQUIRED, _CHANGE = RESULT["replica_seconds"], RESULT["required_replicas"], RESULT["target_change"]
_REVERSAL, _HEALTHY, _OUTAGE = RESULT["reversal"], RESULT["healthy"], RESULT["outage"]
_MEASURED = len(MEASURED)


@inlined
def observe(fleets: Any, sheets: Any, i: int) -> None:
    """Write row ``i`` of the observations."""
    count, seen, source = fleets.count[i], sheets.observation[i], fleets.source[i]
    last = count[_NOW] - 1
    shown = source[last]
    for column in range(_MEASURED):
        seen[column] = fleets.history[i, shown, column]
    seen[_MEASURED] = count[_READY]
    seen[_MEASURED + 1] = count[_PENDING]
    seen[_MEASURED + 2] = count[_DRAINING]
    seen[_MEASURED + 3] = count[_WARMING]
    seen[_MEASURED + 4] = count[_TARGET]
    seen[_MEASURED + 5] = (last - shown) * INTERVAL_S
    seen[_MEASURED + 6] = 1.0 if shown == source[last - 1] else 0.0
    seen[_MEASURED + 7] = 1.0 if count[_OLD] > 0 else 0.0
    steps = count[_NOW] - WARM_UP_INTERVALS
    seen[_MEASURED + 8] = steps
    seen[_MEASURED + 9] = sheets.healthy[i] / steps if steps > 0 else 0.0


def _restart_rows(rows: Any, fleets: Any, sheets: Any) -> None:
    for i in rows:
        sheets.healthy[i] = 0
        sheets.reward[i] = 0.0
        for term in range(sheets.terms.shape[1]):
            sheets.terms[i, term] = 0.0
        observe(fleets, sheets, i)
        for column in range(sheets.previous.shape[1]):
            sheets.previous[i, column] = sheets.observation[i, column]


def _advance_rows(
    low: int, high: int, knobs: Any, stepped: Any, table: Any, rules: Any, fleets: Any, sheets: Any
) -> None:
    for i in range(low, high):
        if stepped[i]:
            play_interval(table, rules, fleets, i, int(knobs[i, 0]) - 1, 0)
            result = fleets.result[i]
            sheets.healthy[i] += int(result[_HEALTHY])
            steps = fleets.count[i, _NOW] - WARM_UP_INTERVALS
            terms = reward_terms(
                result[_LATENCY],
                result[_CPU],
                result[_ERROR_RATE],
                result[_PAID] / INTERVAL_S,
                result[_REQUIRED],
                result[_CHANGE],
                result[_REVERSAL],
                result[_HEALTHY],
                result[_OUTAGE],
                steps,
                sheets.healthy[i] / steps,
            )
            total = 0.0
            for term in range(len(terms)):
                sheets.terms[i, term] = terms[term]
                total += terms[term]
            sheets.reward[i] = total
            for column in range(sheets.previous.shape[1]):
                sheets.previous[i, column] = sheets.observation[i, column]
            observe(fleets, sheets, i)


_restart = compiled(_restart_rows, keep=True)
_advance = compiled(_advance_rows, keep=True)
