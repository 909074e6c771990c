"""A roofline corrected by a handful of numbers, which measurements of a deployment can determine.

What an engine does beyond its kernels (scheduling, sampling, the API server) costs time per step, per
sequence and per prompt; what its kernels do better or worse than those the roofline was fitted to are
factors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simulator.packs.building.kernel_sources import (
    FloatArray,
    ForwardParts,
    KernelSource,
    ModelShape,
    SourceInfo,
    TierMemory,
)
from simulator.packs.schema import QUANT_TIERS

__all__ = ["CalibratedKernels", "Correction"]

_ONE = np.ones(1)


@dataclass(frozen=True, slots=True)
class Correction:
    """What is changed of a kernel source's times. The defaults change nothing."""

    prefill: float = 1.0
    """Factor on prefill."""
    weights: tuple[float, ...] = (1.0,) * len(QUANT_TIERS)
    """Factor on the matrices, norms and vocabulary projection of one row's step, by tier: reading weights."""
    rows: tuple[float, ...] = (1.0,) * len(QUANT_TIERS)
    """Factor on what these take more for more rows, by tier: arithmetic and activations."""
    attention: float = 1.0
    """Factor on attention over the cache."""
    step_ms: float = 0.0
    """Added to every step."""
    sequence_ms: float = 0.0
    """Added to every step for each running sequence."""
    prompt_ms: float = 0.0
    """Added to every prefill."""


class CalibratedKernels:
    """``KernelSource`` that corrects another one's times; memory is the other one's.

    Arguments:
        base: the source, usually a roofline.
        correction: factors and overheads.
        info: provenance of the result; the default is the base's.
    """

    def __init__(self, base: KernelSource, correction: Correction, info: SourceInfo | None = None) -> None:
        self._base = base
        self._correction = correction
        self._info = info or replace(base.info, source="imported")

    @property
    def info(self) -> SourceInfo:
        """Where the numbers come from."""
        return self._info

    @property
    def shape(self) -> ModelShape:
        """Dimensions of the model."""
        return self._base.shape

    def decode(
        self, tier: int, rows: FloatArray, sequences: FloatArray, context_tokens: FloatArray
    ) -> ForwardParts:
        """One forward; see ``KernelSource.decode``. Overheads are counted with the layers."""
        parts, by = self._base.decode(tier, rows, sequences, context_tokens), self._correction
        alone = self._base.decode(tier, _ONE, _ONE, _ONE)
        overhead_ms = by.step_ms + by.sequence_ms * sequences
        return ForwardParts(
            layers_ms=_apart(parts.layers_ms, alone.layers_ms, by.weights[tier], by.rows[tier]) + overhead_ms,
            attention_ms=parts.attention_ms * by.attention,
            head_ms=_apart(parts.head_ms, alone.head_ms, by.weights[tier], by.rows[tier]),
        )

    def prefill_ms(self, tier: int, prompt_tokens: FloatArray) -> FloatArray:
        """Prefill of one prompt alone on the GPU."""
        by = self._correction
        return self._base.prefill_ms(tier, prompt_tokens) * by.prefill + by.prompt_ms

    def memory(self, tier: int) -> TierMemory:
        """Memory of the tier."""
        return self._base.memory(tier)


def _apart(time_ms: FloatArray, alone_ms: FloatArray, alone: float, growth: float) -> FloatArray:
    """A time with one factor on what one row takes and another on what the rows take more."""
    return alone_ms * alone + (time_ms - alone_ms) * growth
