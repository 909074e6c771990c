"""What an autoscaling episode brings, whatever the agent does: traffic, cold starts, faults, late metrics.

Everything is drawn when the episode starts, from one generator and always in the same order, so that an
episode is a function of configuration and seed, and knowing the plan is knowing the future (the oracle does).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, pi
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from inferencegym.models.autoscaling import AUTOSCALING_STEPS, MAX_REPLICAS, Scenario

__all__ = [
    "COLD_DRAWS",
    "COLD_START_S",
    "HEALTHY_CPU",
    "INTERVALS",
    "INTERVAL_S",
    "WARM_UP_INTERVALS",
    "FleetConfig",
    "Plan",
    "Window",
    "draw_plan",
    "with_scenario",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

INTERVAL_S = 15
"""Seconds between two actions: the default sync period of Kubernetes' HorizontalPodAutoscaler."""

WARM_UP_INTERVALS = 4
"""Intervals served before the first observation: the fleet then is in its stride."""

INTERVALS = WARM_UP_INTERVALS + AUTOSCALING_STEPS

COLD_START_S = (82.0, 294.0)
"""Start of a replica of an 8B model on an L40S: image and weights cached, and neither cached."""

DISPERSION = 1.4
"""Variance over mean of requests per 10 s. Half the mean squared difference of neighbouring counts over their
mean is 1.38 in the Azure LLM inference trace 2023, conversations; Poisson traffic would have 1."""

HEALTHY_CPU = 0.9
"""Utilisation up to which an interval counts as healthy; beyond it a spike turns into a queue."""

COLD_DRAWS = 256
"""Cold starts drawn for an episode."""

_SPIKE_EDGE_S = 30.0
"""A spike rises, and falls, in this time."""

Range = tuple[float, float]


class Window(NamedTuple):
    """Something that lasts: so many ``times`` (inclusive), for ``duration_s``, of a size in ``height``."""

    times: tuple[int, int] = (0, 0)
    duration_s: Range = (0.0, 0.0)
    height: Range = (0.0, 0.0)


_NEVER = Window()


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """Traffic and faults of a task. Times are seconds since the first action."""

    base_rps: float
    """arrivals per second in the middle of the day's swing"""
    swing: float
    """amplitude of the day's swing, as a share of ``base_rps``"""
    period_s: float = 3600.0
    """one day's rise and fall, compressed to this time as load tests do"""
    noise: float = 0.03
    """standard deviation of slow noise on the rate (autoregressive, relative)"""
    noise_memory: float = 0.9
    """correlation of that noise from one interval to the next"""
    rush: Range = (0.0, 0.0)
    """height of the rush hour (relative to ``base_rps``), drawn from this range; 0: none"""
    rush_ramp_s: float = 600.0
    rush_hold_s: float = 900.0
    spikes: Window = _NEVER
    """height: relative rise of the rate"""
    cold_start_s: Range = COLD_START_S
    warm_up_s: float = 30.0
    """start-up work of a ready replica: what it reports meanwhile is not its load"""
    start_up_cpu: float = 1.0
    """utilisation that it reports meanwhile; above 1 where it may use more CPU than it requested"""
    crashes: tuple[int, int] = (0, 0)
    """replicas that crash one by one"""
    zone_outage: float = 0.0
    """share of ready replicas that one zone outage kills; 0: none happens"""
    sick: Window = _NEVER
    """height: share of responses that are corrupt"""
    metric_gaps: Window = _NEVER
    """no metrics at all"""
    metric_delays: Window = _NEVER
    """height: intervals by which metrics are late, instead of one"""
    metric_loss: float = 0.0
    """chance that the metrics of one interval get lost"""
    fixed_spike: tuple[float, float, float] | None = None
    """start, duration, relative rise of a spike that always comes"""
    fixed_gap: Range | None = None
    """start and duration of a metrics outage that always comes"""
    update_s: float | None = None
    """start of a rolling update with a surge of 100 %"""
    pause_s: float | None = None
    """when somebody pauses the autoscaler: moves are then ignored until a total is set by hand"""


