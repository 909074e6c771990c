"""Recorded traffic as a workload: windows of a request trace, played second by second.

Example:
    >>> trace = read_trace("AzureLLMInferenceTrace_conv.csv")
    >>> workload = ReplayWorkload(trace, get_workload("task2"), replicas=2)
    >>> env = InferenceEnv(shared_simulator(), "task2", workload=workload)
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite, nextafter
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from inferencegym.errors import InvalidValueError
from simulator.serving.traffic.config import WorkloadConfig
from simulator.serving.traffic.trace_file import FORMATS, RequestTrace, read_trace
from simulator.serving.traffic.workload import (
    BURST,
    COOLDOWN,
    STEADY,
    WARMUP,
    WARMUP_STEPS,
    EpisodeTraffic,
    WorkloadGenerator,
    ema,
)

__all__ = ["ReplayWorkload", "RequestTrace", "read_trace"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

ARRIVAL_RATE_MAX_RPS = 10_000.0
"""Upper bound of the observed arrival rate (``ServeObservation.arrival_rate``)."""

BURST_FACTOR = 2.0
"""A second is labelled burst while the 10-step mean of arrivals is this many times the trace's mean rate."""

SHORT_SHARE = 0.5
"""Share of an episode that a recording has to last for its silence afterwards to go without a note."""

_REPLICAS_MAX = 256
_SPEED_MAX = 1e6


class ReplayWorkload(WorkloadGenerator):
    """Plays a trace: an episode is a window of ``steps + 1`` seconds (one comes before the first action).

    Arrivals and lengths are the trace's own, to the token. What a trace does not hold is drawn from the
    episode's generator, in this order: where the window starts, this engine's turn in the round robin,
    priority classes by ``config.class_mix``, measurement jitter.

    The observed prompt length is an average held to 32 – 8192 tokens, as everywhere, and the observed arrival
    rate ends at 10,000/s; the engine works with the true figures. Above 16,384 tokens a prefill takes as long
    as at 16,384 (the end of the table), while its KV cache grows on; a prompt longer than the KV pool is
    refused. After the end of a trace there is silence.

    Args:
        trace: the requests.
        config: classes, objectives, limits, draft acceptance and replicas of the deployment; its own
            arrivals and lengths are not used.
        steps: control steps of an episode.
        start_s: second of the trace at which every episode starts; ``None`` draws one, so that the whole
            window lies within the trace if that is long enough.
        speed: seconds of the trace in a second of the episode: 2 doubles the traffic.
        replicas: engines that share the trace round robin; ``None`` takes ``config.replicas``.

    Raises:
        InvalidValueError: an argument out of its range.
    """

    def __init__(
        self,
        trace: RequestTrace,
        config: WorkloadConfig,
        steps: int = 200,
        *,
        start_s: float | None = None,
        speed: float = 1.0,
        replicas: int | None = None,
    ) -> None:
        if not (isfinite(speed) and 0.0 < speed <= _SPEED_MAX):
            raise InvalidValueError("speed", speed, f"a number above 0, up to {_SPEED_MAX:g}")
        if start_s is not None and not 0.0 <= start_s <= trace.duration_s:
            raise InvalidValueError(
                "traffic.start_s", start_s, f"0 to {trace.duration_s:g}, the trace's last request"
            )
        if start_s is None:
            _check_density(trace, (steps + 1) * speed)
        if replicas is not None:
            if not _is_whole(replicas) or not 1 <= replicas <= _REPLICAS_MAX:
                raise InvalidValueError("replicas", replicas, f"a whole number from 1 to {_REPLICAS_MAX}")
            config = config.model_copy(update={"replicas": replicas})
        super().__init__(config, steps)
        self.trace = trace
        self.start_s = start_s
        self.speed = speed
        notes = (*trace.notes, *_shortness(trace, start_s or 0.0, (steps + 1) * speed))
        self._summary = _summary(trace, speed, config.replicas) | ({"notes": list(notes)} if notes else {})
        self._prompt_mean = float(np.mean(trace.prompt_tokens))
        self._output_mean = float(np.mean(trace.output_tokens))

    def episode(self, rng: np.random.Generator) -> EpisodeTraffic:
        """One window of the trace."""
        seconds, trace = self.steps + 1, self.trace
        window_s = seconds * self.speed
        drawn_s = rng.uniform(0.0, max(0.0, trace.duration_s - window_s))
        start_s = drawn_s if self.start_s is None else self.start_s
        first, last = np.searchsorted(trace.arrival_s, [start_s, start_s + window_s]).tolist()
        # Rounding must not move a request to the second after the last.
        latest = nextafter(float(seconds), 0.0)
        arrival = np.minimum((trace.arrival_s[first:last] - start_s) / self.speed, latest)
        service_counts = np.bincount(arrival.astype(np.int64), minlength=seconds)
        mine = self._turns(len(arrival), rng)
        arrival = arrival[mine]
        counts = np.bincount(arrival.astype(np.int64), minlength=seconds)
        traffic = self._traffic(
            rng,
            service_counts,
            self._phases(service_counts),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            arrival,
            self._classes(len(arrival), rng),
            trace.prompt_tokens[first:last][mine],
            trace.output_tokens[first:last][mine],
        )
        return replace(traffic, rate_ema_rps=np.minimum(traffic.rate_ema_rps, ARRIVAL_RATE_MAX_RPS))

    def summary(self) -> dict[str, Any]:
        """What was understood of the recording, JSON-ready: its unit of time shows in its length and rate.

        ``notes``, where there are any, are sentences about what looks as if it were meant otherwise.
        """
        return dict(self._summary)

    def _turns(self, total: int, rng: np.random.Generator) -> IntArray:
        """Indices of the requests that the balancer hands to this engine: every ``replicas``-th."""
        replicas = self.config.replicas
        offset = int(rng.integers(0, replicas))
        return np.arange(replicas - 1 - offset, total, replicas)

    def _phases(self, service_counts: IntArray) -> IntArray:
        """Labels by the traffic itself: a trace does not say when it bursts."""
        threshold = BURST_FACTOR * self.trace.rate_rps * self.speed
        phases: list[int] = []
        left = 0
        for second, rate in enumerate(ema(service_counts.astype(np.float64)).tolist()):
            if rate >= threshold:
                phases.append(BURST)
                left = self.config.arrivals.cooldown_s
            elif left > 0:
                phases.append(COOLDOWN)
                left -= 1
            else:
                phases.append(WARMUP if second < WARMUP_STEPS else STEADY)
        return np.asarray(phases)

    def mean_prompt_tokens(self) -> float:
        return self._prompt_mean

    def _mean_output(self) -> float:
        return self._output_mean


