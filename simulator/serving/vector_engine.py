"""Many engines side by side: the compiled twin of :class:`simulator.serving.engine.ServingEngine`.

The seconds themselves are served by a compiled copy of :func:`simulator.serving.kernel.serve_second`. What
surrounds
it there in lists and objects (resolving an action against the trace table, percentiles, cost) is written a
second time for arrays; tests hold the two to the same bits.
"""

from __future__ import annotations

from typing import Any

from simulator.kernels.compiled import compiled, inlined
from simulator.packs.physics import memory_gb, prompt_bucket
from simulator.packs.trace_table import MAX_DENSE_TOKENS
from simulator.serving import kernel
from simulator.serving.rows import (
    ARRIVAL,
    CENTS_PER_S,
    CHUNK_TOKENS,
    CONTEXT,
    COST_CAP,
    FIXED_BYTES,
    JOINED,
    KV_BYTES,
    LEFT,
    LIMIT_GB,
    LOAD_BYTES_PER_S,
    ORDER,
    OUTPUT,
    POOL_TOKENS,
    PRIORITY,
    PROMPT,
    PROMPT_EMA,
    QUEUES,
    SAMPLER_BYTES,
    SECOND,
    SHARE,
    TIER,
    TRANSFER_S,
    WEIGHTS_BYTES,
)
from simulator.serving.vector_heap import STACK_LENGTH, heap_first, heap_pop, heap_push, heap_take_latest
from simulator.serving.vector_metrics import (
    ACCEPT_RATE,
    ARRIVED,
    KV_OCCUPANCY,
    MEMORY_GB,
    RUNNING,
    rates,
    ttft_percentiles,
)

__all__ = ["clear_engine", "serve"]

_RUNNING, _PREFILLING = kernel.RUNNING, kernel.PREFILLING
_KV_TOKENS, _PRE_CONTEXT = kernel.KV_TOKENS, kernel.PRE_CONTEXT
_FIRST_TOKENS = kernel.OUT_FIRST_TOKENS


@inlined
def clear_engine(engines: Any, i: int) -> None:
    """Empty engine ``i``, whose traffic has just been filled in."""
    for index in range(engines.floats.shape[1]):
        engines.floats[i, index] = 0.0
    for index in range(engines.ints.shape[1]):
        engines.ints[i, index] = 0
    engines.ints[i, _PREFILLING] = -1
    engines.heap_tags[i, STACK_LENGTH] = 0
    engines.clock[i, SECOND] = 0
    engines.clock[i, TIER] = -1
    for item in range(engines.first_request[i, -1]):
        engines.requests[i, LEFT, item] = engines.requests[i, OUTPUT, item]
        engines.requests[i, CONTEXT, item] = engines.requests[i, PROMPT, item]
        engines.ids[i, ORDER, item] = -1


@inlined
def serve(
    tables: Any, engines: Any, i: int, kv_budget: float, spec_length: int, cap: int, disagg: bool, tier: int
) -> None:
    """Serve the next second of engine ``i`` and put its SecondResult into row ``i`` of the results."""
    constants, requests, ids = tables.constants, engines.requests[i], engines.ids[i]
    floats, ints, out, result = engines.floats[i], engines.ints[i], engines.out[i], engines.results[i]
    second = engines.clock[i, SECOND]
    spec = 0
    while tables.spec_lengths[spec] != spec_length:
        spec += 1
    pool_tokens = kv_budget * tables.tiers[POOL_TOKENS, tier]
    memory = memory_gb(
        tables.tiers[WEIGHTS_BYTES, tier],
        constants[FIXED_BYTES],
        constants[SAMPLER_BYTES],
        cap,
        spec_length,
        pool_tokens * constants[KV_BYTES],
    )
    oom = memory > constants[LIMIT_GB]
    prompt_mean = engines.signals[i, second, PROMPT_EMA]
    length_bucket = prompt_bucket(prompt_mean)
    tokens_per_step = tables.tokens_per_step[length_bucket, spec]
    context = mean_context(floats, ints, prompt_mean)
    bucket = tables.context_bucket[context]
    stall_s = 0.0
    if engines.clock[i, TIER] != -1 and engines.clock[i, TIER] != tier:
        stall_s = tables.tiers[WEIGHTS_BYTES, tier] / constants[LOAD_BYTES_PER_S]
    first, last = engines.first_request[i, second], engines.first_request[i, second + 1]
    serve_second(
        float(second),
        first,
        last,
        requests[ARRIVAL],
        requests[PROMPT],
        requests[OUTPUT],
        ids[PRIORITY],
        requests[SHARE],
        cap,
        pool_tokens,
        tokens_per_step,
        tables.step_rows_s[spec, tier, bucket],
        tables.step_rows_s[spec, tier, bucket + 1],
        tables.context_weight[context],
        tables.prefill_rows_s[tier],
        tables.pass_rows_s[tier],
        tables.mixed_batch,
        spec_length + 1,
        constants[CHUNK_TOKENS],
        disagg,
        constants[TRANSFER_S],
        stall_s,
        oom,
        tables.slo_s,
        floats,
        ints,
        ids[QUEUES : QUEUES + 3],
        engines.ring[i],
        requests[LEFT],
        requests[CONTEXT],
        requests[JOINED],
        ids[ORDER],
        engines.heap_keys[i],
        engines.heap_tags[i],
        engines.ttft_s[i],
        out,
    )
    engines.clock[i, SECOND] = second + 1
    engines.clock[i, TIER] = tier
    length = min(int(prompt_mean), MAX_DENSE_TOKENS)
    bucket, weight = tables.context_bucket[length], tables.context_weight[length]
    low, high = tables.step_rows_s[spec, tier, bucket, 1], tables.step_rows_s[spec, tier, bucket + 1, 1]
    step_one_s = low + weight * (high - low)
    ttft_percentiles(
        int(out[_FIRST_TOKENS]),
        engines.ttft_s[i],
        ids,
        ints,
        requests[ARRIVAL],
        second + 1,
        tables.prefill_rows_s[tier, length] + 0.5 * step_one_s,
        result,
    )
    result[MEMORY_GB] = constants[LIMIT_GB] if oom else memory
    result[ACCEPT_RATE] = tables.accept_rate[length_bucket, spec]
    result[KV_OCCUPANCY] = min(max(floats[_KV_TOKENS] / pool_tokens, 0.0), 1.0)
    result[RUNNING] = ints[_RUNNING] + (1 if ints[_PREFILLING] >= 0 else 0)
    result[ARRIVED] = last - first
    gpus = 2.0 if disagg else 1.0
    rates(out, step_one_s / tokens_per_step, constants[CENTS_PER_S] * gpus, constants[COST_CAP], result)


def mean_context(floats: Any, ints: Any, prompt_mean: float) -> int:
    """Mean context of the decoding sequences, tokens; the mean prompt when there are none."""
    context = int(prompt_mean)
    if ints[_RUNNING] > 0:
        tokens = floats[_KV_TOKENS]
        if ints[_PREFILLING] >= 0:
            tokens -= floats[_PRE_CONTEXT]
        context = int(tokens / ints[_RUNNING])
    return min(max(context, 0), MAX_DENSE_TOKENS)


serve_second: Any = compiled(
    kernel.serve_second,
    heap_push=heap_push,
    heap_pop=heap_pop,
    heap_first=heap_first,
    heap_take_latest=heap_take_latest,
)
