"""A trace pack in memory: the measured grid, and the two primitives that the simulators read from it.

The pack's latency columns are combinations of two primitives (see ``simulator/packs/schema.py``),
which are recovered exactly here:

- *step*: one verify step of ``n`` resident sequences at a given context (``tpot_ms * E_ref``);
- *prefill*: the prefill of one prompt (``ttft_p50_ms - step / 2``).

:class:`TraceTable` offers them twice. For arrays, one vector-valued SciPy interpolation over log2 batch,
kv_budget and log2 length. For the event simulator, which asks a hundred times per simulated second, dense
rows indexed by a whole number of sequences or tokens, made from the same grid with the same rule.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final, cast

import numpy as np
import numpy.typing as npt
from scipy.interpolate import RegularGridInterpolator

from simulator.packs.io import DEFAULT_PACK_PATH, read_pack
from simulator.packs.schema import (
    BATCH_SIZES,
    KV_BUDGETS,
    PROMPT_LENGTHS_TOKENS,
    SPEC_LENGTHS,
    VALUE_COLUMNS,
    PackMetadata,
)

__all__ = [
    "DEFAULT_PACK_PATH",
    "MAX_DENSE_TOKENS",
    "TraceTable",
    "linear_weights",
    "load_trace_table",
    "log2_weights",
]

MAX_DENSE_TOKENS: Final = 16_384
"""Longest prompt or context (tokens) of the dense rows; above 8,192 they extrapolate linearly in log2."""

FloatArray = npt.NDArray[np.float64]


def log2_weights(points: FloatArray, nodes: tuple[int, ...]) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Left node index and weight of the right node, linear in log2, clamped below, extrapolated above."""
    return linear_weights(np.log2(np.maximum(points, nodes[0])), np.log2(np.asarray(nodes, dtype=np.float64)))


def linear_weights(points: FloatArray, nodes: FloatArray) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Left node index and weight of the right node, extrapolated at both ends."""
    left = np.clip(np.searchsorted(nodes, points, side="right") - 1, 0, len(nodes) - 2)
    weight = (points - nodes[left]) / (nodes[left + 1] - nodes[left])
    return left, weight


class TraceTable:
    """The grid of one trace pack. Immutable after construction; share it between simulators.

    Attributes:
        metadata: origin and constants of the pack.
        values: (9, 5, 5, 3, 8, 6) float64, axes and columns as in ``pack_schema``.
        step_ms: (9, 5, 3, 8): batch, spec_length, quant_tier, prompt bucket; ms per verify step.
        prefill_ms: (3, 8): quant_tier, prompt bucket; ms to prefill one prompt.
        step_rows_s: dense verify-step time, seconds: ``[spec][tier][length bucket][sequences 0..512]``.
        prefill_rows_s: dense prefill time, seconds: ``[tier][tokens 0..16384]``.
        sha256: digest of the file as it was loaded; it may be another one on disk by now.
        context_bucket, context_weight: left length bucket and right weight for a context in tokens.
    """

    def __init__(self, path: str | Path = DEFAULT_PACK_PATH) -> None:
        self.path = Path(path)
        pack = read_pack(self.path)
        self.sha256 = hashlib.sha256(self.path.read_bytes()).hexdigest()
        self.metadata: PackMetadata = pack.metadata
        self.values: FloatArray = np.stack([pack.columns[name] for name in VALUE_COLUMNS], axis=-1)
        self._recover_primitives()
        self._make_dense_rows()
        self._interpolators: dict[tuple[int, int], RegularGridInterpolator] = {}

    def _recover_primitives(self) -> None:
        tpot = self.values[:, 0, :, :, :, VALUE_COLUMNS.index("tpot_ms")]
        ttft = self.values[:, 0, :, :, :, VALUE_COLUMNS.index("ttft_p50_ms")]
        reference = self.metadata.reference_tokens_per_step()
        self.step_ms: FloatArray = tpot * reference[None, :, None, None]
        self.prefill_ms: FloatArray = (ttft - 0.5 * self.step_ms)[0, 0]

    def _make_dense_rows(self) -> None:
        left, weight = log2_weights(np.arange(BATCH_SIZES[-1] + 1, dtype=np.float64), BATCH_SIZES)
        rise = self.step_ms[left + 1] - self.step_ms[left]
        step = self.step_ms[left] + weight[:, None, None, None] * rise
        self.step_rows_s: list[list[list[list[float]]]] = (step.transpose(1, 2, 3, 0) / 1000.0).tolist()
        tokens = np.arange(MAX_DENSE_TOKENS + 1, dtype=np.float64)
        left, weight = log2_weights(tokens, PROMPT_LENGTHS_TOKENS)
        prefill = self.prefill_ms[:, left] + weight * (
            self.prefill_ms[:, left + 1] - self.prefill_ms[:, left]
        )
        self.prefill_rows_s: list[list[float]] = (prefill / 1000.0).tolist()
        # A step at table length P was measured at a context of P + out/2 tokens.
        shifted = tokens - 0.5 * self.metadata.reference_output_tokens
        left, weight = log2_weights(shifted, PROMPT_LENGTHS_TOKENS)
        self.context_bucket: list[int] = left.tolist()
        self.context_weight: list[float] = weight.tolist()

    def interpolate(
        self,
        spec_index: int,
        quant_tier: int,
        batch_size: FloatArray,
        kv_budget: FloatArray,
        length_tokens: FloatArray,
    ) -> FloatArray:
        """All value columns plus step_ms and prefill_ms at N points, shape ``(N, 8)``.

        Linear over log2 batch, kv_budget and log2 length (one vector-valued SciPy call); batch and length
        below the grid take its edge, above it they extrapolate.
        """
        key = (spec_index, quant_tier)
        if key not in self._interpolators:
            self._interpolators[key] = self._build_interpolator(spec_index, quant_tier)
        points = np.stack(
            [
                np.log2(np.maximum(batch_size, BATCH_SIZES[0])),
                kv_budget,
                np.log2(np.maximum(length_tokens, PROMPT_LENGTHS_TOKENS[0])),
            ],
            axis=-1,
        )
        return self._interpolators[key](points)

    def _build_interpolator(self, spec_index: int, quant_tier: int) -> RegularGridInterpolator:
        grid = self.values[:, :, spec_index, quant_tier]
        step = np.broadcast_to(self.step_ms[:, None, spec_index, quant_tier], grid.shape[:-1])
        prefill = np.broadcast_to(self.prefill_ms[quant_tier], grid.shape[:-1])
        axes = (
            np.log2(np.asarray(BATCH_SIZES, dtype=np.float64)),
            np.asarray(KV_BUDGETS),
            np.log2(np.asarray(PROMPT_LENGTHS_TOKENS, dtype=np.float64)),
        )
        stacked = np.concatenate([grid, step[..., None], prefill[..., None]], axis=-1)
        extrapolate = cast("float", None)  # what SciPy takes None for; its annotation leaves it out
        return RegularGridInterpolator(
            axes, stacked, method="linear", bounds_error=False, fill_value=extrapolate
        )

    def spec_index(self, spec_length: int) -> int:
        """Axis index of a draft length."""
        return SPEC_LENGTHS.index(spec_length)


@cache
def load_trace_table(path: str | Path = DEFAULT_PACK_PATH) -> TraceTable:
    """The table at ``path``, loaded once per process."""
    return TraceTable(path)
