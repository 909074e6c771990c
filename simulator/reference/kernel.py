"""Iterations of one continuous-batching engine, request by request and block by block.

The scheduler is that of vLLM with chunked prefill. An iteration takes every decoding sequence first, then
prompt chunks in what is left of a budget of token rows: prompts already begun, in order of admission, then
waiting requests by class. KV comes in blocks of 16 tokens. A request is admitted when the blocks of its whole
context are free beside a watermark; a decoding sequence that finds no free block preempts the one admitted
last, which loses its blocks, goes to the head of the queue and computes everything again. Nobody is admitted
in an iteration that preempted.

With prefill on a second GPU two engines run side by side: the second prefills in its own iterations, its KV
goes over the link one prompt after another, and the sequence decodes from then on.

Written in flat arrays and numbers for :mod:`simulator.kernels.compiled`; plain Python runs the same source
on lists.
"""

from __future__ import annotations

from simulator.reference.rows import (
    BLOCK_TOKENS,
    DRAW,
    ENGINE,
    ENGINE_END,
    ENGINE_START,
    FREE,
    HEAD,
    IDLE,
    LINK_FREE,
    LOADED,
    NEXT,
    NOWHERE,
    PREFILL_END,
    PREFILL_GPU,
    RING_HEAD,
    RING_LEN,
    RUNNING,
    TAIL,
    WAITING,
    Plan,
    State,
)
from simulator.serving.iteration_time import iteration_ms
from simulator.serving.kernel import (
    KV_WATERMARK,
    OUT_DECODED,
    OUT_EVICTIONS,
    OUT_FINISHED,
    OUT_FIRST_TOKENS,
    OUT_LATE,
    OUT_PROMPT_TOKENS,
    OUT_REJECTED,
    OUT_SEQUENCE_S,
    OUT_TOKENS,
    QUEUE_CAPACITY,
    RING_SIZE,
)

__all__ = ["preempt", "serve_iterations", "take_arrivals"]


def serve_iterations(state: State, plan: Plan, t0: float, last: int) -> float:
    """Run from ``t0`` to ``t0 + 1`` s; requests before ``last`` have arrived by then.

    An iteration that is in flight at the end of the second goes on in the next, whose knobs hold for the
    iterations that begin in it.
    """
    now, t1 = t0, t0 + 1.0
    while True:
        take_arrivals(state, now, last)
        if state.times[ENGINE_END] <= now:
            finish_iteration(state, plan, ENGINE)
        if state.times[PREFILL_END] <= now:
            finish_iteration(state, plan, PREFILL_GPU)
        if now >= t1:
            return now
        if now >= state.times[LOADED]:
            if state.times[ENGINE_END] == IDLE:
                start_engine(state, plan, now)
            if plan.disaggregated and state.times[PREFILL_END] == IDLE:
                start_prefill_gpu(state, plan, now)
        now = next_event(state, now, t1, last)


def next_event(state: State, now: float, t1: float, last: int) -> float:
    """The next end of an iteration, and what may wake an idle engine: arrivals, KV, loaded weights."""
    times = state.times
    until = min(t1, times[ENGINE_END], times[PREFILL_END])
    if times[LOADED] > now:
        until = min(until, times[LOADED])
    if times[ENGINE_END] == IDLE or times[PREFILL_END] == IDLE:
        if state.ints[NEXT] < last:
            until = min(until, state.arrival_s[state.ints[NEXT]])
        for k in range(state.ints[RUNNING]):
            ready = state.ready_s[state.running[k]]
            if ready > now:
                until = min(until, ready)
    return until


def take_arrivals(state: State, now: float, last: int) -> None:
    """Queue what has arrived; a full queue rejects."""
    ints = state.ints
    while ints[NEXT] < last and state.arrival_s[ints[NEXT]] <= now:
        item = ints[NEXT]
        ints[NEXT] += 1
        if ints[WAITING] >= QUEUE_CAPACITY:
            state.out[OUT_REJECTED] += 1
            continue
        lane = state.priority[item]
        state.lanes[lane][ints[TAIL + lane]] = item
        ints[TAIL + lane] += 1
        ints[WAITING] += 1


