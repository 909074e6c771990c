"""One second of one engine: continuous batching as an exact event simulation at request level.

Between two events every running sequence decodes at the same rate, so a single *virtual clock* (tokens
decoded per sequence) tells when each one finishes. Events are: an arrival at an idle prefill server, the
end of a prefill, a finished sequence, and the KV pool running full. Nothing is rounded to whole seconds:
what is unfinished at the end of a second goes on in the next.

What is modelled: priority classes served FIFO, head-of-line blocking on batch slots and KV room,
optimistic admission with a watermark and preemption of the latest sequence when the pool is full (it pays
a re-prefill of its whole context), chunked prefill that shares the GPU with decode (a forward
pass each, or in mixed batches: :mod:`simulator.serving.timing`), prefill on a second GPU with a KV transfer,
speculative decoding in expectation, weight reload after a change of tier, OOM.

:func:`serve_second` is written in the subset of Python that a compiler for NumPy code accepts (flat
sequences, numbers, no objects), and uses only ``+ - * /`` and comparisons, so that a compiled copy of the
same source gives the same bits.
"""

from __future__ import annotations

from typing import Any

from simulator.serving.mixed_batch import mixed_prefill

__all__ = [
    "COUNTERS",
    "FLOAT_STATE",
    "INT_STATE",
    "KV_WATERMARK",
    "OUTPUTS",
    "QUEUE_CAPACITY",
    "RING_SIZE",
    "serve_second",
]

QUEUE_CAPACITY = 512
"""Requests that may wait at one engine; a further arrival is rejected."""

RING_SIZE = 1024
"""Slots of the ring of preempted requests: more than running + waiting requests can ever need."""

KV_WATERMARK = 0.01
"""Share of the KV pool that admission leaves free (vLLM's block manager keeps the same 1 %)."""

_EPS_TOKENS = 1e-6

# Admission order of a request while it runs (0, 1, ...), before its first token, and after it left.
_NEVER_JOINED = -1
_LEFT = -2

# Float state of an engine.
CLOCK, KV_TOKENS, PRE_END_S, PRE_RATE, PRE_CONTEXT, PRE_RESIDUAL_S, STALL_S, PASS_TOKENS = range(8)
FLOAT_STATE = 8

# Integer state: running sequences, request being prefilled (-1: none), its first-token flag, admission
# counter, ring head and length of preempted requests, then per class queue head, tail and first request
# not yet past its SLO; then cumulative counters.
RUNNING, PREFILLING, PRE_FRESH, SEQUENCE, RING_HEAD, RING_LEN = range(6)
HEAD, TAIL, LATE = 6, 9, 12
ARRIVED, SERVED, DROPPED = 15, 16, 17
INT_STATE = 18
COUNTERS = (ARRIVED, SERVED, DROPPED)

# Outputs of one second.
(
    OUT_TOKENS,
    OUT_PROMPT_TOKENS,
    OUT_SEQUENCE_S,
    OUT_DECODED,
    OUT_FIRST_TOKENS,
    OUT_LATE,
    OUT_WAITING_LATE,
    OUT_REJECTED,
    OUT_EVICTIONS,
    OUT_FINISHED,
    OUT_OOM,
    OUT_QUEUE,
) = range(12)
OUTPUTS = 12


