"""What agents of InferenceGym/Serving-v0 can know about traffic from their observations alone.

Works on arrays, one row an episode, so that a policy can be trained on many episodes at once; an agent that
plays one episode has one row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from env.serving.tasks import get_task
from inferencegym.models.serving import ServeObservation
from simulator.serving.traffic.workload import EMA_STEPS

__all__ = ["FEATURES", "QUEUE", "RATE", "TrafficMemory", "observation_row"]

FloatArray = npt.NDArray[np.float64]

COLUMNS = (
    "queue_depth",
    "mean_prompt_len",
    "arrival_rate",
    "kv_cache_occupancy",
    "ttft_p50_ms",
    "tpot_p50_ms",
    "slo_violation_rate",
)
"""Fields of an observation that are used: the first of ``env.serving.batch.OBSERVATION_COLUMNS``."""

QUEUE, PROMPT, RATE, KV, TTFT, TPOT, VIOLATIONS = range(len(COLUMNS))

FEATURES = (
    "bias",
    "surge",
    "rate",
    "queue",
    "kv_occupancy",
    "prompt",
    "violations",
    "ttft",
    "tpot",
    "burst_soon",
    "burst_left",
    "since_burst",
    "progress",
)
"""Names of the features, each scaled to about [-1, 1]; see :meth:`TrafficMemory.features`."""

_EMA_WEIGHT = 2.0 / (EMA_STEPS + 1)

SURGE_RATIO = 2.0
"""Arrivals of one second, relative to the quiet rate, from which a burst is taken to have begun: five
standard deviations of Poisson noise above the quiet rate, and three below a burst's."""

SOON_S, SINCE_S = 4.0, 20.0
"""Time scales of ``burst_soon`` and ``since_burst``, seconds."""

_LOG_QUEUE_FULL = float(np.log1p(512.0))


class TrafficMemory:
    """Remembers of ``count`` episodes what their features need.

    The observed arrival rate is an exponential moving average; two successive values give back the last
    second's own count (the same goes for prompt lengths). The first surge gives away the phase of the bursts,
    whose period and length the task tells.
    """

    def __init__(self, task_id: str, count: int = 1) -> None:
        task = get_task(task_id)
        arrivals = task.workload.arrivals
        self.rate_rps = arrivals.rate_rps
        self.period_s = arrivals.period_s
        self.burst_s = arrivals.burst_s
        """0 when the task has no bursts."""
        self._slo_ms = task.workload.primary_slo_ms
        self._episode_length = task.info.episode_length
        self._count = count
        self.reset()

    def reset(self) -> None:
        """Nothing seen yet."""
        self.onset = np.full(self._count, -1, dtype=np.int64)
        """(count,): second in which the last burst is taken to have begun; -1 before the first."""
        self._rate: FloatArray | None = None
        self._prompt: FloatArray | None = None

    def features(self, seen: FloatArray, now: int) -> FloatArray:
        """Take in the observations of second ``now`` and return the features.

        Args:
            seen: shape (count, at least 7), columns as in ``COLUMNS``; one call a second, in order.
            now: ``timestep`` of the observations.

        Returns:
            shape (count, len(FEATURES)).
        """
        rate, prompt = seen[:, RATE], seen[:, PROMPT]
        latest_rate = np.maximum(_latest(self._rate, rate), 0.0)
        latest_prompt = np.maximum(_latest(self._prompt, prompt), 1.0)
        self._rate, self._prompt = rate.copy(), prompt.copy()
        self._notice(latest_rate, now)
        out = np.empty((self._count, len(FEATURES)))
        out[:, 0] = 1.0
        out[:, 1] = 0.5 * np.log(np.maximum(latest_rate / self.rate_rps, 0.2))
        out[:, 2] = 0.5 * np.log(np.maximum(rate / self.rate_rps, 0.2))
        out[:, 3] = np.log1p(seen[:, QUEUE]) / _LOG_QUEUE_FULL
        out[:, 4] = seen[:, KV]
        out[:, 5] = 0.2 * np.log(latest_prompt / 512.0)
        out[:, 6] = seen[:, VIOLATIONS]
        out[:, 7] = 0.2 * np.clip(np.log(np.maximum(seen[:, TTFT], 1.0) / self._slo_ms), -5.0, 5.0)
        out[:, 8] = 0.5 * np.log(np.maximum(seen[:, TPOT], 1.0) / 30.0)
        out[:, 9:12] = self._burst_clock(now)
        out[:, 12] = now / self._episode_length
        return out

    def _notice(self, latest_rate: FloatArray, now: int) -> None:
        """Write down bursts that begin; a burst that is under way is not noticed again."""
        if self.burst_s:
            surge = latest_rate > SURGE_RATIO * self.rate_rps
            fresh = (self.onset < 0) | (now - self.onset > self.period_s // 2)
            self.onset[surge & fresh] = now

    def _burst_clock(self, now: int) -> Any:
        """How soon the next burst is due (1: now), the share of the present one that is left, and how long
        the last one has been over (1: just now); all 0 before the first."""
        if not self.burst_s:
            return 0.0
        since = (now - self.onset) % self.period_s
        clock = np.stack(
            [
                np.exp(-(self.period_s - since) / SOON_S),
                np.maximum(0.0, 1.0 - since / self.burst_s),
                np.where(since >= self.burst_s, np.exp(-(since - self.burst_s) / SINCE_S), 0.0),
            ],
            axis=1,
        )
        clock[self.onset < 0] = 0.0
        return clock


def observation_row(observation: ServeObservation) -> FloatArray:
    """One observation as an array of shape (1, 7)."""
    return np.array([[getattr(observation, name) for name in COLUMNS]], dtype=np.float64)


def _latest(before: FloatArray | None, after: FloatArray) -> FloatArray:
    """The last value of a series from two successive values of its moving average."""
    return after if before is None else before + (after - before) / _EMA_WEIGHT
