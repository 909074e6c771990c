"""Traffic drawn straight into the arrays of :class:`simulator.serving.rows.Engines`, in machine code.

The same numbers as :meth:`simulator.serving.traffic.workload.WorkloadGenerator.episode` draws for the same
seed, in a third of its time and without the interpreter lock. The generator itself draws instead

- when the two disagree on a first episode, as another NumPy might make them;
- when it is of another class, which only itself knows how to draw;
- for an episode with a lognormal length within 1e-6 of the middle between two whole numbers: exponentials of
  NumPy and of machine code may differ in the last place.
"""

from __future__ import annotations

from math import exp, floor
from typing import Any

import numpy as np
import numpy.typing as npt

from inferencegym.models.serving import PROMPT_TOKENS_MAX, PROMPT_TOKENS_MIN
from simulator.kernels.compiled import compiled
from simulator.kernels.random import STATE_SIZE, Ziggurat, bounded, normal, poisson, seed_state, uniform
from simulator.serving.rows import (
    ARRIVAL,
    JITTER,
    MIX,
    OUTPUT,
    PRIORITY,
    PROMPT,
    PROMPT_EMA,
    RATE,
    SHARE,
    Engines,
)
from simulator.serving.traffic.config import LengthConfig
from simulator.serving.traffic.workload import (
    EMA_STEPS,
    JITTER_SIGMA,
    MIX_WINDOW_STEPS,
    EpisodeTraffic,
    WorkloadGenerator,
)

__all__ = ["Traffic", "copy_traffic"]

IntArray = npt.NDArray[np.int64]

_DOUBT = 1e-6
_UNIFORM, _LOGNORMAL = 0.0, 1.0
_USUAL_REQUESTS = 1024
_UNSURE = -1


