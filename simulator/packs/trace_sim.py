"""Steady-state answers from the trace table: what does this engine do under this load?

:class:`TraceSimulator` evaluates one action against one workload state, or N against N in a single call.
It solves for the operating point (Little's law with the table's latencies); the transient second by second
is :mod:`simulator.serving.engine`. Both read the same table and the same formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt

from inferencegym.errors import InvalidValueError, TracePackError
from inferencegym.models.serving import MetricsSnapshot, ServeAction, WorkloadState
from simulator.packs import physics
from simulator.packs.io import read_pack
from simulator.packs.on_offer import known_packs, pack_path
from simulator.packs.schema import BATCH_SIZES, SPEC_LENGTHS, PackMetadata
from simulator.packs.trace_table import DEFAULT_PACK_PATH, TraceTable, load_trace_table, log2_weights

__all__ = ["TraceSimulator", "packs_on_offer", "shared_simulator"]

FloatArray = npt.NDArray[np.float64]

JITTER_SIGMA = 0.05
"""Relative standard deviation of Gaussian measurement jitter on ttft_p50, ttft_p99 and tpot."""

_BISECTIONS = 60
"""Halvings of [0, limit]: to the last bits of a float."""

_IDLE_SEQUENCES = 1e-3
"""Fewest running sequences of an operating point: an idle engine, without a division by zero."""

_BUSIEST = 0.98
"""Largest share of time with a prefill that waits are computed for: at 1 they have no end."""

_LONGEST_WAIT_MEANS = 20.0
"""Upper end of the search for a wait, in mean waits: all but 2e-9 of an exponential are below."""

_TTFT_SLO_MS = 500.0
_MAX_WAIT_S = 200.0
"""Longest wait reported, s: an episode. A queue that is not served would wait for ever."""


class TraceSimulator:
    """Steady-state simulator of one engine.

    Args:
        trace_path: a trace pack (Parquet).
        seed: of the jitter generator.
        output_tokens: mean output length; default: the pack's reference.
        replicas: engines that share ``workload.arrival_rate`` equally.
        base_acceptance_rate: of drafts; default: the pack's reference.
        ttft_slo_ms: objective that ``slo_violation_rate`` counts against.
        jitter: switch the measurement jitter off with False.
    """

    def __init__(
        self,
        trace_path: str | Path = DEFAULT_PACK_PATH,
        seed: int = 42,
        *,
        output_tokens: float | None = None,
        replicas: int = 1,
        base_acceptance_rate: float | None = None,
        ttft_slo_ms: float = _TTFT_SLO_MS,
        jitter: bool = True,
    ) -> None:
        self.table: TraceTable = load_trace_table(Path(trace_path))
        pack = self.table.metadata
        self.output_tokens = float(output_tokens or pack.reference_output_tokens)
        self.replicas = replicas
        self.base_acceptance_rate = (
            pack.reference_acceptance_rate if base_acceptance_rate is None else base_acceptance_rate
        )
        self.ttft_slo_ms = ttft_slo_ms
        self._jitter = jitter
        self.reset_seed(seed)

    def reset_seed(self, seed: int) -> None:
        """Start the jitter sequence again from ``seed``."""
        self._rng = np.random.default_rng(seed)

    @overload
    def simulate(self, action: ServeAction, workload: WorkloadState) -> MetricsSnapshot: ...

    @overload
    def simulate(
        self, action: Sequence[ServeAction], workload: Sequence[WorkloadState]
    ) -> list[MetricsSnapshot]: ...

    def simulate(
        self,
        action: ServeAction | Sequence[ServeAction],
        workload: WorkloadState | Sequence[WorkloadState],
    ) -> MetricsSnapshot | list[MetricsSnapshot]:
        """Metrics of the operating point. Never raises on valid input: out of memory is data.

        Given two sequences of equal length N it answers N pairs in one vectorised call.
        """
        if isinstance(action, ServeAction) and isinstance(workload, WorkloadState):
            return self._simulate_many([action], [workload])[0]
        if isinstance(action, ServeAction) or isinstance(workload, WorkloadState):
            raise InvalidValueError("workload", type(workload).__name__, "one pair, or two sequences")
        if len(action) != len(workload):
            raise InvalidValueError("workload", len(workload), f"{len(action)} entries, one for each action")
        return self._simulate_many(action, workload) if action else []

    def _simulate_many(
        self, actions: Sequence[ServeAction], workloads: Sequence[WorkloadState]
    ) -> list[MetricsSnapshot]:
        columns = self._operating_points(actions, workloads)
        if self._jitter:
            noise = np.maximum(1.0 + JITTER_SIGMA * self._rng.standard_normal((len(actions), 3)), 0.5)
            for index, name in enumerate(("ttft_p50_ms", "ttft_p99_ms", "tpot_ms")):
                columns[name] = columns[name] * noise[:, index]
            columns["ttft_p99_ms"] = np.maximum(columns["ttft_p99_ms"], columns["ttft_p50_ms"])
        lists = {name: values.tolist() for name, values in columns.items()}
        for name in _WHOLE:
            lists[name] = [int(value) for value in lists[name]]
        rows = zip(*lists.values(), strict=True)
        return [MetricsSnapshot.model_validate(dict(zip(lists, row, strict=True))) for row in rows]

    def _operating_points(
        self, actions: Sequence[ServeAction], workloads: Sequence[WorkloadState]
    ) -> dict[str, npt.NDArray[np.float64] | npt.NDArray[np.bool_]]:
        """Columns of MetricsSnapshot, each of shape (N,), without jitter."""
        pack = self.table.metadata
        kv = np.array([a.kv_budget for a in actions])
        gamma = np.array([float(a.spec_length) for a in actions])
        cap = np.array([float(a.batch_size) for a in actions])
        tier = np.array([int(a.quant_tier) for a in actions])
        disagg = np.array([a.prefill_disagg for a in actions])
        rate = np.array([w.arrival_rate for w in workloads]) / self.replicas
        prompt = np.array([w.mean_prompt_len for w in workloads])
        bucket = np.array([float(w.prompt_len_bucket) for w in workloads])
        queue = np.array([float(w.queue_depth) for w in workloads])

        pool_tokens = kv * np.asarray(pack.kv_pool_tokens, dtype=np.float64)[tier]
        memory = physics.memory_gb(
            np.asarray(pack.weights_bytes)[tier],
            pack.fixed_bytes,
            pack.sampler_bytes_per_row,
            cap,
            gamma,
            pool_tokens * pack.kv_bytes_per_token,
        )
        oom = memory > pack.memory_limit_gb
        acceptance = np.where(
            gamma > 0, physics.acceptance_rate(self.base_acceptance_rate, bucket, gamma), 0.0
        )
        per_step = physics.tokens_per_verify_step(acceptance, gamma)
        output = np.asarray(self.output_tokens)
        fits = physics.sequences_that_fit(pool_tokens, prompt, output)
        limit = np.minimum(cap, np.maximum(fits, 1.0))

        spec_index = np.array([SPEC_LENGTHS.index(a.spec_length) for a in actions])
        running, step_ms, prefill_ms = self._solve(
            spec_index, tier, kv, prompt, rate, queue, limit, per_step, disagg
        )
        stall = np.where(disagg, 0.0, physics.prefill_stall_ms(running, prefill_ms, output))
        tpot = step_ms / per_step + stall
        prefill_bound = 1000.0 / prefill_ms
        served = np.minimum(1000.0 * running / (tpot * self.output_tokens), prefill_bound)
        transfer = np.where(
            disagg, 1000.0 * prompt * pack.kv_bytes_per_token / (pack.kv_link_gb_per_s * 1e9), 0.0
        )
        wait_ms = 1000.0 * np.minimum(queue / np.maximum(served, 1e-9), _MAX_WAIT_S)
        in_flight = np.where(disagg, 0.0, step_ms)
        # Decode steps between its chunks, when there is anybody to decode.
        between = (
            prompt / pack.prefill_chunk_tokens * in_flight * np.clip(running - _IDLE_SEQUENCES, 0.0, 1.0)
        )
        service_ms = prefill_ms + between
        busy = np.where(queue > 0, 0.0, np.minimum(rate * service_ms / 1000.0, _BUSIEST))
        ttft_p50, ttft_p99 = (
            share * wait_ms + service_ms + transfer + _wait_for_prefill_ms(share, busy, service_ms, in_flight)
            for share in (0.50, 0.99)
        )
        wanted = np.minimum(np.where(queue > 0, cap, rate * tpot * self.output_tokens / 1000.0), cap)
        evictions = np.where(wanted > fits, np.ceil(wanted - fits), 0.0)
        tokens = np.where(oom, 0.0, served * self.output_tokens)
        processed = np.where(oom, 0.0, served * (self.output_tokens + prompt))
        missed = np.where(oom, 1.0, self._missed_share(ttft_p50, wait_ms))
        due = queue + rate
        return {
            "ttft_p50_ms": ttft_p50,
            "ttft_p99_ms": ttft_p99,
            "tpot_ms": tpot,
            "tokens_per_sec": tokens,
            "gpu_memory_gb": np.minimum(memory, pack.memory_limit_gb),
            "cost_per_1k": np.asarray(
                physics.cost_cents_per_1k(
                    pack.cents_per_engine_hour, 1.0 + disagg, processed, pack.cost_cap_cents_per_1k
                )
            ),
            "spec_accept_rate": acceptance,
            "eviction_events": np.where(oom, 0.0, evictions),
            "slo_violations": np.rint(missed * due * np.where(oom, 5.0, 1.0)),
            "slo_violation_rate": missed,
            "oom": oom,
        }

    def _solve(
        self,
        spec_index: npt.NDArray[np.intp],
        tier: npt.NDArray[np.intp],
        kv: FloatArray,
        prompt: FloatArray,
        rate: FloatArray,
        queue: FloatArray,
        limit: FloatArray,
        per_step: FloatArray,
        disagg: npt.NDArray[np.bool_],
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Running sequences by Little's law, with the step and prefill times there.

        ``running = min(limit, rate * output * TPOT(running))``; all of ``limit`` when a queue is waiting.
        What is wanted exceeds what runs up to the operating point and falls short of it beyond, so halving
        an interval finds it, each row by itself.
        """
        # The table was measured at a context of prompt + reference output / 2.
        length = prompt + 0.5 * (self.output_tokens - self.table.metadata.reference_output_tokens)
        nodes = np.broadcast_to(np.asarray(BATCH_SIZES, dtype=np.float64), (len(kv), len(BATCH_SIZES)))
        nodes_ms = self._read(_STEP_MS, spec_index, tier, nodes, kv, length)
        prefill_ms = self._read(_PREFILL_MS, spec_index, tier, nodes[:, :1], kv, prompt)[:, 0]
        output = np.asarray(self.output_tokens)

        def wanted(running: FloatArray) -> FloatArray:
            stall = np.where(disagg, 0.0, physics.prefill_stall_ms(running, prefill_ms, output))
            return rate * output * (_between_nodes(nodes_ms, running) / per_step + stall) / 1000.0

        low, high = np.zeros_like(limit), limit.copy()
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            short = wanted(middle) < middle
            low, high = np.where(short, low, middle), np.where(short, middle, high)
        saturated = (queue > 0) | (wanted(limit) >= limit)
        running = np.where(saturated, limit, np.maximum(high, _IDLE_SEQUENCES))
        step_ms = self._read(_STEP_MS, spec_index, tier, running[:, None], kv, length)[:, 0]
        return running, step_ms, prefill_ms

    def _read(
        self,
        column: int,
        spec_index: npt.NDArray[np.intp],
        tier: npt.NDArray[np.intp],
        batch: FloatArray,
        kv: FloatArray,
        length: FloatArray,
    ) -> FloatArray:
        """One column of the table at N rows of K batch sizes, shape (N, K)."""
        values = np.empty(batch.shape)
        for g, q in {*zip(spec_index.tolist(), tier.tolist(), strict=True)}:
            at = np.flatnonzero((spec_index == g) & (tier == q))
            sizes = batch[at]
            repeated = (np.repeat(axis[at], sizes.shape[1]) for axis in (kv, length))
            found = self.table.interpolate(g, q, sizes.ravel(), *repeated)[:, column]
            values[at] = found.reshape(sizes.shape)
        return values

    def _missed_share(self, ttft_p50: FloatArray, wait_ms: FloatArray) -> FloatArray:
        """Share of requests past the objective: waits are uniform from 0 to ``wait_ms``."""
        base = ttft_p50 - 0.5 * wait_ms
        slack = np.maximum(self.ttft_slo_ms - base, 0.0)
        share = np.where(wait_ms > 0, 1.0 - slack / np.maximum(wait_ms, 1e-9), 0.0)
        return np.clip(np.where(base > self.ttft_slo_ms, 1.0, share), 0.0, 1.0)


