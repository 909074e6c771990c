"""How long one iteration of an engine takes, decode and prompt chunks mixed, from a trace pack alone.

A continuous-batching engine runs all token rows of an iteration through one forward pass: the weights are
read once, whatever the rows belong to. Only attention is by sequence, and the vocabulary projection is for
rows that emit a token. So an iteration of ``n`` decoding sequences (``D = n * (gamma + 1)`` rows) and ``P``
prompt tokens takes

    decode(n, gamma, context) + layers(D + P) - layers(D) + attention of the prompt chunks

and not decode + prefill, which would read the weights twice. aiconfigurator-core composes its mixed steps
alike (matrices over all rows, attention for each part). The pack has no mixed rows; they follow from what
is in it:

- attention over a large cache takes the same time a byte for every batch, so the rows with the largest caches
  tell how much of a step is attention and how much is ``forward(rows)``;
- a verify step of ``n`` sequences is a forward of ``n * (gamma + 1)`` rows, so the rows with drafts give the
  forward at 48, 80, 96, 144, 160, 192 … rows, between the grid's batch sizes. There it is a staircase
  (kernels work in tiles of rows), which a line between 128 and 256 misses by a fifth;
- a draft step is one layer and the vocabulary projection, so drafts also tell the projection apart.

``python -m simulator.packs.building.held_out`` compares the result with the library's own mixed steps.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from simulator.packs.schema import BATCH_SIZES, PROMPT_LENGTHS_TOKENS, SPEC_LENGTHS
from simulator.packs.trace_table import MAX_DENSE_TOKENS, TraceTable

__all__ = ["IterationTables", "IterationTimes", "iteration_ms"]

FloatArray = npt.NDArray[np.float64]

_BATCHES = np.asarray(BATCH_SIZES, dtype=np.float64)
_PROMPTS = np.asarray(PROMPT_LENGTHS_TOKENS, dtype=np.float64)

_BANDWIDTH_BOUND = BATCH_SIZES.index(16)
"""From this batch on attention over the longest contexts is bound by bandwidth on every GPU the packs were
built for; below it, launches blur what is attention and what is not."""

_ONE_DRAFT = SPEC_LENGTHS.index(1)


class IterationTables(NamedTuple):
    """Times of one draft length and tier, ms, for :func:`iteration_ms`."""

    decode_ms: FloatArray
    """(contexts, sequences): a verify step of 0 .. 512 sequences at each of ``contexts_tokens``."""
    contexts_tokens: FloatArray
    layers_ms: FloatArray
    """(rows,): all layers but attention, and none of the vocabulary projection."""
    chunk_attention_ms: FloatArray
    """(tokens,): attention of a prompt up to a token; a chunk takes the difference of its two ends."""
    chunk_fixed_ms: float
    """Launches of prefill attention, once an iteration that has a chunk."""
    head_ms: float
    """Vocabulary projection of an iteration that has no decode rows."""
    one_pass: bool
    """Whether decode rows and prompt tokens share a forward pass."""


def iteration_ms(
    tables: IterationTables, sequences: int, context_tokens: float, decode_rows: int, chunk_tokens: int
) -> float:
    """One iteration without the attention of its chunks, ms. Plain arithmetic, so that it can be compiled.

    Args:
        tables: for the draft length and tier.
        sequences: decoding sequences.
        context_tokens: their mean context.
        decode_rows: token rows they bring, ``sequences * (gamma + 1)``.
        chunk_tokens: prompt tokens in the iteration, all chunks together.
    """
    time_ms = 0.0
    if sequences > 0:
        right = 1
        while right < len(tables.contexts_tokens) - 1 and tables.contexts_tokens[right] < context_tokens:
            right += 1
        below, above = tables.contexts_tokens[right - 1], tables.contexts_tokens[right]
        weight = (context_tokens - below) / (above - below)
        low, high = tables.decode_ms[right - 1][sequences], tables.decode_ms[right][sequences]
        time_ms += low + weight * (high - low)
    if chunk_tokens > 0:
        shared_rows = decode_rows if tables.one_pass else 0
        if shared_rows == 0:
            time_ms += tables.head_ms
        added = tables.layers_ms[shared_rows + chunk_tokens] - tables.layers_ms[shared_rows]
        time_ms += added + tables.chunk_fixed_ms
    return time_ms


class _Forward(NamedTuple):
    """What the pack tells of one tier's forward passes, ms."""

    rows: FloatArray
    forward_ms: FloatArray
    """(rows,): without attention over the cache, with the vocabulary projection of every row."""
    head_ms: FloatArray
    """(rows,)"""