class Traffic:
    """Fills engines with the episodes of a workload.

    Args:
        generator: the workload.
    """

    def __init__(self, generator: WorkloadGenerator) -> None:
        self.generator = generator
        config, arrivals = generator.config, generator.config.arrivals
        self._arrivals = np.asarray(
            [
                arrivals.rate_rps,
                arrivals.burst_rps,
                arrivals.burst_s,
                arrivals.period_s,
                *arrivals.first_burst_s,
                config.replicas,
                generator.mean_prompt_tokens(),
                config.long_prompts is not None,
            ],
            dtype=np.float64,
        )
        long = config.long_prompts or config.prompts
        self._lengths = np.asarray([_law(config.prompts), _law(long), _law(config.outputs)])
        self._classes = np.asarray(
            [np.cumsum(config.class_mix), config.class_mix, config.long_share_by_class], dtype=np.float64
        )
        self._tables: Ziggurat | None = None
        if type(generator) is WorkloadGenerator:
            self._tables = self._agreeing_tables()

    def usual_requests(self) -> int:
        """Room that nearly every episode fits into: ten standard deviations above the mean."""
        if type(self.generator) is not WorkloadGenerator:
            return _USUAL_REQUESTS
        low, high = self.generator.config.arrivals.first_burst_s
        starts = range(low, min(high, low + self.generator.steps) + 1)
        mean = max(float(self.generator.rates_from(start)[0].sum()) for start in starts)
        return int((mean + 10.0 * mean**0.5) / self.generator.config.replicas) + 16

    def draw(self, engines: Engines, rows: IntArray, seeds: IntArray) -> int:
        """Fill ``rows`` with the episodes of ``seeds``.

        Returns the capacity that was missing: 0, or the requests of the longest episode that does not fit;
        its row is then not usable. Calls for different rows may run in different threads.
        """
        answers = np.full(len(rows), _UNSURE, dtype=np.int64)
        if self._tables is not None:
            _draw_rows(
                rows,
                seeds,
                self._arrivals,
                self._lengths,
                self._classes,
                self._tables,
                engines.requests,
                engines.ids,
                engines.first_request,
                engines.signals,
                answers,
            )
        for index in np.flatnonzero(answers == _UNSURE):
            episode = self.generator.episode(np.random.default_rng(int(seeds[index])))
            answers[index] = copy_traffic(engines, int(rows[index]), episode)
        return int(answers.max())

    def _agreeing_tables(self) -> Ziggurat | None:
        """Tables for the compiled draws, if those give what the generator gives for seed 0."""
        try:
            self._tables = Ziggurat.load()
        except ImportError:
            return None
        episode = self.generator.episode(np.random.default_rng(0))
        ours, theirs = (Engines.empty(1, len(episode.arrival), self.generator.steps + 1) for _ in range(2))
        self.draw(ours, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
        copy_traffic(theirs, 0, episode)
        return self._tables if all(map(np.array_equal, ours, theirs)) else None


def copy_traffic(engines: Engines, i: int, episode: EpisodeTraffic) -> int:
    """Put an episode into row ``i``. Returns 0, or its number of requests when they do not fit."""
    total, requests, signals = len(episode.arrival), engines.requests[i], engines.signals[i]
    if total > engines.capacity:
        return total
    requests[ARRIVAL, :total] = episode.arrival
    requests[PROMPT, :total] = episode.prompt
    requests[OUTPUT, :total] = episode.output
    requests[SHARE, :total] = episode.iteration_share
    engines.ids[i, PRIORITY, :total] = episode.priority
    engines.first_request[i] = episode.first_request
    signals[:, RATE] = episode.rate_ema_rps
    signals[:, PROMPT_EMA] = episode.prompt_ema_tokens
    signals[:, MIX : MIX + 3] = episode.mix
    signals[:, JITTER : JITTER + 3] = episode.jitter
    return 0


def _law(config: LengthConfig) -> tuple[float, float, float, float, float]:
    """A length distribution as numbers."""
    kind = _UNIFORM if config.kind == "uniform" else _LOGNORMAL
    return (kind, config.low, config.high, config.mu, config.sigma)


# --- compiled: the steps of WorkloadGenerator.episode, in its order of draws --------------------------------

# Entries of the array of arrivals.
_RPS, _BURST_RPS, _BURST_S, _PERIOD_S, _FIRST_LOW, _FIRST_HIGH, _REPLICAS, _MEAN_PROMPT, _HAS_LONG = range(9)


def fill_counts(rng: Any, arrivals: Any, first: Any, signals: Any) -> int:
    """First request of every second, and the EMA of the service's arrivals. Returns how many requests."""
    burst_s, period_s, replicas = int(arrivals[_BURST_S]), int(arrivals[_PERIOD_S]), int(arrivals[_REPLICAS])
    start = bounded(rng, int(arrivals[_FIRST_LOW]), int(arrivals[_FIRST_HIGH]))
    seconds = signals.shape[0]
    for second in range(seconds):
        bursting = burst_s > 0 and second >= start and (second - start) % period_s < burst_s
        # For the moment the service's arrivals, not yet this engine's.
        first[second + 1] = poisson(rng, arrivals[_BURST_RPS] if bursting else arrivals[_RPS])
    seen = bounded(rng, 0, replicas - 1)
    weight = 2.0 / (EMA_STEPS + 1)
    level = float(first[1])
    first[0] = 0
    for second in range(seconds):
        count = first[second + 1]
        level += weight * (count - level)
        signals[second, RATE] = level
        seen += count
        first[second + 1] = seen // replicas
    return first[seconds]


def fill_arrivals(rng: Any, first: Any, drawn: Any, arrival: Any) -> None:
    """Arrival times: uniform within their second, sorted. ``drawn`` is room to work in.

    Sorted by counting for each how many come before it: without branches to guess, twice as fast as swapping
    for the some ten arrivals of a second.
    """
    for second in range(len(first) - 1):
        begin, count = first[second], first[second + 1] - first[second]
        values, ordered = drawn[begin : begin + count], arrival[begin : begin + count]
        for item in range(count):
            values[item] = second + uniform(rng)
        for item in range(count):
            value, place = values[item], 0
            for other in range(item):
                place += 1 if values[other] <= value else 0
            for other in range(item + 1, count):
                place += 1 if values[other] < value else 0
            ordered[place] = value


def fill_lengths(rng: Any, total: int, law: Any, tables: Any, values: Any) -> bool:
    """Lengths in whole tokens. Returns False when one is in doubt."""
    low, high = law[1], law[2]
    sure = True
    for item in range(total):
        if law[0] == _UNIFORM:
            values[item] = bounded(rng, int(low), int(high))
        else:
            length = exp(law[3] + law[4] * normal(rng, tables))
            below = floor(length)
            if abs(length - below - 0.5) < _DOUBT:
                sure = False
            values[item] = min(max(below if length - below < 0.5 else below + 1.0, low), high)
    return sure


def fill_signals(first: Any, prompt: Any, priority: Any, mix: Any, mean: float, signals: Any) -> None:
    """EMA of prompt lengths and shares of the classes, per second."""
    weight, level = 2.0 / (EMA_STEPS + 1), mean
    ones, twos = 0, 0
    for second in range(signals.shape[0]):
        begin, end = first[second], first[second + 1]
        total = 0.0
        for item in range(begin, end):
            total += prompt[item]
        if end > begin:
            level += weight * (total / (end - begin) - level)
        signals[second, PROMPT_EMA] = min(max(level, PROMPT_TOKENS_MIN), PROMPT_TOKENS_MAX)
        for item in range(begin, end):
            ones += priority[item] & 1
            twos += priority[item] >> 1
        oldest = first[max(second + 1 - MIX_WINDOW_STEPS, 0)]
        for item in range(first[max(second - MIX_WINDOW_STEPS, 0)], oldest):
            ones -= priority[item] & 1
            twos -= priority[item] >> 1
        seen = end - oldest
        signals[second, MIX] = (seen - ones - twos) / seen if seen > 0 else mix[0]
        signals[second, MIX + 1] = ones / seen if seen > 0 else mix[1]
        signals[second, MIX + 2] = twos / seen if seen > 0 else mix[2]


def draw_one(
    rng: Any,
    arrivals: Any,
    lengths: Any,
    classes: Any,
    tables: Any,
    requests: Any,
    priority: Any,
    first: Any,
    signals: Any,
) -> int:
    """0, the number of requests when they do not fit, or ``_UNSURE``."""
    total = fill_counts(rng, arrivals, first, signals)
    if total > requests.shape[1]:
        return total
    prompt, output = requests[PROMPT], requests[OUTPUT]
    fill_arrivals(rng, first, requests[SHARE], requests[ARRIVAL])
    for item in range(total):
        draw = uniform(rng)
        priority[item] = (1 if draw >= classes[0, 0] else 0) + (1 if draw >= classes[0, 1] else 0)
    sure = fill_lengths(rng, total, lengths[0], tables, prompt)
    if arrivals[_HAS_LONG] != 0.0:
        # The row of outputs is free until they are drawn.
        sure = fill_lengths(rng, total, lengths[1], tables, output) and sure
        for item in range(total):
            if uniform(rng) < classes[2, priority[item]]:
                prompt[item] = output[item]
    sure = fill_lengths(rng, total, lengths[2], tables, output) and sure
    for second in range(signals.shape[0]):
        for index in range(3):
            signals[second, JITTER + index] = max(1.0 + JITTER_SIGMA * normal(rng, tables), 0.5)
    for item in range(total):
        requests[SHARE, item] = uniform(rng)
    fill_signals(first, prompt, priority, classes[1], arrivals[_MEAN_PROMPT], signals)
    return 0 if sure else _UNSURE


def _draw(
    rows: Any,
    seeds: Any,
    arrivals: Any,
    lengths: Any,
    classes: Any,
    tables: Any,
    requests: Any,
    ids: Any,
    first: Any,
    signals: Any,
    answers: Any,
) -> None:
    rng = np.zeros(STATE_SIZE, dtype=np.uint64)
    for index in range(len(rows)):
        i = rows[index]
        seed_state(seeds[index], rng)
        answers[index] = draw_one(
            rng, arrivals, lengths, classes, tables, requests[i], ids[i, PRIORITY], first[i], signals[i]
        )


_draw_rows = compiled(_draw, keep=True, allocates=True)
