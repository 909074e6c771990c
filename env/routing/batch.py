"""Many routing streams at once, in arrays: the same numbers as :class:`env.routing.episode.RoutingEnv`.

Needs numba (extra ``gym``). The rules are those of :mod:`simulator.routing.kernel`, compiled; tests hold
every observation and reward to the single environment's bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from env.routing.episode import RoutingEnv
from env.routing.stream import TERMS, seen_up
from env.routing.tasks import get_task
from simulator.kernels.compiled import compiled
from simulator.routing.cache import nearest_cached
from simulator.routing.grid import HORIZON_H
from simulator.routing.kernel import (
    LOAD_START,
    MODELS,
    Outcome,
    Query,
    State,
    answer,
    commit,
    load_of,
    queued,
)
from simulator.routing.stream import STREAM_HOURS, draw_stream

__all__ = ["METRIC_COLUMNS", "OBSERVATION_COLUMNS", "RoutingBatch"]

FloatArray = npt.NDArray[np.float64]
Spread = Callable[[Callable[[int, int], None], int], None]

OBSERVATION_COLUMNS = (
    "category_accuracy.small",
    "category_accuracy.medium",
    "category_accuracy.large",
    "difficulty_estimate",
    "answer_tokens_estimate",
    "deadline_h",
    "hour",
    "carbon_intensity",
    "carbon_if_wait",
    "wait_h",
    "waiting",
    "cache_similarity",
    "cache_age_h",
    "kb_available",
    "kb_age_h",
    "model_load.small",
    "model_load.medium",
    "model_load.large",
    "models_up.small",
    "models_up.medium",
    "models_up.large",
    "queries_left",
)
"""Columns of an array of observations: the numbers of RoutingObservation, nested ones by their path."""

METRIC_COLUMNS = {
    "correct": 18,
    "energy_wh": 1,
    "co2_g": 2,
    "latency_s": 3,
    "late": 4,
    "cache_hit": 5,
    "cache_wrong": 6,
    "kb_used": 7,
    "timeouts": 8,
    "may_wait": 22,
    "start_hour": 23,
}
"""Columns of ``results``: an outcome, and what else the metrics tell."""
_RESULTS = len(Outcome) + 2


class RoutingBatch:
    """``count`` streams of one task, each with its own seed and its own clock.

    Args:
        env: says what is played (task, region, start hour); it is not stepped itself.
        count: episodes side by side.
    """

    def __init__(self, env: RoutingEnv, count: int) -> None:
        config = get_task(env.task.id).stream
        assert config is not None, "classic games are played by single environments"
        self.count = count
        self.episode_length = config.queries
        self._config, self._place = config, env.config
        self._queries = np.zeros((count, config.queries, len(Query)))
        self._hours = np.zeros((count, HORIZON_H, 1 + MODELS))
        self._down = np.zeros((count, 4 * HORIZON_H, MODELS))
        self._held = np.zeros((count, HORIZON_H))
        self._cached_h = np.full((count, config.topics), -1.0)
        self._cached_right = np.zeros((count, config.topics))
        self._state = np.zeros((count, len(State)))
        self._start_hour = np.zeros(count)
        self.steps: npt.NDArray[np.int64] = np.zeros(count, dtype=np.int64)
        self.observation = np.zeros((count, len(OBSERVATION_COLUMNS)))
        self.previous = np.zeros_like(self.observation)
        self.reward = np.zeros(count)
        self.terms = np.zeros((count, len(TERMS)))
        self.results = np.zeros((count, _RESULTS))

    @property
    def terminated(self) -> npt.NDArray[np.bool_]:
        """(N,): streams whose last query is decided."""
        return self.steps >= self.episode_length

    @property
    def truncated(self) -> npt.NDArray[np.bool_]:
        """(N,): none; a stream ends with its last query."""
        return np.zeros(self.count, dtype=np.bool_)

    def restart(self, rows: Sequence[int], seeds: Sequence[int], spread: Spread) -> None:
        """Start the episodes of ``rows`` over, each with its seed."""
        for row, seed in zip(rows, seeds, strict=True):
            rng = np.random.default_rng(seed)
            stream = draw_stream(self._config, rng, self._place.region, self._place.start_hour)
            self._queries[row] = stream.queries
            self._hours[row] = stream.hours
            self._down[row] = stream.down
            self._start_hour[row] = stream.start_hour
        chosen = np.asarray(rows, dtype=np.int64)
        self._held[chosen] = 0.0
        self._cached_h[chosen] = -1.0
        self._cached_right[chosen] = 0.0
        self._state[chosen] = [LOAD_START] * MODELS + [-1.0] * MODELS + [0.0]
        self.steps[chosen] = 0
        self.reward[chosen] = 0.0
        self.terms[chosen] = 0.0
        _observe_rows(chosen, *self._world, self.observation)
        self.previous[chosen] = self.observation[chosen]

    def advance(self, low: int, high: int, knobs: FloatArray, stepped: npt.NDArray[np.bool_]) -> None:
        """Decide one query of those episodes from ``low`` to ``high - 1`` for which ``stepped`` is true."""
        own = self._cached_right, self.observation, self.previous, self.reward, self.terms, self.results
        _advance_rows(low, high, knobs, stepped, self._config.cache_capacity, *self._world, *own)

    @property
    def _world(self) -> tuple[Any, ...]:
        return (
            self._queries,
            self._hours,
            self._down,
            self._held,
            self._cached_h,
            self._state,
            self._start_hour,
            self.steps,
        )


# --- compiled ----------------------------------------------------------------------------------------------


def observe(
    query: Any, hours: Any, down: Any, held: Any, cached_h: Any, state: Any, start: float, left: int, out: Any
) -> None:
    """The numbers of ``StreamPlay.observe``."""
    now = query[0]
    near = nearest_cached(query, cached_h)
    for model in range(MODELS):
        out[model] = query[4 + model]
        out[15 + model] = load_of(model, hours[int(now)], state[model], 0.0)
        out[18 + model] = 1.0 if seen_up(model, now, down, state) else 0.0
    out[3] = query[19]
    out[4] = query[20]
    out[5] = query[8]
    out[6] = (start + now) % STREAM_HOURS
    out[7] = query[22]
    out[8] = query[23]
    out[9] = int(now) + query[9] - now
    out[10] = queued(held, int(now) + int(query[9]))
    out[11] = 0.0
    out[12] = 0.0
    if near >= 0:
        out[11] = query[10] if near == int(query[1]) else query[11]
        out[12] = now - cached_h[near]
    out[13] = query[21]
    out[14] = now - query[16]
    out[21] = left


def _observe_all(
    rows: Any,
    queries: Any,
    hours: Any,
    down: Any,
    held: Any,
    cached_h: Any,
    state: Any,
    start: Any,
    steps: Any,
    observation: Any,
) -> None:
    for i in rows:
        left = queries.shape[1] - steps[i]
        query = queries[i, min(steps[i], queries.shape[1] - 1)]
        observe(query, hours[i], down[i], held[i], cached_h[i], state[i], start[i], left, observation[i])


def _advance_all(
    low: int,
    high: int,
    knobs: Any,
    stepped: Any,
    capacity: int,
    queries: Any,
    hours: Any,
    down: Any,
    held: Any,
    cached_h: Any,
    state: Any,
    start: Any,
    steps: Any,
    cached_right: Any,
    observation: Any,
    previous: Any,
    reward: Any,
    terms: Any,
    results: Any,
) -> None:
    last = queries.shape[1] - 1
    for i in range(low, high):
        if stepped[i]:
            query, out = queries[i, steps[i]], results[i]
            answer(
                query,
                hours[i],
                down[i],
                held[i],
                cached_h[i],
                cached_right[i],
                state[i],
                int(knobs[i, 0]),
                int(knobs[i, 1]),
                knobs[i, 2] != 0.0,
                out,
            )
            commit(query, held[i], cached_h[i], cached_right[i], state[i], capacity, out)
            out[22] = 1.0 if query[8] > 0.0 else 0.0
            out[23] = start[i]
            steps[i] += 1
            reward[i] = out[21]
            for term in range(3):
                terms[i, term] = out[18 + term]
            for column in range(observation.shape[1]):
                previous[i, column] = observation[i, column]
            query = queries[i, min(steps[i], last)]
            left = last + 1 - steps[i]
            observe(query, hours[i], down[i], held[i], cached_h[i], state[i], start[i], left, observation[i])


_observe_rows: Any = compiled(_observe_all, keep=True)
_advance_rows: Any = compiled(_advance_all, keep=True)
