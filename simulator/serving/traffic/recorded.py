"""Traffic with the lengths and the rates of a public production trace, from its published figures.

``simulator/data/recorded_traffic.json`` holds quantiles of prompt and output lengths and the requests of
every 10 seconds of three traces, with their sources; not one request of them is in this project. Prompt and
output length of a request are drawn apart: in the traces their rank correlation is below 0.08.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from inferencegym.errors import InvalidValueError, UnknownNameError
from simulator.serving.traffic.config import WorkloadConfig
from simulator.serving.traffic.workload import BURST, STEADY, WARMUP, WARMUP_STEPS, WorkloadGenerator

__all__ = ["RECORDED_TRAFFIC_PATH", "RecordedTraffic", "RecordedWorkload", "load_recorded", "make_generator"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

RECORDED_TRAFFIC_PATH = Path(__file__).parents[2] / "data" / "recorded_traffic.json"

_BIN_S = 10
"""Seconds that one number of ``requests_per_10s`` counts."""

BURST_FACTOR = 2.0
"""A second is labelled burst while its rate is this many times the trace's mean."""

_MEAN_LEVELS = 4096
"""Quantiles that a mean length is taken over (midpoint rule)."""


@dataclass(frozen=True)
class RecordedTraffic:
    """Figures of one trace. ``levels`` (Q,) are the quantiles' levels, lengths in tokens, rates in 1/s."""

    source: str
    levels: FloatArray
    prompt_tokens: FloatArray
    output_tokens: FloatArray
    rate_rps: FloatArray
    """Arrival rate of every 10 s."""

    @property
    def mean_rate_rps(self) -> float:
        """Mean over the trace."""
        return float(self.rate_rps.mean())


class RecordedWorkload(WorkloadGenerator):
    """Draws an hour's traffic, a window at a time: the episode's generator first draws where it starts.

    Args:
        config: classes, objectives, replicas, and ``recorded``: which trace, how much faster, and the longest
            prompt.
        steps: control steps of an episode.

    Raises:
        UnknownNameError: no such trace.
        InvalidValueError: the workload is not recorded.
    """

    def __init__(self, config: WorkloadConfig, steps: int = 200) -> None:
        super().__init__(config, steps)
        recorded = config.recorded
        if recorded is None:
            raise InvalidValueError("recorded", None, "a workload with recorded traffic")
        self.traffic = load_recorded(recorded.name)
        self._rate_rps = np.repeat(self.traffic.rate_rps * recorded.rate_factor, _BIN_S)
        self._prompt = np.minimum(self.traffic.prompt_tokens, float(recorded.prompt_cap_tokens))

    def _rates(self, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Rate and phase of every second of the window."""
        seconds = self.steps + 1
        start = int(rng.integers(0, len(self._rate_rps) - seconds + 1))
        rate = self._rate_rps[start : start + seconds]
        phase = np.where(np.arange(seconds) < WARMUP_STEPS, WARMUP, STEADY)
        phase[rate >= BURST_FACTOR * self._rate_rps.mean()] = BURST
        return rate, phase.astype(np.int64)

    def _prompts(self, priority: IntArray, rng: np.random.Generator) -> FloatArray:
        return self._lengths(self._prompt, len(priority), rng)

    def _outputs(self, total: int, rng: np.random.Generator) -> FloatArray:
        return self._lengths(self.traffic.output_tokens, total, rng)

    def _lengths(self, quantiles: FloatArray, total: int, rng: np.random.Generator) -> FloatArray:
        """``total`` lengths in whole tokens, linear between the quantiles."""
        return np.maximum(np.rint(np.interp(rng.random(total), self.traffic.levels, quantiles)), 1.0)

    def mean_prompt_tokens(self) -> float:
        """Expected prompt length, which the observed average starts from."""
        return self._mean_of(self._prompt)

    def _mean_output(self) -> float:
        return self._mean_of(self.traffic.output_tokens)

    def _mean_of(self, quantiles: FloatArray) -> float:
        levels = (np.arange(_MEAN_LEVELS) + 0.5) / _MEAN_LEVELS
        return float(np.interp(levels, self.traffic.levels, quantiles).mean())


@cache
def load_recorded(name: str) -> RecordedTraffic:
    """Figures of a trace by name. Raises UnknownNameError with near matches."""
    documents = json.loads(RECORDED_TRAFFIC_PATH.read_text())
    if name not in documents:
        raise UnknownNameError("recorded.name", name, documents)
    document = documents[name]
    return RecordedTraffic(
        document["source"],
        np.asarray(document["quantile_levels"], dtype=np.float64),
        np.asarray(document["prompt_tokens"], dtype=np.float64),
        np.asarray(document["output_tokens"], dtype=np.float64),
        np.asarray(document["requests_per_10s"], dtype=np.float64) / _BIN_S,
    )


def make_generator(config: WorkloadConfig, steps: int) -> WorkloadGenerator:
    """The generator of a workload: of its recording if it has one."""
    return WorkloadGenerator(config, steps) if config.recorded is None else RecordedWorkload(config, steps)
