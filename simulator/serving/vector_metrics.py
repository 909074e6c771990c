"""What a second of an engine amounts to, from the kernel's counts: ``ServingEngine._result`` for arrays."""

from __future__ import annotations

from typing import Any

from simulator.kernels.compiled import inlined
from simulator.serving import kernel
from simulator.serving.engine import SecondResult
from simulator.serving.rows import QUEUES, RESULT

__all__ = ["rates", "ttft_percentiles"]

(
    TTFT_P50,
    TTFT_P99,
    TPOT,
    TOKENS,
    PROCESSED,
    MEMORY_GB,
    COST,
    ACCEPT_RATE,
    EVICTIONS,
    VIOLATIONS,
    VIOLATION_RATE,
    OOM,
    QUEUE,
    KV_OCCUPANCY,
    RUNNING,
    ARRIVED,
    FINISHED,
    DROPPED,
) = (RESULT[name] for name in SecondResult._fields)

_HEAD, _TAIL = kernel.HEAD, kernel.TAIL
_NO_ID = 2**31 - 1
_OUT_TOKENS, _OUT_PROMPT, _OUT_SEQUENCE_S = kernel.OUT_TOKENS, kernel.OUT_PROMPT_TOKENS, kernel.OUT_SEQUENCE_S
_OUT_DECODED, _OUT_FIRST, _OUT_LATE = kernel.OUT_DECODED, kernel.OUT_FIRST_TOKENS, kernel.OUT_LATE
_OUT_WAITING_LATE, _OUT_REJECTED = kernel.OUT_WAITING_LATE, kernel.OUT_REJECTED
_OUT_EVICTIONS, _OUT_FINISHED = kernel.OUT_EVICTIONS, kernel.OUT_FINISHED
_OUT_OOM, _OUT_QUEUE = kernel.OUT_OOM, kernel.OUT_QUEUE


def rates(out: Any, idle_tpot_s: float, cents_per_s: float, cost_cap: float, result: Any) -> None:
    """Throughput, cost and violations."""
    decoded = out[_OUT_DECODED]
    result[TPOT] = 1000.0 * (out[_OUT_SEQUENCE_S] / decoded if decoded != 0.0 else idle_tpot_s)
    processed = out[_OUT_TOKENS] + out[_OUT_PROMPT]
    result[TOKENS] = out[_OUT_TOKENS]
    result[PROCESSED] = processed
    floor_tokens = cents_per_s * 1000.0 / cost_cap
    result[COST] = min(cents_per_s * 1000.0 / max(processed, floor_tokens), cost_cap)
    missed = out[_OUT_LATE] + out[_OUT_WAITING_LATE] + out[_OUT_REJECTED]
    due = out[_OUT_FIRST] + out[_OUT_WAITING_LATE] + out[_OUT_REJECTED]
    violation = missed / due if due != 0.0 else 0.0
    if out[_OUT_OOM] != 0.0:
        missed = 5.0 * missed
        violation = 1.0
    result[VIOLATIONS] = missed
    result[VIOLATION_RATE] = violation
    result[OOM] = out[_OUT_OOM]
    result[EVICTIONS] = out[_OUT_EVICTIONS]
    result[QUEUE] = out[_OUT_QUEUE]
    result[FINISHED] = out[_OUT_FINISHED]
    result[DROPPED] = out[_OUT_REJECTED]


@inlined
def ttft_percentiles(
    served: int, ttft_s: Any, ids: Any, ints: Any, arrival: Any, now_s: float, idle_s: float, result: Any
) -> None:
    """TTFT p50 and p99 as ``ServingEngine`` defines them: of those served, else still waiting, else idle."""
    waiting = 0
    for lane in range(3):
        waiting += ints[_TAIL + lane] - ints[_HEAD + lane]
    if served > 0:
        sort(ttft_s, served)
        result[TTFT_P50] = 1000.0 * percentile(ttft_s, served, 0.50)
        result[TTFT_P99] = 1000.0 * percentile(ttft_s, served, 0.99)
    elif waiting > 0:
        result[TTFT_P50] = 1000.0 * (now_s - arrival[waiting_id(ids, ints, (waiting - 1) // 2)])
        result[TTFT_P99] = 1000.0 * (now_s - arrival[waiting_id(ids, ints, waiting // 100)])
    else:
        result[TTFT_P50] = 1000.0 * idle_s
        result[TTFT_P99] = 1000.0 * idle_s


def waiting_id(ids: Any, ints: Any, rank: int) -> int:
    """Id of the ``rank``-th request (from 0) in the union of the three queues, each of which is sorted.

    Of the k-th entries of the queues, the smallest is followed by at least rank - (3 k - 2) others: the k
    entries up to it are passed over at once.
    """
    at0, at1, at2 = ints[_HEAD], ints[_HEAD + 1], ints[_HEAD + 2]
    end0, end1, end2 = ints[_TAIL], ints[_TAIL + 1], ints[_TAIL + 2]
    if at1 == end1 and at2 == end2:
        return ids[QUEUES, at0 + rank]
    while True:
        jump = max(1, (rank + 1) // 3)
        id0 = ids[QUEUES, at0 + jump - 1] if at0 + jump <= end0 else _NO_ID
        id1 = ids[QUEUES + 1, at1 + jump - 1] if at1 + jump <= end1 else _NO_ID
        id2 = ids[QUEUES + 2, at2 + jump - 1] if at2 + jump <= end2 else _NO_ID
        if rank == 0:
            return min(id0, id1, id2)
        if id0 < id1 and id0 < id2:
            at0 += jump
        elif id1 < id2:
            at1 += jump
        else:
            at2 += jump
        rank -= jump


def percentile(ordered: Any, count: int, share: float) -> float:
    """See ``serving_engine``."""
    position = share * (count - 1)
    left = int(position)
    if left + 1 >= count:
        return ordered[count - 1]
    return ordered[left] + (position - left) * (ordered[left + 1] - ordered[left])


def sort(values: Any, count: int) -> None:
    """Sort the first ``count`` values in place (Shell's method: some dozens, often nearly sorted)."""
    gap = 1
    while 3 * gap + 1 < count:
        gap = 3 * gap + 1
    while gap > 0:
        for index in range(gap, count):
            value = values[index]
            hole = index
            while hole >= gap and values[hole - gap] > value:
                values[hole] = values[hole - gap]
                hole -= gap
            values[hole] = value
        gap //= 3