def with_scenario(config: FleetConfig, scenario: Scenario | None) -> FleetConfig:
    """The configuration with an operator's incident on top."""
    match scenario:
        case None:
            return config
        case "startup_cpu_spike":
            return replace(config, warm_up_s=180.0, start_up_cpu=2.0, fixed_spike=(480.0, 900.0, 0.6))
        case "pending_ignored":
            longest = COLD_START_S[1]
            return replace(config, cold_start_s=(longest, longest), fixed_spike=(480.0, 900.0, 0.8))
        case "metrics_outage":
            return replace(config, fixed_gap=(900.0, 600.0))
        case "rolling_update":
            return replace(config, update_s=900.0)
        case "autoscaler_disabled":
            return replace(config, pause_s=300.0, fixed_spike=(600.0, 1200.0, 0.8))


class Plan(NamedTuple):
    """One episode's future. J = 244 intervals, the first four before the first observation."""

    rate_rps: FloatArray
    """(J,) expected arrivals per second"""
    noise: FloatArray
    """(J * 15,) standard normal: noise of each second's arrivals"""
    cold_start_s: FloatArray
    """(256,) of the replicas in order of their launch, from the front again when used up"""
    crashes: IntArray
    """(J,) ready replicas that die at the start of the interval"""
    zone_share: FloatArray
    """(J,) share of ready replicas that die at the start of the interval"""
    sick_share: FloatArray
    """(J,) share of responses that are corrupt"""
    source: IntArray
    """(J,) interval whose metrics are the newest that have arrived at its end; never decreases"""
    update: IntArray
    """(J,) 1 where a rolling update starts"""
    pause: IntArray
    """(J,) 1 where the autoscaler is paused"""
    initial_replicas: int

    def arrivals(self) -> IntArray:
        """(J, 15): requests that arrive in each second."""
        mean = np.repeat(self.rate_rps, INTERVAL_S)
        drawn = np.floor(mean + np.sqrt(DISPERSION * mean) * self.noise + 0.5)
        return np.maximum(drawn, 0.0).astype(np.int64).reshape(INTERVALS, INTERVAL_S)


_TIMES_S: FloatArray = (np.arange(INTERVALS, dtype=np.float64) - WARM_UP_INTERVALS + 0.5) * INTERVAL_S
_STEPS: FloatArray = np.arange(INTERVALS, dtype=np.float64)
_EPISODE_S = float(AUTOSCALING_STEPS * INTERVAL_S)


def draw_plan(rng: np.random.Generator, config: FleetConfig, peak_rps: float) -> Plan:
    """Draw an episode.

    Args:
        rng: the episode's generator; nothing else draws from it.
        config: traffic and faults.
        peak_rps: requests per second of a saturated replica: how many replicas the episode starts with
            depends on it (one more than its first minute needs).
    """
    rate = _rate(rng, config)
    noise = rng.standard_normal(INTERVALS * INTERVAL_S)
    low, high = config.cold_start_s
    cold = low + (high - low) * rng.random(COLD_DRAWS)
    crashes, zone = _deaths(rng, config)
    sick = np.zeros(INTERVALS)
    for start, duration, height in _windows(rng, config.sick):
        sick[_span(start, duration)] = height
    source = _sources(rng, config)
    first_rps = float(rate[: WARM_UP_INTERVALS + 4].max())
    initial = min(MAX_REPLICAS, ceil(first_rps / (HEALTHY_CPU * peak_rps)) + 1)
    update, pause = (_mark(moment) for moment in (config.update_s, config.pause_s))
    return Plan(rate, noise, cold, crashes, zone, sick, source, update, pause, initial)


