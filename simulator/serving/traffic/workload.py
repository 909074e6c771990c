"""Traffic of one episode, drawn once at reset: it does not depend on what the agent does.

The service sees Poisson arrivals; a round-robin balancer in front of ``replicas`` identical engines hands
every ``replicas``-th request to the one that is simulated. Observed rates are those of the service.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import cast

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from inferencegym.models.serving import PROMPT_TOKENS_MAX, PROMPT_TOKENS_MIN, Phase
from simulator.kernels.sums import ordered_sum
from simulator.serving.traffic.config import CLASSES, LengthConfig, WorkloadConfig

__all__ = ["EMA_STEPS", "MIX_WINDOW_STEPS", "EpisodeTraffic", "WorkloadGenerator", "ema"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

EMA_STEPS = 10
"""Span of the exponential moving averages of arrival rate and prompt length: weight 2 / (span + 1)."""

MIX_WINDOW_STEPS = 50
"""Rolling window of the observed priority mix, control steps."""

JITTER_SIGMA = 0.05
"""Relative standard deviation of the measurement jitter on TTFT p50, TTFT p99 and TPOT."""

WARMUP_STEPS = 10
"""Steps from the start of an episode that are labelled warmup (unless a burst is on)."""

_PHASES: tuple[Phase, ...] = ("warmup", "steady", "burst", "cooldown")
WARMUP, STEADY, BURST, COOLDOWN = range(4)


@dataclass(frozen=True, slots=True)
class EpisodeTraffic:
    """Requests and exogenous signals of an episode of ``steps`` control steps plus second 0.

    Second 0 happens before the agent's first action. Per request: arrival (s), prompt and output (tokens),
    priority (class index), iteration_share (0..1). Per second (length ``steps + 1``): see the names;
    ``first_request[t]..first_request[t + 1]`` are the requests of second ``t``.
    """

    steps: int
    arrival: FloatArray
    prompt: FloatArray
    output: FloatArray
    priority: IntArray
    iteration_share: FloatArray
    first_request: IntArray
    rate_ema_rps: FloatArray
    prompt_ema_tokens: FloatArray
    mix: FloatArray
    phase_index: IntArray
    jitter: FloatArray
    output_mean_tokens: float

    def phase(self, second: int) -> Phase:
        """Label of a second: warmup, steady, burst or cooldown."""
        return _PHASES[int(self.phase_index[second])]


class WorkloadGenerator:
    """Draws episodes of a workload. :class:`simulator.serving.traffic.replay.ReplayWorkload` plays recorded
    requests,
    :class:`simulator.serving.traffic.recorded.RecordedWorkload` draws from the figures of a recording.

    Args:
        config: the workload.
        steps: control steps of an episode.
    """

    def __init__(self, config: WorkloadConfig, steps: int = 200) -> None:
        self.config = config
        self.steps = steps
        self._class_edges: FloatArray = np.cumsum(config.class_mix)[:-1]
        self._long_share: FloatArray = np.asarray(config.long_share_by_class)
        self._rates_by_start: dict[int, tuple[FloatArray, IntArray]] = {}

    def episode(self, rng: np.random.Generator) -> EpisodeTraffic:
        """All traffic of one episode, from one generator (the order of draws is part of the contract)."""
        seconds = self.steps + 1
        rate_rps, phase_index = self._rates(rng)
        service_counts = rng.poisson(rate_rps)
        counts = self._share_of_one_replica(service_counts, rng)
        first_request = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        total = int(first_request[-1])
        arrival = np.sort(np.repeat(np.arange(seconds, dtype=np.float64), counts) + rng.random(total))
        priority = self._classes(total, rng)
        prompt = self._prompts(priority, rng)
        output = self._outputs(total, rng)
        return self._traffic(
            rng, service_counts, phase_index, first_request, arrival, priority, prompt, output
        )

    def _traffic(
        self,
        rng: np.random.Generator,
        service_counts: IntArray,
        phase_index: IntArray,
        first_request: IntArray,
        arrival: FloatArray,
        priority: IntArray,
        prompt: FloatArray,
        output: FloatArray,
    ) -> EpisodeTraffic:
        """The episode around its requests: draws the jitter, then the iteration shares."""
        seconds, total = self.steps + 1, len(arrival)
        jitter = np.maximum(1.0 + JITTER_SIGMA * rng.standard_normal((seconds, 3)), 0.5)
        return EpisodeTraffic(
            steps=self.steps,
            arrival=arrival,
            prompt=prompt,
            output=output,
            priority=priority,
            iteration_share=rng.random(total),
            first_request=first_request,
            rate_ema_rps=ema(service_counts.astype(np.float64)),
            prompt_ema_tokens=self._prompt_ema(prompt, first_request),
            mix=self._rolling_mix(priority, first_request),
            phase_index=phase_index,
            jitter=jitter,
            output_mean_tokens=self._mean_output(),
        )

    def _rates(self, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Arrival rate and phase of every second; episodes share the arrays."""
        low, high = self.config.arrivals.first_burst_s
        start = int(rng.integers(low, high + 1))
        if start not in self._rates_by_start:
            self._rates_by_start[start] = self.rates_from(start)
        return self._rates_by_start[start]

    def rates_from(self, start: int) -> tuple[FloatArray, IntArray]:
        """Arrival rate and phase of every second, when the first burst begins at second ``start``."""
        arrivals = self.config.arrivals
        second = np.arange(self.steps + 1)
        phase = np.where(second < WARMUP_STEPS, WARMUP, STEADY)
        rate = np.full(self.steps + 1, arrivals.rate_rps)
        if arrivals.burst_s > 0:
            since = (second - start) % arrivals.period_s
            begun = second >= start
            burst = begun & (since < arrivals.burst_s)
            cooling = begun & ~burst & (since < arrivals.burst_s + arrivals.cooldown_s)
            rate[burst] = arrivals.burst_rps
            phase[cooling] = COOLDOWN
            phase[burst] = BURST
        return rate, phase.astype(np.int64)

    def _share_of_one_replica(self, service_counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Round robin: of the service's k-th request, this engine gets every ``replicas``-th."""
        replicas = self.config.replicas
        offset = int(rng.integers(0, replicas))
        dealt = (np.concatenate([[0], np.cumsum(service_counts)]) + offset) // replicas
        return np.diff(dealt).astype(np.int64)

    def _classes(self, total: int, rng: np.random.Generator) -> IntArray:
        return np.searchsorted(self._class_edges, rng.random(total), side="right").astype(np.int64)

    def _prompts(self, priority: IntArray, rng: np.random.Generator) -> FloatArray:
        total = len(priority)
        prompt = _draw(self.config.prompts, total, rng)
        if self.config.long_prompts is None:
            return prompt
        long = _draw(self.config.long_prompts, total, rng)
        return np.where(rng.random(total) < self._long_share[priority], long, prompt)

    def _outputs(self, total: int, rng: np.random.Generator) -> FloatArray:
        return _draw(self.config.outputs, total, rng)

    def mean_prompt_tokens(self) -> float:
        """Expected prompt length, which the observed average starts from."""
        return _mean_prompt(self.config)

    def _mean_output(self) -> float:
        return _mean(self.config.outputs)

    def _prompt_ema(self, prompt: FloatArray, first_request: IntArray) -> FloatArray:
        """EMA of each second's mean prompt length; a second without arrivals keeps the last value."""
        sums = np.concatenate([[0.0], np.cumsum(prompt)])
        counts = np.diff(first_request)
        totals = sums[first_request[1:]] - sums[first_request[:-1]]
        means = totals / np.maximum(counts, 1)
        values: list[float] = []
        weight, level = 2.0 / (EMA_STEPS + 1), self.mean_prompt_tokens()
        for count, mean in zip(counts.tolist(), means.tolist(), strict=True):
            if count:
                level += weight * (mean - level)
            values.append(level)
        return np.clip(values, PROMPT_TOKENS_MIN, PROMPT_TOKENS_MAX)

    def _rolling_mix(self, priority: IntArray, first_request: IntArray) -> FloatArray:
        """Class shares over the last ``MIX_WINDOW_STEPS`` seconds, shape (seconds, 3), rows sum to 1."""
        seconds = len(first_request) - 1
        if 1.0 in self.config.class_mix:
            return np.tile(np.asarray(self.config.class_mix), (seconds, 1))
        start = first_request[np.maximum(np.arange(1, seconds + 1) - MIX_WINDOW_STEPS, 0)]
        shares = np.empty((seconds, len(CLASSES)))
        total = np.maximum(first_request[1:] - start, 1)
        for index in range(len(CLASSES)):
            seen = np.concatenate([[0], np.cumsum(priority == index)])
            shares[:, index] = (seen[first_request[1:]] - seen[start]) / total
        shares[first_request[1:] == start] = self.config.class_mix
        return shares


def _draw(config: LengthConfig, total: int, rng: np.random.Generator) -> FloatArray:
    """``total`` lengths in whole tokens, as floats."""
    if config.kind == "uniform":
        return rng.integers(config.low, config.high + 1, size=total).astype(np.float64)
    lengths = np.exp(config.mu + config.sigma * rng.standard_normal(total))
    return np.clip(np.rint(lengths), config.low, config.high)


@cache
def _mean(config: LengthConfig) -> float:
    """Mean length, tokens; of the clamped lognormal by the midpoint rule over 4,096 quantiles."""
    if config.kind == "uniform":
        return 0.5 * (config.low + config.high)
    levels = (np.arange(4096) + 0.5) / 4096
    normal = cast("FloatArray", ndtri(levels))
    lengths = np.exp(config.mu + config.sigma * normal)
    return float(np.mean(np.clip(lengths, config.low, config.high)))


def _mean_prompt(config: WorkloadConfig) -> float:
    """Expected prompt length over classes, tokens."""
    short = _mean(config.prompts)
    if config.long_prompts is None:
        return short
    share = ordered_sum(
        mix * long for mix, long in zip(config.class_mix, config.long_share_by_class, strict=True)
    )
    return (1.0 - share) * short + share * _mean(config.long_prompts)


def ema(values: FloatArray) -> FloatArray:
    """Exponential moving average that starts at the first value."""
    weight, level = 2.0 / (EMA_STEPS + 1), float(values[0])
    smoothed: list[float] = []
    for value in values.tolist():
        level += weight * (value - level)
        smoothed.append(level)
    return np.asarray(smoothed)
