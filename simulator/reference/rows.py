"""What the reference engine knows between iterations, in flat arrays and numbers.

Columns of the small arrays have names here; request arrays are indexed by request id.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = [
    "BLOCK_TOKENS",
    "DRAW",
    "ENGINE",
    "ENGINE_END",
    "ENGINE_START",
    "FREE",
    "HEAD",
    "IDLE",
    "INTS",
    "LINK_FREE",
    "LOADED",
    "NEXT",
    "NOWHERE",
    "PREFILL_END",
    "PREFILL_GPU",
    "RING_HEAD",
    "RING_LEN",
    "RUNNING",
    "TAIL",
    "TIMES",
    "WAITING",
    "Plan",
    "State",
]

BLOCK_TOKENS = 16
"""Tokens of one KV block (vLLM's default)."""

IDLE = float("inf")

# State.ints: running sequences, waiting requests, next request to arrive, head and length of the ring of
# preempted ones, free blocks, next uniform number, then per class head and tail of its queue.
RUNNING, WAITING, NEXT, RING_HEAD, RING_LEN, FREE, DRAW = range(7)
HEAD, TAIL = 7, 10
INTS = 13

# State.times, s: end of the iteration in flight on the engine and on the prefill GPU (inf: none), when the
# KV link is free, when the weights are loaded, and of the iteration in flight its start.
ENGINE_END, PREFILL_END, LINK_FREE, LOADED, ENGINE_START = range(5)
TIMES = 5

# Where a chunk is being prefilled.
NOWHERE, ENGINE, PREFILL_GPU = range(3)


class State(NamedTuple):
    """Requests of an episode and what has become of them; arrays by request unless said otherwise."""

    arrival_s: Any
    prompt: Any
    output: Any
    priority: Any
    bucket: Any
    """Prompt-length bucket, for draft acceptance."""
    target: Any
    """Tokens that must be in the cache before the next one comes: prompt and what was generated."""
    cached: Any
    """Tokens in the cache."""
    emitted: Any
    """Output tokens so far."""
    blocks: Any
    """KV blocks held."""
    chunk: Any
    """Prompt tokens in the iteration in flight."""
    place: Any
    """Where that iteration runs."""
    gain: Any
    """Tokens that the iteration in flight yields; 0 when it does not decode this sequence."""
    ready_s: Any
    """When the KV of a prompt prefilled elsewhere has arrived."""
    first_s: Any
    """When the first token came; -1 before."""
    finish_s: Any
    """When the last token came; -1 before."""
    preemptions: Any
    running: Any
    """(512 + 1,): ids in order of admission."""
    lanes: Any
    """(3, requests): queue of each class."""
    ring: Any
    """(RING_SIZE,): preempted requests, the next to be admitted first."""
    ints: Any
    times: Any
    ttft_s: Any
    """TTFT of the requests that got their first token in this second."""
    out: Any
    """What the second yields, by the names of :mod:`simulator.serving.kernel`."""


class Plan(NamedTuple):
    """An action, resolved against the pack."""

    batch_cap: int
    total_blocks: int
    gamma: int
    disaggregated: bool
    budget_rows: int
    transfer_s_per_token: float
    accept: Any
    """(8,): draft acceptance by prompt-length bucket."""
    slo_s: Any
    """(3,)"""
    tables: Any
    """:class:`simulator.serving.iteration_time.IterationTables`"""
    uniforms: Any
    """Numbers in [0, 1) of this second, for draft acceptance."""
