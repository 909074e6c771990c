"""One simulated engine with its traffic: resolves actions against the trace table and keeps the state.

:class:`ServingEngine` is what an episode owns. It calls :func:`simulator.serving.kernel.serve_second` for the
physics of a second and turns the counts into a :class:`SecondResult`.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, NamedTuple, Protocol

from inferencegym.models.serving import EngineTiming, QuantTier
from simulator.packs.physics import (
    acceptance_rate,
    cost_cents_per_1k,
    memory_gb,
    prompt_bucket,
    tokens_per_verify_step,
)
from simulator.packs.schema import SPEC_LENGTHS
from simulator.packs.trace_table import MAX_DENSE_TOKENS, TraceTable
from simulator.serving import kernel
from simulator.serving.timing import EngineRows, engine_rows
from simulator.serving.traffic.config import WorkloadConfig
from simulator.serving.traffic.workload import EpisodeTraffic

__all__ = ["Engine", "EngineModel", "Knobs", "SecondResult", "ServingEngine"]


class Knobs(NamedTuple):
    """The five knobs as plain numbers; what the physics needs of a ServeAction."""

    kv_budget: float = 1.0
    spec_length: int = 0
    batch_size: int = 32
    prefill_disagg: bool = False
    quant_tier: int = QuantTier.FP16.value


class SecondResult(NamedTuple):
    """What one second of an engine yields, before measurement jitter."""

    ttft_p50_ms: float
    ttft_p99_ms: float
    tpot_ms: float
    tokens_per_s: float
    processed_tokens_per_s: float
    memory_gb: float
    cost_per_1k: float
    accept_rate: float
    evictions: int
    violations: int
    violation_rate: float
    oom: bool
    queue_depth: int
    kv_occupancy: float
    running: int
    arrived: int
    finished: int
    dropped: int


# --- Running sequences: a heap of (finishing clock, admission order, id) and a stack of (admission order,
# id). An entry whose order is no longer its request's own is stale and skipped. ---

_Heap = list[tuple[float, int, int]]
_Stack = list[tuple[int, int]]


def _heap_push(heap: _Heap, stack: _Stack, _size: int, key: float, order: int, item: int) -> None:
    heappush(heap, (key, order, item))
    stack.append((order, item))


def _heap_first(heap: _Heap, order: list[int]) -> float:
    """Clock at which the next sequence finishes."""
    while heap:
        key, admitted, item = heap[0]
        if order[item] == admitted:
            return key
        heappop(heap)
    return 0.0


def _heap_pop(heap: _Heap, _stack: _Stack, _size: int, order: list[int]) -> int:
    """Remove and return the sequence that finishes next."""
    while True:
        _, admitted, item = heappop(heap)
        if order[item] == admitted:
            return item


def _heap_take_latest(_heap: _Heap, stack: _Stack, _size: int, order: list[int]) -> int:
    """Remove and return the sequence that was admitted last."""
    while True:
        admitted, item = stack.pop()
        if order[item] == admitted:
            return item


@dataclass(frozen=True, slots=True)
class EngineModel:
    """Constants of an engine in one deployment: trace table, service level of the workload, timing."""

    table: TraceTable
    workload: WorkloadConfig
    timing: EngineTiming = "additive"

    @property
    def rows(self) -> EngineRows:
        """Dense times under the engine's timing."""
        return engine_rows(self.table, self.timing)

    def memory_gb(self, knobs: Knobs) -> float:
        """GiB that a configuration reserves on the decode GPU; above the pack's limit it does not fit."""
        pack = self.table.metadata
        return memory_gb(
            pack.weights_bytes[knobs.quant_tier],
            pack.fixed_bytes,
            pack.sampler_bytes_per_row,
            knobs.batch_size,
            knobs.spec_length,
            self.pool_tokens(knobs) * pack.kv_bytes_per_token,
        )

    def pool_tokens(self, knobs: Knobs) -> float:
        """Tokens of the allocated KV pool."""
        return knobs.kv_budget * self.table.metadata.kv_pool_tokens[knobs.quant_tier]

    def accept_rate(self, knobs: Knobs, prompt_tokens: float) -> float:
        """Draft acceptance of this workload; 0 when not speculating."""
        if knobs.spec_length == 0:
            return 0.0
        bucket = prompt_bucket(prompt_tokens)
        return acceptance_rate(self.workload.base_acceptance_rate, bucket, knobs.spec_length)


class Engine(Protocol):
    """An engine with its traffic: this module's, or ``simulator.serving.compiled``'s."""

    @property
    def second(self) -> int: ...

    def serve(self, knobs: Knobs) -> SecondResult: ...

    def snapshot(self) -> Any: ...

    def restore(self, state: Any) -> None: ...