def _wait_for_prefill_ms(
    share: float, busy: FloatArray, service_ms: FloatArray, in_flight_ms: FloatArray
) -> FloatArray:
    """Percentile of the time between arrival and prefill, without a queue for the batch; (N,) each.

    With probability ``1 - busy`` nobody is being prefilled and the request waits for the end of the iteration
    in flight, uniform up to ``in_flight_ms``. Else it waits behind other prefills: Poisson arrivals at one
    server with a constant service time, whose waits are near exponential with mean
    ``service / (2 (1 - busy))`` (Pollaczek and Khinchine).
    """
    mean_ms = service_ms / (2.0 * (1.0 - busy))
    low, high = np.zeros_like(busy), in_flight_ms + _LONGEST_WAIT_MEANS * mean_ms
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        idle = np.where(in_flight_ms > 0, np.minimum(middle / np.maximum(in_flight_ms, 1e-9), 1.0), 1.0)
        short = (1.0 - busy) * idle + busy * -np.expm1(-middle / mean_ms) < share
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return high


_WHOLE = ("eviction_events", "slo_violations")

_STEP_MS, _PREFILL_MS = -2, -1
"""Columns of ``TraceTable.interpolate``."""


def _between_nodes(nodes_ms: FloatArray, running: FloatArray) -> FloatArray:
    """Step time of N rows between the grid's batch sizes, (N, K) and (N,): linear in log2, held below 1."""
    left, weight = log2_weights(running, BATCH_SIZES)
    rows = np.arange(len(running))
    low, high = nodes_ms[rows, left], nodes_ms[rows, left + 1]
    return low + weight * (high - low)


def shared_simulator(pack: str | None = None) -> TraceSimulator:
    """The simulator over a pack by name, one a process; over the default pack for None.

    Raises:
        UnknownNameError: no such pack.
        TracePackError: its file cannot be read.
    """
    return _simulator_at(pack_path(pack))


def packs_on_offer() -> tuple[dict[str, PackMetadata], dict[str, str]]:
    """Where every pack that may be named comes from; and of those that cannot be read, why not.

    A file in the operator's folder may be anything: it must not take the others with it.
    """
    readable: dict[str, PackMetadata] = {}
    unreadable: dict[str, str] = {}
    for name, path in known_packs().items():
        try:
            readable[name] = _metadata_at(path)
        except TracePackError as error:
            unreadable[name] = error.message
    return readable, unreadable


@cache
def _metadata_at(path: Path) -> PackMetadata:
    """Read once, as the tables are: a process plays and tells one version of a pack."""
    return read_pack(path).metadata


@cache
def _simulator_at(path: Path) -> TraceSimulator:
    return TraceSimulator(path)
