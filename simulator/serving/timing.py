"""How the event engine times its work: two readings of a trace pack.

``additive``
    A prompt and the decode step beside it each have a forward pass of their own:
    TPOT = step + running x prefill / output. Steps are read linearly in log2 of the batch and of the context,
    so that throughput rises with the batch until memory binds.
``mixed_batch``
    Prompt chunks and decoding sequences share a forward pass, as in an engine with chunked prefill: the
    weights are read once. Steps follow the kernels' tiles of rows, short prompts share a pass, first tokens
    come at the end of an iteration (:mod:`simulator.serving.iteration_time`,
    :mod:`simulator.serving.mixed_batch`).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, get_args

import numpy as np

from inferencegym.models.serving import EngineTiming
from simulator.packs.schema import SPEC_LENGTHS
from simulator.packs.trace_table import MAX_DENSE_TOKENS, TraceTable, linear_weights
from simulator.serving.iteration_time import IterationTimes

__all__ = ["ENGINE_TIMINGS", "EngineRows", "engine_rows"]

ENGINE_TIMINGS: tuple[EngineTiming, ...] = get_args(EngineTiming)


class EngineRows(NamedTuple):
    """Dense times that the event engine reads, in seconds, and how it composes them."""

    mixed_batch: bool
    step_rows_s: list[list[list[list[float]]]]
    """``[spec][tier][length bucket][sequences 0..512]``: one verify step."""
    prefill_rows_s: list[list[float]]
    """``[tier][tokens 0..16384]``: one prompt alone."""
    pass_rows_s: list[list[float]]
    """``[tier][token rows]``: layers and projection of one forward pass, without attention; one zero where
    nothing shares a pass."""
    context_bucket: list[int]
    """Left length bucket for a context in tokens."""
    context_weight: list[float]
    """Weight of the bucket to the right."""


@cache
def engine_rows(table: TraceTable, timing: EngineTiming) -> EngineRows:
    """The rows of a pack under a timing, made once a process."""
    if timing == "additive":
        return EngineRows(
            False,
            table.step_rows_s,
            table.prefill_rows_s,
            [[0.0] for _ in table.prefill_rows_s],
            table.context_bucket,
            table.context_weight,
        )
    times, tiers = IterationTimes(table), range(len(table.prefill_rows_s))
    steps_ms = [[times.tables(gamma, tier).decode_ms for tier in tiers] for gamma in SPEC_LENGTHS]
    left, weight = linear_weights(np.arange(MAX_DENSE_TOKENS + 1.0), times.contexts_tokens)
    return EngineRows(
        True,
        (np.asarray(steps_ms) / 1000.0).tolist(),
        [(times.prompts_ms(tier) / 1000.0).tolist() for tier in tiers],
        [(times.pass_ms(tier) / 1000.0).tolist() for tier in tiers],
        left.tolist(),
        weight.tolist(),
    )
