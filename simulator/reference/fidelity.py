"""How far the fast simulator is from the reference under each engine timing: the same traffic, at shares of
capacity.

:data:`SETTINGS` are constant settings over traffic like that of the tasks. ``make fidelity``
(:mod:`simulator.reference.fidelity_report`) runs them at every load and prints the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields

import numpy as np

from inferencegym.models.serving import EngineTiming
from simulator.packs.trace_table import TraceTable
from simulator.reference.engine import ReferenceEngine
from simulator.serving.engine import EngineModel, Knobs, ServingEngine
from simulator.serving.iteration_time import IterationTimes
from simulator.serving.timing import ENGINE_TIMINGS
from simulator.serving.traffic.config import WorkloadConfig, get_workload
from simulator.serving.traffic.workload import EpisodeTraffic, WorkloadGenerator

__all__ = [
    "BARS",
    "LOADS",
    "METRICS",
    "NEAR_SATURATION",
    "SETTINGS",
    "Figures",
    "Point",
    "Setting",
    "capacity_rps",
    "compare",
    "explain",
    "measure",
    "run_setting",
    "worst_below_saturation",
]

LOADS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1.1, 1.3, 1.5)
"""Arrivals as a share of what the reference can serve."""

NEAR_SATURATION = 0.9
"""The largest load at which the reference has no lasting queue. A simulator whose capacity is a tenth lower
has one there, and its TTFT has no bound: this load is reported by itself."""

BARS = {"ttft_p50_ms": 0.15, "ttft_p99_ms": 0.30, "tpot_ms": 0.15, "tokens_per_s": 0.15}
"""Largest relative error below saturation that is no fault."""

_WARM_UP_S = 60
_SHORTEST_S, _LONGEST_S = 240, 1800
_REQUESTS = 2000
"""Requests that a run waits for, within those bounds: a p99 then rests on twenty."""

_OVERLOAD = 4.0
"""Arrivals in the measurement of capacity, as a multiple of a first guess of it."""

EngineMaker = Callable[[EngineModel, EpisodeTraffic], ServingEngine]


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the comparison: traffic and a constant action."""

    name: str
    workload: WorkloadConfig
    knobs: Knobs

    def at(self, rate_rps: float) -> WorkloadConfig:
        """The traffic at another rate."""
        return self.workload.model_copy(
            update={"arrivals": self.workload.arrivals.model_copy(update={"rate_rps": rate_rps})}
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """What an engine yields over a run, the warm-up left out."""

    ttft_p50_ms: float
    ttft_p99_ms: float
    tpot_ms: float
    tokens_per_s: float
    kv_occupancy: float
    """Mean share of the pool that is held."""
    evictions_per_s: float


METRICS = tuple(field.name for field in fields(Figures))


@dataclass(frozen=True, slots=True)
class Point:
    """Both simulators at one load."""

    timing: EngineTiming
    setting: str
    load: float
    rate_rps: float
    fast: Figures
    reference: Figures

    def error(self, name: str) -> float:
        """Relative error of the fast simulator; of occupancy the difference, since it may be near 0."""
        fast, reference = getattr(self.fast, name), getattr(self.reference, name)
        return fast - reference if name == "kv_occupancy" else fast / reference - 1.0


def _plain(prompts: tuple[int, int], outputs: tuple[int, int]) -> WorkloadConfig:
    """One class, uniform lengths."""
    return WorkloadConfig.model_validate(
        {
            "arrivals": {"rate_rps": 1.0},
            "prompts": {"low": prompts[0], "high": prompts[1]},
            "outputs": {"low": outputs[0], "high": outputs[1]},
            "base_acceptance_rate": 0.80,
            "ttft_slo_ms": (500.0, None, None),
        }
    )


def _task(task_id: str) -> WorkloadConfig:
    """A task's lengths and classes, one replica, no bursts."""
    config = get_workload(task_id)
    steady = config.arrivals.model_copy(update={"burst_s": 0})
    return config.model_copy(update={"arrivals": steady, "replicas": 1})


_CHAT = _plain((128, 384), (200, 400))

SETTINGS = (
    Setting("chat, batch 200", _CHAT, Knobs(batch_size=200)),
    Setting("chat, batch 32", _CHAT, Knobs(batch_size=32)),
    Setting("short prompts (task 1), batch 230", _task("task1"), Knobs(batch_size=230)),
    Setting("mixed prompts (task 2), batch 128", _task("task2"), Knobs(0.8, batch_size=128)),
    Setting("mixed prompts, 2 drafts, batch 64", _task("task2"), Knobs(0.8, 2, batch_size=64)),
    Setting("chat, INT8, batch 200", _CHAT, Knobs(0.9, batch_size=200, quant_tier=1)),
    Setting("chat, INT4, batch 48", _CHAT, Knobs(0.9, batch_size=48, quant_tier=2)),
    Setting("documents (task 3), batch 128", _task("task3"), Knobs(0.9, batch_size=128)),
    Setting("documents, disaggregated", _task("task3"), Knobs(0.9, batch_size=128, prefill_disagg=True)),
    Setting("chat, disaggregated, batch 200", _CHAT, Knobs(batch_size=200, prefill_disagg=True)),
    Setting("chat, tight KV, batch 200", _CHAT, Knobs(0.3, batch_size=200)),
)


def measure(
    make: EngineMaker,
    table: TraceTable,
    workload: WorkloadConfig,
    knobs: Knobs,
    seconds: int,
    seed: int = 0,
    timing: EngineTiming = "additive",
) -> Figures:
    """Run an engine for a minute and ``seconds`` of its own drawn traffic and average the latter."""
    traffic = WorkloadGenerator(workload, _WARM_UP_S + seconds - 1).episode(np.random.default_rng(seed))
    engine = make(EngineModel(table, workload, timing), traffic)
    ttft_s: list[float] = []
    tokens = token_ms = occupancy = 0.0
    evictions = 0
    for second in range(_WARM_UP_S + seconds):
        result = engine.serve(knobs)
        if second < _WARM_UP_S:
            continue
        ttft_s += engine.last_ttft_s
        tokens += result.tokens_per_s
        token_ms += result.tokens_per_s * result.tpot_ms
        occupancy += result.kv_occupancy
        evictions += result.evictions
    p50, p99 = 1000.0 * np.percentile(ttft_s, [50, 99])
    return Figures(
        ttft_p50_ms=float(p50),
        ttft_p99_ms=float(p99),
        tpot_ms=token_ms / tokens,
        tokens_per_s=tokens / seconds,
        kv_occupancy=occupancy / seconds,
        evictions_per_s=evictions / seconds,
    )


def capacity_rps(table: TraceTable, setting: Setting, seconds: int = 240) -> float:
    """Requests/s that the reference serves when it never lacks any."""
    guess = 8.0
    for _ in range(2):
        overloaded = setting.at(_OVERLOAD * guess)
        tokens = measure(ReferenceEngine, table, overloaded, setting.knobs, seconds).tokens_per_s
        guess = tokens / _mean_output(overloaded)
    return guess


def compare(
    table: TraceTable, setting: Setting, load: float, capacity: float, seed: int = 0
) -> dict[EngineTiming, Point]:
    """The fast simulator under each timing, and the reference, under the same requests."""
    rate = load * capacity
    given = (table, setting.at(rate), setting.knobs, _seconds(rate), seed)
    reference = measure(ReferenceEngine, *given)
    return {
        timing: Point(timing, setting.name, load, rate, measure(ServingEngine, *given, timing), reference)
        for timing in ENGINE_TIMINGS
    }


def run_setting(
    table: TraceTable, setting: Setting, loads: Iterable[float] = LOADS
) -> dict[EngineTiming, list[Point]]:
    """A setting at every load, under each timing."""
    capacity = capacity_rps(table, setting)
    runs = [compare(table, setting, load, capacity) for load in loads]
    return {timing: [run[timing] for run in runs] for timing in ENGINE_TIMINGS}


def worst_below_saturation(points: Iterable[Point], name: str) -> float:
    """The error of the largest size among the loads below ``NEAR_SATURATION``."""
    return max((point.error(name) for point in points if point.load < NEAR_SATURATION), key=abs)


def explain(table: TraceTable, setting: Setting, point: Point) -> Figures:
    """The reference at a point, with the additive engine's step and prefill times.

    What is left between the additive engine and this is due to the scheduler, what is between this and the
    reference to the times of an iteration.
    """
    times = IterationTimes(table, one_pass=False, staircase=False)

    def make(model: EngineModel, traffic: EpisodeTraffic) -> ReferenceEngine:
        return ReferenceEngine(model, traffic, times=times)

    return measure(make, table, setting.at(point.rate_rps), setting.knobs, _seconds(point.rate_rps))


def _seconds(rate_rps: float) -> int:
    return int(min(max(_REQUESTS / rate_rps, _SHORTEST_S), _LONGEST_S))


def _mean_output(workload: WorkloadConfig) -> float:
    return WorkloadGenerator(workload, 1).episode(np.random.default_rng(0)).output_mean_tokens