def _is_whole(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral)


def _summary(trace: RequestTrace, speed: float, replicas: int) -> dict[str, Any]:
    return {
        "format": trace.format,
        "requests": trace.requests,
        "skipped": trace.skipped,
        "duration_s": round(trace.duration_s, 3),
        "requests_per_s": round(trace.rate_rps, 3),
        "speed": speed,
        "replicas": replicas,
    }


def _shortness(trace: RequestTrace, start_s: float, window_s: float) -> tuple[str, ...]:
    """A word where the recording ends early and most of an episode is silence: often its unit is another."""
    left_s = trace.duration_s - start_s
    if left_s >= SHORT_SHARE * window_s:
        return ()
    unit = next(known.unit for known in FORMATS if known.name == trace.format)
    note = (
        f"The recording ends after {left_s:.3g} s of the {window_s:g} s of traffic of an episode; then "
        f"there is silence. Times of the {trace.format} format are read as {unit}; is that their unit?"
    )
    return (note,)


def _check_density(trace: RequestTrace, window_s: float) -> None:
    """Refuse a recording in which a window drawn at random is empty as a rule: its unit is another one.

    Raises InvalidValueError.
    """
    expected = trace.requests * min(1.0, window_s / max(trace.duration_s, 1e-9))
    if expected < 1.0:
        unit = next(known.unit for known in FORMATS if known.name == trace.format)
        raise InvalidValueError(
            "traffic",
            f"{trace.requests} requests in {trace.duration_s:,.0f} s",
            f"one request or more in the {window_s:g} s of an episode, on average",
            f"The times of the {trace.format} format are read as {unit}; is that their unit? Otherwise give "
            "start_s, or a higher speed.",
        )