class ServingEngine:
    """An engine serving one episode's traffic, second by second.

    Args:
        model: deployment constants.
        traffic: the episode's requests; second 0 has not been served yet.
    """

    def __init__(self, model: EngineModel, traffic: EpisodeTraffic) -> None:
        self.model = model
        self._rows = model.rows
        self.traffic = traffic
        self.second = 0
        self.tier = -1
        self._slo_s = [ms / 1000.0 for ms in model.workload.slo_ms]
        self._arrival: list[float] = traffic.arrival.tolist()
        self._prompt: list[float] = traffic.prompt.tolist()
        self._output: list[float] = traffic.output.tolist()
        self._priority: list[int] = traffic.priority.tolist()
        self._iteration_share: list[float] = traffic.iteration_share.tolist()
        self._first: list[int] = traffic.first_request.tolist()
        self._prompt_ema: list[float] = traffic.prompt_ema_tokens.tolist()
        total = len(self._arrival)
        self._floats = [0.0] * kernel.FLOAT_STATE
        self._ints = [0] * kernel.INT_STATE
        self._ints[kernel.PREFILLING] = -1
        self._queues = [[0] * total, [0] * total, [0] * total]
        self._ring = [0] * kernel.RING_SIZE
        self._left = list(self._output)
        self._context = list(self._prompt)
        self._joined = [0.0] * total
        self._order = [-1] * total
        self._heap: _Heap = []
        self._stack: _Stack = []
        self._ttft = [0.0] * (total + 1)
        self._out = [0.0] * kernel.OUTPUTS

    @property
    def running(self) -> int:
        """Sequences in the engine: decoding, or being prefilled."""
        return self._ints[kernel.RUNNING] + (1 if self._ints[kernel.PREFILLING] >= 0 else 0)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Requests arrived, finished and dropped since the start of the episode."""
        arrived, served, dropped = (self._ints[index] for index in kernel.COUNTERS)
        return arrived, served, dropped

    @property
    def last_ttft_s(self) -> list[float]:
        """TTFT of the requests whose first token came in the last second, s."""
        return list(self._ttft[: int(self._out[kernel.OUT_FIRST_TOKENS])])

    def snapshot(self) -> dict[str, Any]:
        """Copy of everything that changes as time goes on."""
        state = {name: copy(getattr(self, name)) for name in _MUTABLE}
        state["_queues"] = [list(queue) for queue in self._queues]
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Back to a snapshot, which stays usable."""
        for name in _MUTABLE:
            setattr(self, name, copy(state[name]))
        self._queues = [list(queue) for queue in state["_queues"]]

    def serve(self, knobs: Knobs) -> SecondResult:
        """Serve the next second under ``knobs`` (already valid) and advance the clock."""
        times, pack = self._rows, self.model.table.metadata
        second = self.second
        tier, gamma = knobs.quant_tier, knobs.spec_length
        pool_tokens = self.model.pool_tokens(knobs)
        memory = self.model.memory_gb(knobs)
        oom = memory > pack.memory_limit_gb
        prompt_mean = self._prompt_ema[second]
        acceptance = self.model.accept_rate(knobs, prompt_mean)
        tokens_per_step = tokens_per_verify_step(acceptance, gamma)
        context = min(max(self._mean_context(prompt_mean), 0), MAX_DENSE_TOKENS)
        rows = times.step_rows_s[SPEC_LENGTHS.index(gamma)][tier]
        bucket, weight = times.context_bucket[context], times.context_weight[context]
        stall_s = 0.0
        if self.tier not in (-1, tier):
            stall_s = pack.weights_bytes[tier] / (pack.weight_load_gb_per_s * 1e9)
        self.tier = tier
        first, last = self._first[second], self._first[second + 1]
        kernel.serve_second(
            float(second),
            first,
            last,
            self._arrival,
            self._prompt,
            self._output,
            self._priority,
            self._iteration_share,
            knobs.batch_size,
            pool_tokens,
            tokens_per_step,
            rows[bucket],
            rows[bucket + 1],
            weight,
            times.prefill_rows_s[tier],
            times.pass_rows_s[tier],
            times.mixed_batch,
            gamma + 1,
            float(pack.prefill_chunk_tokens),
            knobs.prefill_disagg,
            pack.kv_bytes_per_token / (pack.kv_link_gb_per_s * 1e9),
            stall_s,
            oom,
            self._slo_s,
            self._floats,
            self._ints,
            self._queues,
            self._ring,
            self._left,
            self._context,
            self._joined,
            self._order,
            self._heap,
            self._stack,
            self._ttft,
            self._out,
            _heap_push,
            _heap_pop,
            _heap_first,
            _heap_take_latest,
        )
        self.second = second + 1
        return self._result(knobs, memory, oom, acceptance, tokens_per_step, pool_tokens, last - first)

    def _mean_context(self, prompt_mean: float) -> int:
        """Mean context of the decoding sequences, tokens. What is being prefilled is not read by decode."""
        decoding = self._ints[kernel.RUNNING]
        if not decoding:
            return int(prompt_mean)
        tokens = self._floats[kernel.KV_TOKENS]
        if self._ints[kernel.PREFILLING] >= 0:
            tokens -= self._floats[kernel.PRE_CONTEXT]
        return int(tokens / decoding)

    def _result(
        self,
        knobs: Knobs,
        memory: float,
        oom: bool,
        acceptance: float,
        tokens_per_step: float,
        pool_tokens: float,
        arrived: int,
    ) -> SecondResult:
        pack = self.model.table.metadata
        (
            tokens,
            prompt_tokens,
            sequence_s,
            decoded,
            first_tokens,
            late,
            waiting_late,
            rejected,
            evictions,
            finished,
            _,
            queue,
        ) = self._out
        if decoded:
            tpot_ms = 1000.0 * (sequence_s / decoded)
        else:
            tpot_ms = 1000.0 * (self._step_of_one_s(knobs) / tokens_per_step)
        p50_ms, p99_ms = self._ttft_percentiles_ms(knobs, int(first_tokens))
        processed = tokens + prompt_tokens
        gpus = 2.0 if knobs.prefill_disagg else 1.0
        missed = late + waiting_late + rejected
        due = first_tokens + waiting_late + rejected
        violation = missed / due if due else 0.0
        if oom:
            missed, violation = 5.0 * missed, 1.0
        # In the order of the fields: by keyword it would take twice as long.
        return SecondResult(
            p50_ms,
            p99_ms,
            tpot_ms,
            tokens,
            processed,
            pack.memory_limit_gb if oom else memory,
            float(cost_cents_per_1k(pack.cents_per_engine_hour, gpus, processed, pack.cost_cap_cents_per_1k)),
            acceptance,
            int(evictions),
            int(missed),
            violation,
            oom,
            int(queue),
            min(max(self._floats[kernel.KV_TOKENS] / pool_tokens, 0.0), 1.0),
            self.running,
            arrived,
            int(finished),
            int(rejected),
        )

    def _step_of_one_s(self, knobs: Knobs) -> float:
        """Verify step of a single sequence at the mean prompt length, seconds."""
        times = self._rows
        context = min(int(self._prompt_ema[self.second - 1]), MAX_DENSE_TOKENS)
        rows = times.step_rows_s[SPEC_LENGTHS.index(knobs.spec_length)][knobs.quant_tier]
        bucket, weight = times.context_bucket[context], times.context_weight[context]
        return rows[bucket][1] + weight * (rows[bucket + 1][1] - rows[bucket][1])

    def _ttft_percentiles_ms(self, knobs: Knobs, served: int) -> tuple[float, float]:
        """TTFT p50 and p99 over the requests served this second, ms.

        With none served: over the waits so far of those still queued; with none queued either: what an
        idle engine would give a prompt of mean length.
        """
        if served:
            samples = sorted(self._ttft[:served])
            return 1000.0 * _percentile(samples, 0.50), 1000.0 * _percentile(samples, 0.99)
        waiting = self._waiting()
        if waiting:
            # Earliest arrivals first, so percentiles of the wait run from the end of the list.
            median_s = self.second - self._arrival[waiting[(len(waiting) - 1) // 2]]
            longest_s = self.second - self._arrival[waiting[len(waiting) // 100]]
            return 1000.0 * median_s, 1000.0 * longest_s
        length = min(int(self._prompt_ema[self.second - 1]), MAX_DENSE_TOKENS)
        prefill_s = self._rows.prefill_rows_s[knobs.quant_tier][length]
        idle_ms = 1000.0 * (prefill_s + 0.5 * self._step_of_one_s(knobs))
        return idle_ms, idle_ms

    def _waiting(self) -> list[int]:
        """Ids of requests that wait for their first token, earliest arrival first."""
        ids: list[int] = []
        for lane, queue in enumerate(self._queues):
            ids += queue[self._ints[kernel.HEAD + lane] : self._ints[kernel.TAIL + lane]]
        ids.sort()
        return ids


_MUTABLE = (
    "second",
    "tier",
    "_floats",
    "_ints",
    "_ring",
    "_left",
    "_context",
    "_joined",
    "_order",
    "_heap",
    "_stack",
)


def _percentile(ordered: list[float], share: float) -> float:
    """Percentile of sorted samples, linear between order statistics (NumPy's default rule)."""
    position = share * (len(ordered) - 1)
    left = int(position)
    if left + 1 >= len(ordered):
        return ordered[-1]
    return ordered[left] + (position - left) * (ordered[left + 1] - ordered[left])