def start_engine(state: State, plan: Plan, now: float) -> None:
    """Begin an iteration: decodes first, then chunks if prompts are prefilled here."""
    preempted_before = state.out[OUT_EVICTIONS]
    sequences, context = schedule_decodes(state, plan, now)
    rows = sequences * (plan.gamma + 1)
    tokens, attention_ms = 0, 0.0
    if not plan.disaggregated:
        admit = sequences == 0 or state.out[OUT_EVICTIONS] == preempted_before
        tokens, attention_ms = schedule_chunks(state, plan, plan.budget_rows - rows, ENGINE, admit)
    if sequences + tokens > 0:
        mean = context / max(sequences, 1)
        duration = iteration_ms(plan.tables, sequences, mean, rows, tokens) + attention_ms
        state.times[ENGINE_START] = now
        state.times[ENGINE_END] = now + duration / 1000.0


def start_prefill_gpu(state: State, plan: Plan, now: float) -> None:
    """Begin an iteration of prompt chunks on the second GPU."""
    tokens, attention_ms = schedule_chunks(state, plan, plan.budget_rows, PREFILL_GPU, True)
    if tokens > 0:
        duration = iteration_ms(plan.tables, 0, 0.0, 0, tokens) + attention_ms
        state.times[PREFILL_END] = now + duration / 1000.0


def schedule_decodes(state: State, plan: Plan, now: float) -> tuple[int, float]:
    """Every sequence whose cache is complete takes part. Returns how many, and their cached tokens."""
    sequences, context = 0, 0.0
    k = 0
    while k < state.ints[RUNNING]:
        item = state.running[k]
        waits = state.place[item] != NOWHERE or state.ready_s[item] > now
        if waits or state.cached[item] < state.target[item]:
            k += 1
            continue
        wanted = blocks_for(state.cached[item] + plan.gamma + 1) - state.blocks[item]
        if make_room(state, k, wanted):
            if wanted > 0:
                state.blocks[item] += wanted
                state.ints[FREE] -= wanted
            state.gain[item] = draw_tokens(state, plan, item)
            sequences += 1
            context += state.cached[item]
            k += 1
    return sequences, context


def make_room(state: State, k: int, wanted: int) -> bool:
    """Preempt the sequences admitted last until ``wanted`` blocks are free; False when that took the k-th."""
    while state.ints[FREE] < wanted:
        victim = state.ints[RUNNING] - 1
        while victim > k and state.place[state.running[victim]] != NOWHERE:
            victim -= 1
        preempt(state, victim)
        if victim == k:
            return False
    return True


def preempt(state: State, victim: int) -> None:
    """Free the blocks of the running sequence at a place and put it at the head of the queue."""
    ints, item = state.ints, state.running[victim]
    ints[RUNNING] -= 1
    for k in range(victim, ints[RUNNING]):
        state.running[k] = state.running[k + 1]
    ints[FREE] += state.blocks[item]
    state.blocks[item] = 0
    state.cached[item] = 0
    state.ready_s[item] = 0.0
    state.target[item] = state.prompt[item] + state.emitted[item]
    state.preemptions[item] += 1
    state.out[OUT_EVICTIONS] += 1
    if ints[WAITING] >= QUEUE_CAPACITY:
        state.out[OUT_REJECTED] += 1
        return
    ints[RING_HEAD] = (ints[RING_HEAD] - 1) % RING_SIZE
    state.ring[ints[RING_HEAD]] = item
    ints[RING_LEN] += 1
    ints[WAITING] += 1


def draw_tokens(state: State, plan: Plan, item: int) -> int:
    """Tokens of one verify step: drafts are accepted one after the other until the first refusal."""
    tokens, chance = 1, plan.accept[state.bucket[item]]
    uniform = 1.0
    if plan.gamma > 0:
        uniform = plan.uniforms[state.ints[DRAW] % len(plan.uniforms)]
        state.ints[DRAW] += 1
    reached = chance
    while tokens <= plan.gamma and uniform < reached:
        tokens += 1
        reached *= chance
    return min(tokens, state.output[item] - state.emitted[item])


def schedule_chunks(state: State, plan: Plan, budget: int, place: int, admit: bool) -> tuple[int, float]:
    """Prompt tokens within the budget, and their attention (ms)."""
    attention_ms, left = 0.0, budget
    for k in range(state.ints[RUNNING]):
        item = state.running[k]
        if left > 0 and state.place[item] == NOWHERE and state.cached[item] < state.target[item]:
            attention_ms += take_chunk(state, plan, item, left, place)
            left -= state.chunk[item]
    while admit and left > 0:
        item = admit_next(state, plan)
        if item < 0:
            break
        attention_ms += take_chunk(state, plan, item, left, place)
        left -= state.chunk[item]
    return budget - left if budget > 0 else 0, attention_ms


