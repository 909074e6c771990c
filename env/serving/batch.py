"""Many serving episodes at once, in arrays: the same numbers as :class:`env.serving.episode.InferenceEnv`.

Needs numba (extra ``gym``). Tests hold every observation and reward to the single environment's bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from env.knee import knee
from env.serving.episode import InferenceEnv
from env.serving.reward import (
    COST_AT_KNEE,
    COST_KNEE,
    COST_SCALE_CENTS_PER_1K,
    COST_TOP,
    LATENCY_AT_KNEE,
    LATENCY_TOP,
    MEMORY_SLOPE_GB,
    RewardTerms,
)
from inferencegym.models.serving import LATENCY_MS_MAX
from simulator.kernels.compiled import compiled, inlined
from simulator.serving.engine import Knobs
from simulator.serving.rows import JITTER, KNOBS, MIX, PROMPT_EMA, RATE, RESULT, SECOND, Engines, Tables
from simulator.serving.traffic.vector_traffic import Traffic
from simulator.serving.vector_engine import clear_engine, serve

__all__ = ["OBSERVATION_COLUMNS", "TERM_COLUMNS", "Episodes", "ServingBatch"]

FloatArray = npt.NDArray[np.float64]
Spread = Callable[[Callable[[int, int], None], int], None]
"""Calls a function for ranges ``(low, high)`` that together cover ``range(n)``, perhaps in threads."""

OBSERVATION_COLUMNS = (
    "queue_depth",
    "mean_prompt_len",
    "arrival_rate",
    "kv_cache_occupancy",
    "ttft_p50_ms",
    "tpot_p50_ms",
    "slo_violation_rate",
    "gpu_memory_used_gb",
    "spec_accept_rate",
    "priority_distribution.interactive",
    "priority_distribution.batch",
    "priority_distribution.best_effort",
    "timestep",
    "cost_so_far",
)
"""Columns of an array of observations: the fields of ServeObservation, nested ones by their path."""

TERM_COLUMNS = RewardTerms._fields


class Episodes(NamedTuple):
    """What N agents see."""

    observation: FloatArray
    """(N, 14), see ``OBSERVATION_COLUMNS``"""
    previous: FloatArray
    """(N, 14): the observation one step ago; the same one right after a reset"""
    terms: FloatArray
    """(N, 4): signed parts of the last reward"""
    reward: FloatArray
    cost_so_far: FloatArray

    @classmethod
    def empty(cls, count: int) -> Episodes:
        """Zeros for ``count`` agents."""
        columns = len(OBSERVATION_COLUMNS)
        terms = np.zeros((count, len(TERM_COLUMNS)))
        return cls(
            np.zeros((count, columns)), np.zeros((count, columns)), terms, np.zeros(count), np.zeros(count)
        )


class ServingBatch:
    """``count`` episodes of one task, each with its own seed and its own clock.

    Args:
        env: says what is played (task, weights, workload); it is not stepped itself.
        count: episodes side by side.
    """

    def __init__(self, env: InferenceEnv, count: int) -> None:
        self.count = count
        self.episode_length = env.task.episode_length
        self.episodes = Episodes.empty(count)
        self._traffic = Traffic(env.generator)
        self._tables = Tables.of(env.engine_model)
        self._engines = Engines.empty(count, self._traffic.usual_requests(), self.episode_length + 1)
        self._defaults = np.asarray([float(value) for value in Knobs()])
        self._free = np.asarray([name not in env.masked_actions for name in KNOBS])
        function, weights = env.reward_function, env.weights
        self._weights = np.asarray(
            [
                weights.alpha,
                weights.beta,
                weights.gamma,
                weights.delta,
                function.max_tokens_per_s,
                function.ttft_slo_ms,
                function.memory_limit_gb,
            ]
        )

    @property
    def observation(self) -> FloatArray:
        """(N, 14), see ``OBSERVATION_COLUMNS``."""
        return self.episodes.observation

    @property
    def previous(self) -> FloatArray:
        """(N, 14): the observation one step ago; the same one right after a restart."""
        return self.episodes.previous

    @property
    def reward(self) -> FloatArray:
        """(N,): of the last step."""
        return self.episodes.reward

    @property
    def terms(self) -> FloatArray:
        """(N, 4): signed parts of the last reward, see ``TERM_COLUMNS``."""
        return self.episodes.terms

    @property
    def terminated(self) -> npt.NDArray[np.bool_]:
        """(N,): none; an episode ends by its clock."""
        return np.zeros(self.count, dtype=np.bool_)

    @property
    def truncated(self) -> npt.NDArray[np.bool_]:
        """(N,): episodes that reached their length."""
        return self.steps >= self.episode_length

    @property
    def results(self) -> FloatArray:
        """(N, 18): the last second of each engine, columns as in ``simulator.serving.rows.RESULT``."""
        return self._engines.results

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """(N,): steps taken in each episode; -1 before the first start."""
        return self._engines.clock[:, SECOND] - 1

    def restart(self, rows: Sequence[int], seeds: Sequence[int], spread: Spread) -> None:
        """Start the episodes of ``rows`` over, each with its seed."""
        chosen, wanted = np.asarray(rows, dtype=np.int64), np.asarray(seeds, dtype=np.int64)
        missing: list[int] = []

        def draw(low: int, high: int) -> None:
            missing.append(self._traffic.draw(self._engines, chosen[low:high], wanted[low:high]))

        def start(low: int, high: int) -> None:
            _restart(chosen[low:high], self._defaults, self._tables, self._engines, self.episodes)

        spread(draw, len(rows))
        if max(missing) > 0:
            self._engines = self._engines.with_capacity(int(1.25 * max(missing)))
            spread(draw, len(rows))
        spread(start, len(rows))

    def advance(self, low: int, high: int, knobs: FloatArray, stepped: npt.NDArray[np.bool_]) -> None:
        """Serve one second of those episodes from ``low`` to ``high - 1`` for which ``stepped`` is true.

        ``knobs`` (N, 5) must be valid; columns that the task locks are set to their defaults. Episodes that
        are over must not be stepped. Ranges that do not overlap may be advanced by different threads.
        """
        _advance(
            low,
            high,
            knobs,
            stepped,
            self._free,
            self._defaults,
            self._tables,
            self._engines,
            self._weights,
            self.episodes,
        )


# --- compiled ----------------------------------------------------------------------------------------------

_TTFT_P50, _TTFT_P99, _TPOT = RESULT["ttft_p50_ms"], RESULT["ttft_p99_ms"], RESULT["tpot_ms"]
_TOKENS, _MEMORY, _COST = RESULT["tokens_per_s"], RESULT["memory_gb"], RESULT["cost_per_1k"]
_VIOLATION_RATE, _QUEUE, _KV = RESULT["violation_rate"], RESULT["queue_depth"], RESULT["kv_occupancy"]
_ACCEPT = RESULT["accept_rate"]
_COST_UNIT = COST_SCALE_CENTS_PER_1K * COST_KNEE


@inlined
def play_second(tables: Any, engines: Any, i: int, knobs: Any) -> None:
    """Serve a second and put its measurement jitter on the latencies."""
    serve(tables, engines, i, knobs[0], int(knobs[1]), int(knobs[2]), knobs[3] != 0.0, int(knobs[4]))
    result = engines.results[i]
    jitter = engines.signals[i, engines.clock[i, SECOND] - 1]
    median = result[_TTFT_P50] * jitter[JITTER]
    result[_TTFT_P50] = median
    result[_TTFT_P99] = max(median, result[_TTFT_P99] * jitter[JITTER + 1])
    result[_TPOT] = min(result[_TPOT] * jitter[JITTER + 2], LATENCY_MS_MAX)


@inlined
def observe(engines: Any, i: int, episodes: Any) -> None:
    """Write row ``i`` of the observations."""
    now = engines.clock[i, SECOND] - 1
    result, signals, seen = engines.results[i], engines.signals[i, now], episodes.observation[i]
    seen[0] = result[_QUEUE]
    seen[1] = signals[PROMPT_EMA]
    seen[2] = signals[RATE]
    seen[3] = result[_KV]
    seen[4] = result[_TTFT_P50]
    seen[5] = result[_TPOT]
    seen[6] = result[_VIOLATION_RATE]
    seen[7] = result[_MEMORY]
    seen[8] = result[_ACCEPT]
    seen[9] = signals[MIX]
    seen[10] = signals[MIX + 1]
    seen[11] = signals[MIX + 2]
    seen[12] = now
    seen[13] = episodes.cost_so_far[i]


@inlined
def weigh(result: Any, weights: Any, terms: Any) -> float:
    """See ``RewardFunction``."""
    throughput = min(1.0, result[_TOKENS] / weights[4])
    excess_gb = max(0.0, result[_MEMORY] - weights[6])
    violations = min(1.0, result[_VIOLATION_RATE] + excess_gb / MEMORY_SLOPE_GB)
    latency = knee(result[_TTFT_P50] / weights[5], LATENCY_AT_KNEE, LATENCY_TOP)
    terms[0] = weights[0] * throughput
    terms[1] = -weights[1] * latency
    terms[2] = -weights[2] * violations
    terms[3] = -weights[3] * knee(result[_COST] / _COST_UNIT, COST_AT_KNEE, COST_TOP)
    return terms[0] + terms[1] + terms[2] + terms[3]


def _restart_rows(rows: Any, defaults: Any, tables: Any, engines: Any, episodes: Any) -> None:
    for i in rows:
        clear_engine(engines, i)
        play_second(tables, engines, i, defaults)
        episodes.cost_so_far[i] = 0.0
        episodes.reward[i] = 0.0
        for term in range(episodes.terms.shape[1]):
            episodes.terms[i, term] = 0.0
        observe(engines, i, episodes)
        for column in range(episodes.previous.shape[1]):
            episodes.previous[i, column] = episodes.observation[i, column]


def _advance_rows(
    low: int,
    high: int,
    knobs: Any,
    stepped: Any,
    free: Any,
    defaults: Any,
    tables: Any,
    engines: Any,
    weights: Any,
    episodes: Any,
) -> None:
    for i in range(low, high):
        if stepped[i]:
            for knob in range(len(free)):
                if not free[knob]:
                    knobs[i, knob] = defaults[knob]
            play_second(tables, engines, i, knobs[i])
            episodes.cost_so_far[i] += engines.results[i, _COST]
            episodes.reward[i] = weigh(engines.results[i], weights, episodes.terms[i])
            for column in range(episodes.previous.shape[1]):
                episodes.previous[i, column] = episodes.observation[i, column]
            observe(engines, i, episodes)


_restart = compiled(_restart_rows, keep=True)
_advance = compiled(_advance_rows, keep=True)
