"""State of many engines in flat arrays, and the trace table beside them, for compiled code.

One engine is one row of every array of :class:`Engines`; the constants here name the columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.packs import physics
from simulator.packs.schema import SPEC_LENGTHS
from simulator.serving import kernel
from simulator.serving.engine import EngineModel, Knobs, SecondResult
from simulator.serving.vector_heap import HEAP_SIZE, TAGS_SIZE

__all__ = ["KNOBS", "RESULT", "Engines", "Tables"]

FloatArray = npt.NDArray[np.float64]

KNOBS = Knobs._fields
"""Columns of an array of knobs, shape (N, 5), float64."""

RESULT = {name: index for index, name in enumerate(SecondResult._fields)}
"""Column of each field of SecondResult in ``Engines.results``."""

# Rows of Engines.requests: the episode's requests, then what changes.
ARRIVAL, PROMPT, OUTPUT, SHARE, LEFT, CONTEXT, JOINED = range(7)
# Rows of Engines.ids; the three queues first.
QUEUES, ORDER, PRIORITY = 0, 3, 4
# Columns of Engines.signals: rate_ema_rps, prompt_ema_tokens, mix and jitter of EpisodeTraffic.
RATE, PROMPT_EMA, MIX, JITTER = 0, 1, 2, 5
SIGNALS = 8
# Columns of Engines.clock.
SECOND, TIER = 0, 1

# Entries of Tables.constants.
(
    FIXED_BYTES,
    SAMPLER_BYTES,
    KV_BYTES,
    LIMIT_GB,
    CHUNK_TOKENS,
    TRANSFER_S,
    CENTS_PER_S,
    COST_CAP,
    LOAD_BYTES_PER_S,
) = range(9)

# Rows of Tables.tiers.
WEIGHTS_BYTES, POOL_TOKENS = 0, 1


class Tables(NamedTuple):
    """Constants of one deployment; what :class:`EngineModel` looks up or computes from few values."""

    step_rows_s: FloatArray
    """(spec_length, tier, length bucket, sequences)"""
    prefill_rows_s: FloatArray
    """(tier, tokens)"""
    pass_rows_s: FloatArray
    """(tier, token rows)"""
    mixed_batch: bool
    context_bucket: npt.NDArray[np.int64]
    context_weight: FloatArray
    accept_rate: FloatArray
    """(length bucket, spec_length)"""
    tokens_per_step: FloatArray
    """(length bucket, spec_length)"""
    tiers: FloatArray
    """(2, tier): bytes of the weights, tokens of the whole KV pool"""
    slo_s: FloatArray
    spec_lengths: npt.NDArray[np.int64]
    constants: FloatArray

    @classmethod
    def of(cls, model: EngineModel) -> Tables:
        """Arrays of a deployment. Draft acceptance is tabulated by the functions that compute it."""
        rows, pack = model.rows, model.table.metadata
        accept = _acceptance(model.workload.base_acceptance_rate)
        per_step = [
            [physics.tokens_per_verify_step(a, g) for a, g in zip(row, SPEC_LENGTHS, strict=True)]
            for row in accept
        ]
        constants = (
            pack.fixed_bytes,
            pack.sampler_bytes_per_row,
            pack.kv_bytes_per_token,
            pack.memory_limit_gb,
            pack.prefill_chunk_tokens,
            pack.kv_bytes_per_token / (pack.kv_link_gb_per_s * 1e9),
            pack.cents_per_engine_hour / 3600.0,
            pack.cost_cap_cents_per_1k,
            pack.weight_load_gb_per_s * 1e9,
        )
        return cls(
            np.asarray(rows.step_rows_s),
            np.asarray(rows.prefill_rows_s),
            np.asarray(rows.pass_rows_s),
            rows.mixed_batch,
            np.asarray(rows.context_bucket, dtype=np.int64),
            np.asarray(rows.context_weight),
            np.asarray(accept),
            np.asarray(per_step),
            np.asarray([pack.weights_bytes, pack.kv_pool_tokens], dtype=np.float64),
            np.asarray([ms / 1000.0 for ms in model.workload.slo_ms]),
            np.asarray(SPEC_LENGTHS, dtype=np.int64),
            np.asarray(constants, dtype=np.float64),
        )


def _acceptance(base_rate: float) -> list[list[float]]:
    """Draft acceptance by length bucket and draft length; 0 without drafts."""
    return [
        [physics.acceptance_rate(base_rate, bucket, gamma) if gamma else 0.0 for gamma in SPEC_LENGTHS]
        for bucket in range(len(physics.PROMPT_BUCKET_EDGES) + 1)
    ]


class Engines(NamedTuple):
    """N engines with their traffic: up to ``capacity`` requests each, over ``seconds`` seconds."""

    requests: FloatArray
    """(N, 7, capacity)"""
    ids: npt.NDArray[np.int32]
    """(N, 5, capacity)"""
    first_request: npt.NDArray[np.int64]
    """(N, seconds + 1)"""
    signals: FloatArray
    """(N, seconds, 8)"""
    floats: FloatArray
    ints: npt.NDArray[np.int64]
    ring: npt.NDArray[np.int32]
    heap_keys: FloatArray
    heap_tags: npt.NDArray[np.int64]
    clock: npt.NDArray[np.int64]
    """(N, 2): next second to serve (0: never started), tier of the weights loaded (-1: none)"""
    ttft_s: FloatArray
    """(N, capacity)"""
    out: FloatArray
    results: FloatArray
    """(N, 18): SecondResult of the last second"""

    @classmethod
    def empty(cls, count: int, capacity: int, seconds: int) -> Engines:
        """Arrays for ``count`` engines that have not been started."""
        return cls(
            np.zeros((count, JOINED + 1, capacity)),
            np.zeros((count, PRIORITY + 1, capacity), dtype=np.int32),
            np.zeros((count, seconds + 1), dtype=np.int64),
            np.zeros((count, seconds, SIGNALS)),
            np.zeros((count, kernel.FLOAT_STATE)),
            np.zeros((count, kernel.INT_STATE), dtype=np.int64),
            np.zeros((count, kernel.RING_SIZE), dtype=np.int32),
            np.zeros((count, HEAP_SIZE)),
            np.zeros((count, TAGS_SIZE), dtype=np.int64),
            np.zeros((count, TIER + 1), dtype=np.int64),
            np.zeros((count, capacity)),
            np.zeros((count, kernel.OUTPUTS)),
            np.zeros((count, len(RESULT))),
        )

    @property
    def capacity(self) -> int:
        """Requests that fit into a row."""
        return self.requests.shape[2]

    def with_capacity(self, capacity: int) -> Engines:
        """A copy with room for more requests in each row."""
        grown = Engines.empty(len(self.clock), capacity, self.signals.shape[1])
        for old, new in zip(self, grown, strict=True):
            new[tuple(slice(length) for length in old.shape)] = old
        return grown