class IterationTimes:
    """Iteration times of a trace pack.

    Args:
        table: the pack.
        one_pass: False runs prompt chunks in a forward pass of their own, after the decode step.
        staircase: False reads decode steps linearly in log2 of the batch, as the additive engine does. Both
            switches are there to find out what a difference between the two simulators is due to.
    """

    def __init__(self, table: TraceTable, *, one_pass: bool = True, staircase: bool = True) -> None:
        self._table = table
        self._one_pass = one_pass
        self._staircase = staircase
        self.contexts_tokens = _PROMPTS + 0.5 * table.metadata.reference_output_tokens
        self._chunk_tokens = table.metadata.prefill_chunk_tokens

    @cache  # noqa: B019 - one object per pack and process
    def tables(self, spec_length: int, tier: int) -> IterationTables:
        """Dense tables for a draft length and tier."""
        forward = self._forward(tier)
        layers = self._layers(forward)
        chunk_fixed, attention = self._chunk_attention(tier, layers, float(forward.head_ms[0]))
        return IterationTables(
            decode_ms=self._decode(spec_length, tier, forward),
            contexts_tokens=self.contexts_tokens,
            layers_ms=layers,
            chunk_attention_ms=attention,
            chunk_fixed_ms=chunk_fixed,
            head_ms=float(forward.head_ms[0]),
            one_pass=self._one_pass,
        )

    def pass_ms(self, tier: int) -> FloatArray:
        """One forward pass without attention, by its token rows; 0 of none."""
        tables = self.tables(0, tier)
        return np.where(tables.layers_ms > 0, tables.layers_ms + tables.head_ms, 0.0)

    def prompts_ms(self, tier: int) -> FloatArray:
        """Prefill of one prompt alone, in chunks, by its tokens."""
        tables = self.tables(0, tier)
        chunks, rest = np.divmod(np.arange(MAX_DENSE_TOKENS + 1), self._chunk_tokens)
        layers = chunks * tables.layers_ms[self._chunk_tokens] + tables.layers_ms[rest]
        passes = chunks + (rest > 0)
        return layers + passes * (tables.head_ms + tables.chunk_fixed_ms) + tables.chunk_attention_ms

    def _forward(self, tier: int) -> _Forward:
        """The forward pass over token rows, from plain steps and verify steps."""
        step = self._table.step_ms[:, :, tier]
        plain = step[:, 0]
        widest = plain[-1, -1] - plain[-1, -2]
        per_cached_token = widest / (_BATCHES[-1] * (self.contexts_tokens[-1] - self.contexts_tokens[-2]))
        # Attention takes at least its bytes' time, and just that where bandwidth binds.
        least = per_cached_token * _BATCHES[:, None] * self.contexts_tokens
        alone = np.min(plain - least, axis=1)
        known: dict[int, float] = dict(zip(BATCH_SIZES, alone.tolist(), strict=True))
        cached = plain - alone[:, None]
        head: dict[int, float] = {}
        for index in range(_BANDWIDTH_BOUND, len(BATCH_SIZES) - 1):
            batch = BATCH_SIZES[index]
            draft: FloatArray = step[index, _ONE_DRAFT] - known[2 * batch] - cached[index]
            # A draft step is a layer's share of a plain step and the projection.
            share = float((draft[-1] - draft[0]) / (plain[index, -1] - plain[index, 0]))
            projection: FloatArray = (draft - share * plain[index]) / (1.0 - share)
            head[batch] = float(np.mean(projection))
            for spec, gamma in enumerate(SPEC_LENGTHS):
                if gamma > 1:
                    verify: FloatArray = step[index, spec] - cached[index] - gamma * draft
                    known[batch * (gamma + 1)] = float(np.mean(verify))
        rows = np.asarray(sorted(known), dtype=np.float64)
        forward_ms = _rising(np.asarray([known[row] for row in sorted(known)]))
        sizes = np.asarray(sorted(head), dtype=np.float64)
        head_ms = np.interp(rows, sizes, [head[int(size)] for size in sizes])
        # Beyond the last one known the projection is bound by arithmetic.
        head_ms = np.where(rows > sizes[-1], head_ms[rows == sizes[-1]] * rows / sizes[-1], head_ms)
        return _Forward(rows, forward_ms, head_ms)

    def _layers(self, forward: _Forward) -> FloatArray:
        rows = np.arange(self._chunk_tokens + BATCH_SIZES[-1] * (SPEC_LENGTHS[-1] + 1) + 1.0)
        layers = _line(rows, forward.rows, _rising(forward.forward_ms - forward.head_ms))
        return np.where(rows > 0, layers, 0.0)

    def _decode(self, spec_length: int, tier: int, forward: _Forward) -> FloatArray:
        """A verify step at the table's batch sizes exactly, between them along the forward's staircase."""
        spec = SPEC_LENGTHS.index(spec_length)
        if not self._staircase:
            return 1000.0 * np.asarray(self._table.step_rows_s[spec][tier])
        step = self._table.step_ms[:, spec, tier]
        rows = np.arange(BATCH_SIZES[-1] + 1.0) * (spec_length + 1)
        staircase = _line(rows, forward.rows, forward.forward_ms)
        nodes = _line(_BATCHES * (spec_length + 1), forward.rows, forward.forward_ms)
        rest = step - nodes[:, None]
        sequences = np.arange(BATCH_SIZES[-1] + 1.0)
        return np.stack(
            [staircase + np.interp(sequences, _BATCHES, rest[:, k]) for k in range(len(self.contexts_tokens))]
        )

    def _chunk_attention(self, tier: int, layers: FloatArray, head_ms: float) -> tuple[float, FloatArray]:
        """Launches, and attention up to a token: what prefilling a prompt takes beyond its chunks' layers.

        Grows with the square of the length, so time a token is what is read along a line.
        """
        chunk = self._chunk_tokens
        full, rest = np.divmod(_PROMPTS.astype(np.int64), chunk)
        beyond = self._table.prefill_ms[tier] - head_ms - full * layers[chunk] - layers[rest]
        fixed = max(float(beyond[0]), 0.0)
        growing = _rising(np.maximum(beyond - fixed, 0.0))
        tokens = np.arange(MAX_DENSE_TOKENS + 1.0)
        return fixed, tokens * _line(tokens, _PROMPTS, growing / _PROMPTS)


def _line(x: FloatArray, nodes: FloatArray, values: FloatArray) -> FloatArray:
    """Piecewise linear; held below the first node, going on along the last piece beyond the last."""
    inside = np.interp(x, nodes, values)
    slope = (values[-1] - values[-2]) / (nodes[-1] - nodes[-2])
    return np.where(x > nodes[-1], values[-1] + slope * (x - nodes[-1]), inside)


def _rising(values: FloatArray) -> FloatArray:
    """Values that never fall: more rows or tokens do not take less time, timing noise or not."""
    return cast("FloatArray", np.maximum.accumulate(values))
