"""What the pack builder asks of a source of kernel timings, and the small types it answers with.

Two sources implement ``KernelSource``: ``measured_kernels`` (timings of real GPUs) and
``roofline_kernels`` (first principles). The builder does not know which one it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = [
    "MAX_BATCHED_TOKENS",
    "POOL_FRACTION",
    "FloatArray",
    "ForwardParts",
    "KernelSource",
    "ModelShape",
    "SourceInfo",
    "TierMemory",
]

FloatArray = npt.NDArray[np.float64]

MAX_BATCHED_TOKENS = 8192
"""Token rows of the largest forward that activations are reserved for."""

POOL_FRACTION = 0.9
"""Share of the memory left beside weights, runtime and activations that becomes KV pool: the default of
TensorRT-LLM's ``free_gpu_memory_fraction``."""

_BF16_BYTES = 2.0


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Dimensions of a dense decoder-only transformer with grouped-query attention."""

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int

    @property
    def layer_matrices(self) -> tuple[tuple[int, int], ...]:
        """(inputs, outputs) of one layer's four matrix multiplications: QKV, output, gate+up, down."""
        query, key_value = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return (
            (self.hidden, query + 2 * key_value),
            (query, self.hidden),
            (self.hidden, 2 * self.intermediate),
            (self.intermediate, self.hidden),
        )

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer's matrices; these are what quantisation shrinks."""
        return sum(inputs * outputs for inputs, outputs in self.layer_matrices)  # whole numbers

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values (bfloat16) that one token leaves in the cache."""
        return int(2 * self.layers * self.kv_heads * self.head_dim * _BF16_BYTES)


@dataclass(frozen=True, slots=True)
class ForwardParts:
    """Time of one decode forward, in parts that broadcast with the arguments of the call (ms)."""

    layers_ms: FloatArray
    """All decoder layers without attention over the cache: matrices, norms, activation."""
    attention_ms: FloatArray
    """Attention over the KV cache, all layers."""
    head_ms: FloatArray
    """Embedding and vocabulary projection."""

    @property
    def total_ms(self) -> FloatArray:
        """The whole forward."""
        return self.layers_ms + self.attention_ms + self.head_ms


@dataclass(frozen=True, slots=True)
class TierMemory:
    """Memory of one quantisation tier on the GPU that the source describes."""

    weights_bytes: float
    runtime_bytes: float
    activation_bytes: float
    kv_bytes_per_token: int
    kv_pool_tokens: int


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """Provenance, as it goes into the pack's metadata."""

    source: str
    gpu: str
    model: str
    engine: str
    engine_version: str
    library: str
    library_version: str
    tier_kernels: tuple[str, ...]
    tier_names: tuple[str, ...] = ("FP16", "INT8", "INT4")
    gpus: int = 1
    """Tensor-parallel size."""


class KernelSource(Protocol):
    """Timings and memory of one model on one GPU; ``tier`` is an index of ``QUANT_TIERS``."""

    @property
    def info(self) -> SourceInfo:
        """Where the numbers come from."""
        ...

    @property
    def shape(self) -> ModelShape:
        """Dimensions of the model."""
        ...

    def decode(
        self, tier: int, rows: FloatArray, sequences: FloatArray, context_tokens: FloatArray
    ) -> ForwardParts:
        """One forward of ``rows`` token rows that belong to ``sequences`` cached sequences.

        ``rows`` is ``sequences`` in plain decoding and ``sequences * (gamma + 1)`` when a verify step
        checks drafts; the cache (``context_tokens`` a sequence) is read once a sequence either way.
        """
        ...

    def prefill_ms(self, tier: int, prompt_tokens: FloatArray) -> FloatArray:
        """Prefill of one prompt alone on the GPU."""
        ...

    def memory(self, tier: int) -> TierMemory:
        """Memory of the tier inside the limit the source was made with."""
        ...
