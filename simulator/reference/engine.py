"""The reference: an engine simulated iteration by iteration, to hold the fast simulator against.

:class:`ReferenceEngine` serves what :class:`simulator.serving.engine.ServingEngine` serves, second by second
and from the same trace pack, but nothing is smoothed: every iteration has its own batch and contexts
(:mod:`simulator.serving.iteration_time`), prompts come in chunks within a token budget, the cache in blocks,
and
draft tokens are accepted or not, sequence by sequence (:mod:`simulator.reference.kernel`). It takes the place
of the fast one wherever an engine is passed in: ``InferenceEnv(simulator, task, engine=ReferenceEngine)``.

With numba (extra ``gym``) it runs compiled; without, the same source runs as it stands, to the same numbers.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.packs.physics import acceptance_rate, prompt_bucket, tokens_per_verify_step
from simulator.packs.schema import PROMPT_BUCKETS
from simulator.packs.trace_table import TraceTable
from simulator.reference import kernel
from simulator.reference import rows as layout
from simulator.reference.rows import BLOCK_TOKENS, Plan, State
from simulator.serving import kernel as fast_kernel
from simulator.serving.engine import EngineModel, Knobs, SecondResult, ServingEngine
from simulator.serving.iteration_time import IterationTables, IterationTimes
from simulator.serving.traffic.workload import EpisodeTraffic

__all__ = ["ReferenceEngine", "RequestLog", "iteration_times"]

_LARGEST_BATCH = 512
_DRAWS_PER_SECOND = 2**16
"""Draft draws made ahead: 512 sequences at a hundred iterations a second take fewer."""


@dataclass(frozen=True, slots=True)
class RequestLog:
    """What has become of every request of an episode; arrays of one entry a request."""

    arrival_s: npt.NDArray[np.float64]
    first_token_s: npt.NDArray[np.float64]
    """-1 when it has not come."""
    finish_s: npt.NDArray[np.float64]
    """-1 when it has not finished."""
    emitted: npt.NDArray[np.int64]
    """Output tokens."""
    preemptions: npt.NDArray[np.int64]


class ReferenceEngine(ServingEngine):
    """See the module.

    Args:
        model: deployment constants.
        traffic: the episode's requests; second 0 has not been served yet.
        rng: draws which drafts are accepted; default: seed 0.
        times: iteration times; default: those of the model's pack.
        machine_code: run compiled; default: when numba is installed.
    """

    def __init__(
        self,
        model: EngineModel,
        traffic: EpisodeTraffic,
        rng: np.random.Generator | None = None,
        *,
        times: IterationTimes | None = None,
        machine_code: bool | None = None,
    ) -> None:
        super().__init__(model, traffic)
        self._rng = rng or np.random.default_rng(0)
        self._times = times or iteration_times(model.table)
        compiled = _machine_code() if machine_code is not False else None
        if machine_code and compiled is None:
            raise ModuleNotFoundError("machine_code=True needs numba (extra gym).", name="numba")
        self._serve_iterations: Any = compiled or kernel.serve_iterations
        self._as_lists = compiled is None
        self._state = self._empty_state()
        self._total_blocks = 0
        self._counts = [0, 0, 0]

    def _empty_state(self) -> State:
        traffic, total = self.traffic, len(self.traffic.arrival)
        prompt = traffic.prompt.astype(np.int64)
        ints = np.zeros(layout.INTS, dtype=np.int64)
        times = np.zeros(layout.TIMES)
        times[[layout.ENGINE_END, layout.PREFILL_END]] = np.inf
        whole = {name: np.zeros(total, dtype=np.int64) for name in _WHOLE}
        arrays = State(
            arrival_s=traffic.arrival.copy(),
            prompt=prompt,
            output=traffic.output.astype(np.int64),
            priority=traffic.priority.astype(np.int64),
            bucket=np.asarray([prompt_bucket(float(tokens)) for tokens in prompt], dtype=np.int64),
            target=prompt.copy(),
            ready_s=np.zeros(total),
            first_s=np.full(total, -1.0),
            finish_s=np.full(total, -1.0),
            running=np.zeros(_LARGEST_BATCH + 1, dtype=np.int64),
            lanes=np.zeros((3, total), dtype=np.int64),
            ring=np.zeros(fast_kernel.RING_SIZE, dtype=np.int64),
            ints=ints,
            times=times,
            ttft_s=np.zeros(total + 1),
            out=np.zeros(fast_kernel.OUTPUTS),
            **whole,
        )
        return State(*(array.tolist() for array in arrays)) if self._as_lists else arrays

    @property
    def requests(self) -> RequestLog:
        """Every request so far."""
        state = self._state
        return RequestLog(
            np.array(state.arrival_s),
            np.array(state.first_s),
            np.array(state.finish_s),
            np.array(state.emitted),
            np.array(state.preemptions),
        )

    @property
    def running(self) -> int:
        """Sequences in the engine: decoding, being prefilled, or with their KV on the link."""
        return int(self._state.ints[layout.RUNNING])

    @property
    def counts(self) -> tuple[int, int, int]:
        """Requests arrived, finished and dropped since the start of the episode."""
        arrived, finished, dropped = self._counts
        return arrived, finished, dropped

    def snapshot(self) -> dict[str, Any]:
        """Copy of everything that changes as time goes on."""
        return {name: deepcopy(getattr(self, name)) for name in _MUTABLE}

    def restore(self, state: dict[str, Any]) -> None:
        """Back to a snapshot, which stays usable."""
        for name in _MUTABLE:
            setattr(self, name, deepcopy(state[name]))

    def serve(self, knobs: Knobs) -> SecondResult:
        """Serve the next second under ``knobs`` (already valid) and advance the clock."""
        pack, second, state = self.model.table.metadata, self.second, self._state
        memory = self.model.memory_gb(knobs)
        oom = memory > pack.memory_limit_gb
        plan = self._plan(knobs)
        self._resize_pool(plan.total_blocks)
        self._change_tier(knobs.quant_tier)
        first, last = self._first[second], self._first[second + 1]
        for index in range(fast_kernel.OUTPUTS):
            state.out[index] = 0.0
        if oom:
            self._lose_everything(second + 1.0, last)
        else:
            self._serve_iterations(state, plan, float(second), last)
        self.second = second + 1
        self._count_what_waits()
        arrived, finished, dropped = self._counts
        out = state.out
        self._counts = [
            arrived + last - first,
            finished + int(out[fast_kernel.OUT_FINISHED]),
            dropped + int(out[fast_kernel.OUT_REJECTED]),
        ]
        self._out = [float(value) for value in out]
        self._ttft = state.ttft_s
        self._floats[fast_kernel.KV_TOKENS] = float(self._blocks_held() * BLOCK_TOKENS)
        acceptance = self.model.accept_rate(knobs, self._prompt_ema[second])
        per_step = tokens_per_verify_step(acceptance, knobs.spec_length)
        pool_tokens = float(plan.total_blocks * BLOCK_TOKENS)
        return self._result(knobs, memory, oom, acceptance, per_step, pool_tokens, last - first)

    def _plan(self, knobs: Knobs) -> Plan:
        pack = self.model.table.metadata
        gamma = knobs.spec_length
        base = self.model.workload.base_acceptance_rate
        accept = np.asarray([acceptance_rate(base, bucket, gamma) for bucket in PROMPT_BUCKETS])
        tables: Any = self._times.tables(gamma, knobs.quant_tier)
        draws = self._rng.random(_DRAWS_PER_SECOND) if gamma else np.zeros(1)
        slo_s = np.asarray(self._slo_s)
        if self._as_lists:
            tables = _lists(tables)
            accept, draws, slo_s = accept.tolist(), draws.tolist(), slo_s.tolist()
        return Plan(
            batch_cap=int(knobs.batch_size),
            total_blocks=int(self.model.pool_tokens(knobs)) // BLOCK_TOKENS,
            gamma=int(gamma),
            disaggregated=bool(knobs.prefill_disagg),
            budget_rows=int(pack.prefill_chunk_tokens),
            transfer_s_per_token=pack.kv_bytes_per_token / (pack.kv_link_gb_per_s * 1e9),
            accept=accept,
            slo_s=slo_s,
            tables=tables,
            uniforms=draws,
        )

    def _blocks_held(self) -> int:
        return self._total_blocks - int(self._state.ints[layout.FREE])

    def _resize_pool(self, total_blocks: int) -> None:
        """Another pool: what is held stays held, so fewer blocks than that are free for a while."""
        self._state.ints[layout.FREE] += total_blocks - self._total_blocks
        self._total_blocks = total_blocks

    def _change_tier(self, tier: int) -> None:
        pack = self.model.table.metadata
        if self.tier not in (-1, tier):
            loading_s = pack.weights_bytes[tier] / (pack.weight_load_gb_per_s * 1e9)
            begin = max(float(self.second), float(self._state.times[layout.LOADED]))
            self._state.times[layout.LOADED] = begin + loading_s
        self.tier = tier

    def _lose_everything(self, until_s: float, last: int) -> None:
        """Out of memory for a second: running sequences start over from their prompts."""
        state, ints = self._state, self._state.ints
        while ints[layout.RUNNING] > 0:
            item = state.running[ints[layout.RUNNING] - 1]
            state.emitted[item] = 0
            state.chunk[item] = state.place[item] = 0
            kernel.preempt(state, ints[layout.RUNNING] - 1)
        state.out[fast_kernel.OUT_EVICTIONS] = 0.0
        state.times[layout.ENGINE_END] = state.times[layout.PREFILL_END] = np.inf
        kernel.take_arrivals(state, until_s, last)

    def _count_what_waits(self) -> None:
        """Requests waiting at the end of the second, and those of them past their objective."""
        out, arrival = self._state.out, self._state.arrival_s
        slo_s, priority = self._slo_s, self._state.priority
        late = [item for item in self._waiting() if self.second - arrival[item] > slo_s[priority[item]]]
        out[fast_kernel.OUT_WAITING_LATE] = len(late)
        out[fast_kernel.OUT_QUEUE] = self._state.ints[layout.WAITING]

    def _waiting(self) -> list[int]:
        """Ids of requests that wait for their first token, earliest arrival first."""
        ints = self._state.ints
        ids: list[int] = []
        for lane, queue in enumerate(self._state.lanes):
            ids += [int(item) for item in queue[ints[layout.HEAD + lane] : ints[layout.TAIL + lane]]]
        ids.sort()
        return ids


_WHOLE = ("cached", "emitted", "blocks", "chunk", "place", "gain", "preemptions")

_MUTABLE = ("second", "tier", "_state", "_rng", "_total_blocks", "_counts")


@cache
def iteration_times(table: TraceTable) -> IterationTimes:
    """Iteration times of a pack, made once per process."""
    return IterationTimes(table)


def _lists(tables: IterationTables) -> IterationTables:
    """Lists for plain Python, which reads them several times faster than arrays."""
    return IterationTables(*(np.asarray(value).tolist() for value in tables))


@cache
def _machine_code() -> Any:
    """The kernel in machine code; None without numba."""
    try:
        from simulator.reference.compiled import serve_iterations
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        return None
    return serve_iterations
