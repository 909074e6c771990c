"""The coding of InferenceGym/Autoscaling-v0.

One dial with the three moves. The network sees the gymnasium observation
(:mod:`inferencegym.gym.autoscaling.codec`) spread over [-1, 1], and what an operator would work out from it:
how many replicas the traffic of now, and of the time when a replica ordered now is ready, needs, and how many
of them are there or on their way.

=======================  ==============================================================================
entry                    value, held to [-1, 1]
=======================  ==============================================================================
need − target            replicas needed by the 5-minute mean of arrivals, minus the target, over 8
need soon − target       the same for the trend carried on for a minute more than the mean is old
need at arrival − target the same, looked ahead by a cold start
need − ready             replicas needed now, minus those ready, over 8
=======================  ==============================================================================
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.ppo.coding import PlainCoding, Training
from env.autoscaling.episode import fleet_simulator
from inferencegym.gym.autoscaling.codec import CODEC
from inferencegym.models.autoscaling import MAX_REPLICAS
from simulator.autoscaling.plan import HEALTHY_CPU

__all__ = ["Coding"]

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

_INDEX = {name: index for index, name in enumerate(CODEC.observation_names)}
_RATE = _INDEX["arrival_rate_5m"]
_TREND, _READY, _TARGET = _INDEX["arrival_trend_5m"], _INDEX["replicas_ready"], _INDEX["replicas_target"]
_RATE_FEATURE, _TREND_FEATURE = CODEC.features[_RATE], CODEC.features[_TREND]

_MEAN_AGE_MIN = 2.5
"""Age of the middle of the 5-minute window."""

_COLD_START_MIN = 3.1
"""Mean of 82 to 294 s."""

_SPAN = 8.0
"""Replicas too few or too many that are told apart."""


class Coding(PlainCoding):
    """Dial and observations of one task."""

    def __init__(self, task_id: str) -> None:
        super().__init__("autoscaling", task_id, Training(400_000, 64))
        self.width += 4
        self.references = ("no_op", "baseline", "hpa", "forecast", "oracle")
        self.lines = {"baseline": "threshold rule", "hpa": "HPA", "forecast": "forecast"}
        self._healthy_rps = HEALTHY_CPU * fleet_simulator(task_id).table.peak_rps

    def see(self, observations: FloatArray, dials: IntArray) -> FloatArray:
        """(N, 28): see the module's table."""
        plain = super().see(observations, dials)
        rate_rps = _undo_log(observations[:, _RATE])
        low, high = _TREND_FEATURE.low, _TREND_FEATURE.high
        slope = low + (high - low) * observations[:, _TREND]
        target, ready = (MAX_REPLICAS * observations[:, column] for column in (_TARGET, _READY))
        need, soon, later = (
            np.maximum(rate_rps + slope * minutes, 0.0) / self._healthy_rps
            for minutes in (_MEAN_AGE_MIN, _MEAN_AGE_MIN + 1.0, _MEAN_AGE_MIN + _COLD_START_MIN)
        )
        gaps = np.stack([need - target, soon - target, later - target, need - ready], axis=1) / _SPAN
        return np.concatenate([plain, np.clip(gaps, -1.0, 1.0)], axis=1).astype(np.float32)


def _undo_log(entries: Any) -> Any:
    """The number behind an entry on a log scale."""
    unit, span = _RATE_FEATURE.unit, _RATE_FEATURE.high - _RATE_FEATURE.low
    return unit * np.expm1(entries * log(1.0 + span / unit))