def serve_second(
    t0: float,
    first: int,
    last: int,
    # requests of the episode, by id: arrival (s), prompt and output tokens, class, place of the arrival in
    # the iteration in flight (0..1)
    arrival: Any,
    prompt: Any,
    output: Any,
    priority: Any,
    iteration_share: Any,
    # the action, resolved against the trace table
    batch_cap: int,
    pool_tokens: float,
    tokens_per_step: float,
    step_low: Any,
    step_high: Any,
    step_weight: float,
    prefill_row: Any,
    pass_row: Any,
    mixed_batch: bool,
    rows_per_sequence: int,
    chunk_tokens: float,
    disaggregated: bool,
    transfer_s_per_token: float,
    stall_s: float,
    oom: bool,
    slo_s: Any,
    # the engine (changed in place)
    fs: Any,
    ints: Any,
    queues: Any,
    ring: Any,
    left: Any,
    context: Any,
    joined: Any,
    order: Any,
    heap_key: Any,
    heap_id: Any,
    # results
    ttft_s: Any,
    out: Any,
    # priority queue of running sequences by finishing clock
    heap_push: Any,
    heap_pop: Any,
    heap_first: Any,
    heap_take_latest: Any,
) -> None:
    """Advance one engine from ``t0`` to ``t0 + 1`` s with the arrivals ``first..last-1``.

    Times are seconds of the episode, rates tokens per second, ``prefill_row``, ``pass_row`` and ``step_*``
    seconds (see :class:`simulator.serving.timing.EngineRows`).
    Fills ``out`` (see ``OUT_*``) and the first ``out[OUT_FIRST_TOKENS]`` entries of ``ttft_s``.
    """
    t1 = t0 + 1.0
    clock = fs[CLOCK]
    kv = fs[KV_TOKENS]
    pre_end = fs[PRE_END_S]
    pre_rate = fs[PRE_RATE]
    pre_context = fs[PRE_CONTEXT]
    pre_residual = fs[PRE_RESIDUAL_S]
    pass_tokens = fs[PASS_TOKENS]
    stall_s += fs[STALL_S]  # what is left of a weight reload that took longer than its second
    running = ints[RUNNING]
    pre = ints[PREFILLING]
    ring_head = ints[RING_HEAD]
    ring_len = ints[RING_LEN]
    head0 = ints[HEAD]
    head1 = ints[HEAD + 1]
    head2 = ints[HEAD + 2]
    waiting = ring_len + ints[TAIL] - head0 + ints[TAIL + 1] - head1 + ints[TAIL + 2] - head2
    next_arrival = first
    now = t0
    tokens = 0.0
    prompt_tokens = 0.0
    sequence_s = 0.0
    decoded = 0.0
    samples = 0
    late = 0
    rejected = 0
    evictions = 0
    finished = 0
    usable_tokens = pool_tokens * (1.0 - KV_WATERMARK)
    longest = len(prefill_row) - 1

    if oom:
        # The configuration does not fit: everything running is lost back to the queue, from its prompt.
        while running > 0 or pre >= 0:
            if pre >= 0:
                lost = pre
                pre = -1
            else:
                lost = heap_pop(heap_key, heap_id, running, order)
                running -= 1
                order[lost] = _LEFT
            if waiting < QUEUE_CAPACITY:
                left[lost] = output[lost]
                context[lost] = prompt[lost]
                ring[(ring_head + ring_len) % RING_SIZE] = lost
                ring_len += 1
                waiting += 1
            else:
                rejected += 1
        kv = 0.0
        now = t1
        stall_s = max(stall_s - 1.0, 0.0)
    elif stall_s > 0.0:
        stalled = min(stall_s, 1.0)
        stall_s -= stalled
        pre_end += stalled
        now = t0 + stalled
        sequence_s += running * stalled

    # Clock at which the next sequence finishes, and the step time, kept until the running set changes.
    finish = heap_first(heap_key, order) if running > 0 else 0.0
    step = step_low[running] + step_weight * (step_high[running] - step_low[running])

    while now < t1:
        # --- start a prefill when the prefill server is idle -------------------------------------------
        if pre < 0:
            while next_arrival < last and arrival[next_arrival] <= now:
                if waiting < QUEUE_CAPACITY:
                    lane = priority[next_arrival]
                    queues[lane][ints[TAIL + lane]] = next_arrival
                    ints[TAIL + lane] += 1
                    waiting += 1
                else:
                    rejected += 1
                next_arrival += 1
            if waiting > 0 and running < batch_cap:
                fresh = 1
                if ring_len > 0:
                    candidate = ring[ring_head]
                    fresh = 0
                elif head0 < ints[TAIL]:
                    candidate = queues[0][head0]
                elif head1 < ints[TAIL + 1]:
                    candidate = queues[1][head1]
                else:
                    candidate = queues[2][head2]
                size = context[candidate]
                fits = kv + size <= usable_tokens
                never_fits = running == 0 and not fits
                if fits or never_fits:
                    if fresh == 0:
                        ring_head = (ring_head + 1) % RING_SIZE
                        ring_len -= 1
                        if order[candidate] == _NEVER_JOINED:
                            fresh = 1  # lost in an OOM before its first token
                        elif left[candidate] == output[candidate]:
                            fresh = 2  # lost in an OOM later: starts over, its first token was counted
                    elif head0 < ints[TAIL]:
                        head0 += 1
                    elif head1 < ints[TAIL + 1]:
                        head1 += 1
                    else:
                        head2 += 1
                    waiting -= 1
                    if never_fits:
                        rejected += 1  # longer than the whole pool: an engine refuses such a request
                        continue
                    tokens_in = int(size)
                    if tokens_in > longest:
                        tokens_in = longest
                    work = prefill_row[tokens_in]
                    pre = candidate
                    ints[PRE_FRESH] = fresh
                    kv += size
                    pre_residual = 0.0
                    if mixed_batch:
                        # The next in line fills up its pass, where there is room for both.
                        follower = 0.0
                        if waiting > 0 and running + 1 < batch_cap:
                            if ring_len > 0:
                                follower = context[ring[ring_head]]
                            elif head0 < ints[TAIL]:
                                follower = context[queues[0][head0]]
                            elif head1 < ints[TAIL + 1]:
                                follower = context[queues[1][head1]]
                            else:
                                follower = context[queues[2][head2]]
                            if kv + follower > usable_tokens:
                                follower = 0.0
                        in_flight_s = 0.0
                        if arrival[candidate] < now and pre_end == now and pre_context < chunk_tokens:
                            in_flight_s = (1.0 - pre_context / chunk_tokens) * step
                        if pre_end < now:
                            pass_tokens = 0.0
                        work, pre_residual, pass_tokens = mixed_prefill(
                            size,
                            work,
                            follower,
                            pass_tokens,
                            0 if disaggregated else running * rows_per_sequence,
                            in_flight_s,
                            step,
                            chunk_tokens,
                            prefill_row,
                            pass_row,
                        )
                    pre_context = size
                    if disaggregated or running == 0:
                        pre_rate = 0.0
                        pre_end = now + work
                    else:
                        if arrival[candidate] >= now:
                            pre_residual += iteration_share[candidate] * step
                        share = size / chunk_tokens
                        wall = work + share * step
                        pre_rate = share * tokens_per_step / wall
                        pre_end = now + wall
        # --- when is the next event? -------------------------------------------------------------------
        until = t1
        event = 0
        if pre >= 0:
            if pre_end < until:
                until = pre_end
                event = 1
        elif next_arrival < last and arrival[next_arrival] < until:
            until = arrival[next_arrival]
        rate = 0.0
        if running > 0:
            rate = pre_rate
            if pre < 0 or disaggregated or pre_rate <= 0.0:
                rate = tokens_per_step / step
            when = now + (finish - clock) / rate
            if when < until:
                until = when
                event = 2
            when = now + (pool_tokens - kv) / (running * rate)
            if when < until:
                until = when
                event = 3
            if until < now:
                until = now
            gained = rate * (until - now)
            clock += gained
            gained *= running
            kv += gained
            decoded += gained
            sequence_s += running * (until - now)
        now = until
        # --- handle it ---------------------------------------------------------------------------------
        if event == 2:
            clock = finish
            while running > 0 and finish <= clock + _EPS_TOKENS:
                done = heap_pop(heap_key, heap_id, running, order)
                order[done] = _LEFT
                running -= 1
                kv -= context[done] + left[done]
                finished += 1
                if running > 0:
                    finish = heap_first(heap_key, order)
            if running == 0 and pre < 0:
                kv = 0.0
            step = step_low[running] + step_weight * (step_high[running] - step_low[running])
        elif event == 3:
            evicted = heap_take_latest(heap_key, heap_id, running, order)
            order[evicted] = _LEFT
            running -= 1
            evictions += 1
            if running > 0:
                finish = heap_first(heap_key, order)
            step = step_low[running] + step_weight * (step_high[running] - step_low[running])
            produced = clock - joined[evicted]
            kv -= context[evicted] + produced
            context[evicted] += produced
            left[evicted] -= produced
            if waiting < QUEUE_CAPACITY:
                ring_head = (ring_head - 1) % RING_SIZE
                ring[ring_head] = evicted
                ring_len += 1
                waiting += 1
            else:
                rejected += 1
        elif event == 1:
            lane = priority[pre]
            if ints[PRE_FRESH] == 1:
                waited = pre_end - arrival[pre] + pre_residual
                if disaggregated:
                    waited += transfer_s_per_token * pre_context
                ttft_s[samples] = waited
                samples += 1
                prompt_tokens += pre_context
                if waited > slo_s[lane]:
                    late += 1
            if ints[PRE_FRESH] > 0:
                left[pre] = output[pre] - 1.0
                tokens += 1.0
            context[pre] = pre_context
            joined[pre] = clock
            order[pre] = ints[SEQUENCE]
            ints[SEQUENCE] += 1
            when = clock + left[pre]
            heap_push(heap_key, heap_id, running, when, order[pre], pre)
            if running == 0 or when < finish:
                finish = when
            running += 1
            pre = -1
            step = step_low[running] + step_weight * (step_high[running] - step_low[running])

    # Arrivals that no event looked at.
    while next_arrival < last:
        if waiting < QUEUE_CAPACITY:
            lane = priority[next_arrival]
            queues[lane][ints[TAIL + lane]] = next_arrival
            ints[TAIL + lane] += 1
            waiting += 1
        else:
            rejected += 1
        next_arrival += 1

    # Waiting requests past their SLO. Queues are FIFO, so the border only moves forward.
    waiting_late = 0
    for lane in range(3):
        head = head0 if lane == 0 else (head1 if lane == 1 else head2)
        border = ints[LATE + lane]
        if border < head:
            border = head
        while border < ints[TAIL + lane] and t1 - arrival[queues[lane][border]] > slo_s[lane]:
            border += 1
        ints[LATE + lane] = border
        waiting_late += border - head
        ints[HEAD + lane] = head

    fs[CLOCK] = clock
    fs[KV_TOKENS] = kv
    fs[PRE_END_S] = pre_end
    fs[PRE_RATE] = pre_rate
    fs[PRE_CONTEXT] = pre_context
    fs[PRE_RESIDUAL_S] = pre_residual
    fs[PASS_TOKENS] = pass_tokens
    fs[STALL_S] = stall_s
    ints[RUNNING] = running
    ints[PREFILLING] = pre
    ints[RING_HEAD] = ring_head
    ints[RING_LEN] = ring_len
    ints[ARRIVED] += last - first
    ints[SERVED] += finished
    ints[DROPPED] += rejected

    out[OUT_TOKENS] = tokens + decoded
    out[OUT_PROMPT_TOKENS] = prompt_tokens
    out[OUT_SEQUENCE_S] = sequence_s
    out[OUT_DECODED] = decoded
    out[OUT_FIRST_TOKENS] = samples
    out[OUT_LATE] = late
    out[OUT_WAITING_LATE] = waiting_late
    out[OUT_REJECTED] = rejected
    out[OUT_EVICTIONS] = evictions
    out[OUT_FINISHED] = finished
    out[OUT_OOM] = 1.0 if oom else 0.0
    out[OUT_QUEUE] = waiting
