"""Engines under traffic made by hand or drawn, for the tests of the simulator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from inferencegym.models.serving import EngineTiming
from simulator.packs.trace_table import TraceTable, load_trace_table
from simulator.serving import kernel
from simulator.serving.engine import EngineModel, Knobs, SecondResult, ServingEngine
from simulator.serving.traffic.config import WorkloadConfig
from simulator.serving.traffic.workload import EpisodeTraffic, WorkloadGenerator

TABLE: TraceTable = load_trace_table()
PACK = TABLE.metadata

INTERACTIVE, BATCH, BEST_EFFORT = 0, 1, 2
FP16, INT8, INT4 = 0, 1, 2

OUT_OF_MEMORY = Knobs(batch_size=512)
"""The smallest change of the default that does not fit."""

FloatArray = npt.NDArray[np.float64]
Lengths = float | Sequence[float] | FloatArray


def workload(rate_rps: float = 1.0, **changes: Any) -> WorkloadConfig:
    """A workload of one class with a TTFT objective of 500 ms."""
    fields: dict[str, Any] = {
        "arrivals": {"rate_rps": rate_rps},
        "prompts": {"low": 256, "high": 256},
        "outputs": {"low": 300, "high": 300},
        "base_acceptance_rate": 0.80,
        "ttft_slo_ms": (500.0, None, None),
    }
    return WorkloadConfig.model_validate(fields | changes)


def by_hand(
    arrival: Sequence[float] | FloatArray,
    prompt: Lengths,
    output: Lengths,
    steps: int = 200,
    priority: Sequence[int] | None = None,
) -> EpisodeTraffic:
    """Traffic of exactly these requests (arrivals ascending), every one half way into an iteration."""
    total = len(arrival)
    times = np.asarray(arrival, dtype=np.float64)
    prompts = np.broadcast_to(np.asarray(prompt, dtype=np.float64), total).copy()
    outputs = np.broadcast_to(np.asarray(output, dtype=np.float64), total).copy()
    seconds = steps + 1
    return EpisodeTraffic(
        steps=steps,
        arrival=times,
        prompt=prompts,
        output=outputs,
        priority=np.zeros(total, dtype=np.int64) if priority is None else np.asarray(priority),
        iteration_share=np.full(total, 0.5),
        first_request=np.searchsorted(times, np.arange(seconds + 1)).astype(np.int64),
        rate_ema_rps=np.zeros(seconds),
        prompt_ema_tokens=np.full(seconds, float(prompts.mean()) if total else 256.0),
        mix=np.tile([1.0, 0.0, 0.0], (seconds, 1)),
        phase_index=np.zeros(seconds, dtype=np.int64),
        jitter=np.ones((seconds, 3)),
        output_mean_tokens=float(outputs.mean()) if total else 300.0,
    )


def drawn(config: WorkloadConfig, steps: int = 200, seed: int = 0) -> EpisodeTraffic:
    return WorkloadGenerator(config, steps).episode(np.random.default_rng(seed))


def engine_of(
    traffic: EpisodeTraffic, config: WorkloadConfig | None = None, timing: EngineTiming = "additive"
) -> ServingEngine:
    return ServingEngine(EngineModel(TABLE, config or workload(), timing), traffic)


def served(traffic: EpisodeTraffic, knobs: Knobs, config: WorkloadConfig | None = None) -> list[SecondResult]:
    """Results of every second under one setting."""
    engine = engine_of(traffic, config)
    return [engine.serve(knobs) for _ in range(traffic.steps + 1)]


def makespan_s(traffic: EpisodeTraffic, knobs: Knobs) -> tuple[float, int]:
    """Time until every request has finished, s (linear within the last second), and evictions on the way."""
    engine, evictions = engine_of(traffic), 0
    total = len(traffic.arrival)
    for second in range(traffic.steps + 1):
        result = engine.serve(knobs)
        evictions += result.evictions
        if engine.counts[1] == total:
            # Nothing runs after the last sequence: the busy share of the second is sequence time / sequences.
            return second + float(engine._out[kernel.OUT_SEQUENCE_S]) / max(result.finished, 1), evictions
    raise AssertionError(f"{total - engine.counts[1]} requests did not finish")


@dataclass
class LongRun:
    """Long-run means of an engine under one setting, after a warm-up."""

    arrivals_per_s: float
    running: float
    tpot_ms: float
    tokens_per_s: float
    processed_tokens_per_s: float
    queue: float
    ttft_p50_ms: float
    evictions: int


def long_run(config: WorkloadConfig, knobs: Knobs, steps: int = 600, seed: int = 0) -> LongRun:
    """Run ``steps`` seconds and average all but the first 60."""
    engine = engine_of(drawn(config, steps, seed), config)
    results: list[SecondResult] = []
    sequence_s = decoded = 0.0
    for second in range(steps + 1):
        result = engine.serve(knobs)
        if second < 60:
            continue
        results.append(result)
        sequence_s += engine._out[kernel.OUT_SEQUENCE_S]
        decoded += engine._out[kernel.OUT_DECODED]
    seconds = len(results)
    return LongRun(
        arrivals_per_s=sum(result.arrived for result in results) / seconds,
        running=sequence_s / seconds,
        tpot_ms=1000.0 * sequence_s / decoded,
        tokens_per_s=sum(result.tokens_per_s for result in results) / seconds,
        processed_tokens_per_s=sum(result.processed_tokens_per_s for result in results) / seconds,
        queue=sum(result.queue_depth for result in results) / seconds,
        ttft_p50_ms=float(np.median([result.ttft_p50_ms for result in results])),
        evictions=sum(result.evictions for result in results),
    )


def step_ms(running: float, context_tokens: float, spec_index: int = 0, tier: int = FP16) -> float:
    """Verify step at a number of sequences that need not be whole, ms."""
    rows = TABLE.step_rows_s[spec_index][tier]
    context = int(context_tokens)
    bucket, weight = TABLE.context_bucket[context], TABLE.context_weight[context]

    def at(sequences: int) -> float:
        low, high = rows[bucket][sequences], rows[bucket + 1][sequences]
        return low + weight * (high - low)

    whole = int(running)
    return 1000.0 * (at(whole) + (running - whole) * (at(whole + 1) - at(whole)))


def prefill_s(tokens: int, tier: int = FP16) -> float:
    return TABLE.prefill_rows_s[tier][tokens]


def ids_waiting(engine: ServingEngine) -> Iterator[int]:
    """Requests that wait: preempted ones, then the queues of the classes."""
    ints = engine._ints
    for place in range(ints[kernel.RING_LEN]):
        yield engine._ring[(ints[kernel.RING_HEAD] + place) % kernel.RING_SIZE]
    for lane, queue in enumerate(engine._queues):
        yield from queue[ints[kernel.HEAD + lane] : ints[kernel.TAIL + lane]]


def check_books(engine: ServingEngine, result: SecondResult, knobs: Knobs) -> None:
    """Every request is in one place, and the KV account equals what its owners hold."""
    ints, floats = engine._ints, engine._floats
    arrived, finished, dropped = engine.counts
    assert arrived == finished + dropped + result.queue_depth + result.running

    decoding = [item for item, order in enumerate(engine._order) if order >= 0]
    prefilling = [ints[kernel.PREFILLING]] if ints[kernel.PREFILLING] >= 0 else []
    waiting = list(ids_waiting(engine))
    assert len(decoding) == ints[kernel.RUNNING]
    assert len(waiting) == result.queue_depth <= kernel.QUEUE_CAPACITY
    assert len({*decoding, *prefilling, *waiting}) == len(decoding) + len(prefilling) + len(waiting)

    clock = floats[kernel.CLOCK]
    held = sum(engine._context[item] + clock - engine._joined[item] for item in decoding)
    if prefilling:
        held += floats[kernel.PRE_CONTEXT]
    assert abs(held - floats[kernel.KV_TOKENS]) < 1e-4
    if not prefilling and not result.oom:
        assert held <= engine.model.pool_tokens(knobs) + 1e-4
    for item in decoding:
        left = engine._left[item] - (clock - engine._joined[item])
        assert -1e-5 <= left <= engine._output[item]