def _rate(rng: np.random.Generator, config: FleetConfig) -> FloatArray:
    phase, rush_at, rush_height = rng.random(3).tolist()
    day = 1.0 + config.swing * np.sin(2.0 * pi * (_TIMES_S / config.period_s + phase))
    low, high = config.rush
    height = low + (high - low) * rush_height
    length = 2.0 * config.rush_ramp_s + config.rush_hold_s
    start = 240.0 + rush_at * max(0.0, _EPISODE_S - length - 480.0)
    day += height * _bump(start, length, config.rush_ramp_s)
    shocks = rng.standard_normal(INTERVALS) * config.noise * (1.0 - config.noise_memory**2) ** 0.5
    # x(t) = memory × x(t − 1) + shock(t), summed up at once.
    decay = config.noise_memory**_STEPS
    day *= 1.0 + decay * np.cumsum(shocks / decay)
    spikes = list(_windows(rng, config.spikes))
    if config.fixed_spike is not None:
        spikes.append(config.fixed_spike)
    for start, duration, rise in spikes:
        day *= 1.0 + rise * _bump(start, duration, _SPIKE_EDGE_S)
    return np.maximum(config.base_rps * day, 0.0)


def _bump(start_s: float, duration_s: float, edge_s: float) -> FloatArray:
    """A trapezoid of height 1 over the intervals."""
    into, left = _TIMES_S - start_s, start_s + duration_s - _TIMES_S
    return np.maximum(np.minimum(np.minimum(into, left) / edge_s, 1.0), 0.0)


def _windows(rng: np.random.Generator, window: Window) -> list[tuple[float, float, float]]:
    """Start, duration, height of each occurrence; at least four minutes after the first action.

    The episode is divided evenly among them, so that they never overlap.
    """
    least, most = window.times
    count = int(rng.integers(least, most + 1))
    draws = rng.random((most, 3)).tolist()
    if not count:
        return []
    room = (_EPISODE_S - 240.0) / count
    found: list[tuple[float, float, float]] = []
    for index, (at, length, height) in enumerate(draws[:count]):
        duration = min(_between(window.duration_s, length), room)
        start = 240.0 + index * room + at * (room - duration)
        found.append((start, duration, _between(window.height, height)))
    return found


def _between(bounds: Range, share: float) -> float:
    return bounds[0] + (bounds[1] - bounds[0]) * share


def _deaths(rng: np.random.Generator, config: FleetConfig) -> tuple[IntArray, FloatArray]:
    crashes, zone = np.zeros(INTERVALS, dtype=np.int64), np.zeros(INTERVALS)
    least, most = config.crashes
    count = int(rng.integers(least, most + 1))
    moments = rng.integers(WARM_UP_INTERVALS + 16, INTERVALS - 16, size=most)
    for moment in moments[:count].tolist():
        crashes[moment] += 1
    moment = int(rng.integers(WARM_UP_INTERVALS + 40, INTERVALS - 40))
    zone[moment] = config.zone_outage
    return crashes, zone


def _sources(rng: np.random.Generator, config: FleetConfig) -> IntArray:
    """Newest interval whose metrics have arrived, for each interval."""
    lag = np.ones(INTERVALS, dtype=np.int64)
    for start, duration, intervals in _windows(rng, config.metric_delays):
        lag[_span(start, duration)] = round(intervals)
    lost = rng.random(INTERVALS) < config.metric_loss
    gaps = [(start, duration) for start, duration, _ in _windows(rng, config.metric_gaps)]
    for start, duration in [*gaps, *([config.fixed_gap] if config.fixed_gap else [])]:
        lost[_span(start, duration)] = True
    lost[:WARM_UP_INTERVALS] = False
    arrived = np.where(lost, 0, np.arange(INTERVALS) - lag)
    return np.maximum(np.maximum.accumulate(arrived), 0)


def _span(start_s: float, duration_s: float) -> slice:
    first = WARM_UP_INTERVALS + int(start_s // INTERVAL_S)
    return slice(first, first + max(1, round(duration_s / INTERVAL_S)))


def _mark(moment_s: float | None) -> IntArray:
    marks = np.zeros(INTERVALS, dtype=np.int64)
    if moment_s is not None:
        marks[WARM_UP_INTERVALS + int(moment_s // INTERVAL_S)] = 1
    return marks