def take_chunk(state: State, plan: Plan, item: int, left: int, place: int) -> float:
    """Put a chunk of a prompt into the iteration; its attention, ms."""
    begin = state.cached[item]
    end = min(begin + left, state.target[item])
    state.chunk[item] = end - begin
    state.place[item] = place
    attention = plan.tables.chunk_attention_ms
    longest = len(attention) - 1
    return attention[min(end, longest)] - attention[min(begin, longest)]


def admit_next(state: State, plan: Plan) -> int:
    """Admit the first in line and return its id, or -1 when nobody waits or the first does not fit.

    What would not fit into an empty pool is refused, as engines do.
    """
    ints = state.ints
    watermark = int(plan.total_blocks * KV_WATERMARK)
    while ints[WAITING] > 0 and ints[RUNNING] < plan.batch_cap:
        lane = first_lane(state)
        item = state.ring[ints[RING_HEAD]] if lane < 0 else state.lanes[lane][ints[HEAD + lane]]
        needed = blocks_for(state.target[item])
        never = needed > plan.total_blocks - watermark
        if not never and needed > ints[FREE] - watermark:
            return -1
        ints[WAITING] -= 1
        if lane < 0:
            ints[RING_HEAD] = (ints[RING_HEAD] + 1) % RING_SIZE
            ints[RING_LEN] -= 1
        else:
            ints[HEAD + lane] += 1
        if never:
            state.out[OUT_REJECTED] += 1
            continue
        ints[FREE] -= needed
        state.blocks[item] = needed
        state.running[ints[RUNNING]] = item
        ints[RUNNING] += 1
        return item
    return -1


def first_lane(state: State) -> int:
    """Class of the first in line; -1 for a preempted request."""
    if state.ints[RING_LEN] > 0:
        return -1
    lane = 0
    while state.ints[HEAD + lane] == state.ints[TAIL + lane]:
        lane += 1
    return lane


def finish_iteration(state: State, plan: Plan, place: int) -> None:
    """Tokens of the iteration that has ended, finished sequences out."""
    times, ints, out = state.times, state.ints, state.out
    end = times[ENGINE_END] if place == ENGINE else times[PREFILL_END]
    times[ENGINE_END if place == ENGINE else PREFILL_END] = IDLE
    kept, decoding = 0, 0
    for k in range(ints[RUNNING]):
        item = state.running[k]
        if state.place[item] == place:
            end_chunk(state, plan, item, end, place)
        elif place == ENGINE and state.gain[item] > 0:
            state.cached[item] += state.gain[item]
            state.target[item] = state.cached[item]
            state.emitted[item] += state.gain[item]
            out[OUT_DECODED] += state.gain[item]
            out[OUT_TOKENS] += state.gain[item]
            state.gain[item] = 0
            decoding += 1
        if state.emitted[item] >= state.output[item]:
            state.finish_s[item] = max(end, state.ready_s[item])
            ints[FREE] += state.blocks[item]
            state.blocks[item] = 0
            out[OUT_FINISHED] += 1
        else:
            state.running[kept] = item
            kept += 1
    ints[RUNNING] = kept
    if place == ENGINE:
        out[OUT_SEQUENCE_S] += decoding * (end - times[ENGINE_START])


def end_chunk(state: State, plan: Plan, item: int, end: float, place: int) -> None:
    """A chunk is done; the last of a prompt brings a token."""
    state.cached[item] += state.chunk[item]
    state.chunk[item] = 0
    state.place[item] = NOWHERE
    if state.cached[item] < state.target[item]:
        return
    came = end
    if place == PREFILL_GPU:
        begin = max(end, state.times[LINK_FREE])
        came = begin + plan.transfer_s_per_token * state.target[item]
        state.times[LINK_FREE] = came
        state.ready_s[item] = came
    out = state.out
    state.emitted[item] += 1
    out[OUT_TOKENS] += 1
    if state.first_s[item] < 0.0:
        state.first_s[item] = came
        waited = came - state.arrival_s[item]
        state.ttft_s[int(out[OUT_FIRST_TOKENS])] = waited
        out[OUT_FIRST_TOKENS] += 1
        out[OUT_PROMPT_TOKENS] += state.prompt[item]
        if waited > plan.slo_s[state.priority[item]]:
            out[OUT_LATE] += 1


def blocks_for(tokens: int) -> int:
    return (tokens + BLOCK_TOKENS - 1) // BLOCK_TOKENS
