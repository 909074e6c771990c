"""Kernel timings from first principles: a roofline with a handful of fitted efficiencies.

Needs nothing but NumPy, so that a trace pack can be built for a GPU that nobody measured. Every operation
takes the smooth maximum of its arithmetic time and its memory time, plus a launch:

    t = ((flops / (peak * e_c)) ** p + (bytes / (bandwidth * e_m)) ** p) ** (1 / p) + launch

``e_c``, ``e_m``, ``p`` and the launch time are constants fitted to the measured A100 kernels by
``python -m simulator.packs.building.fit_roofline``, which also prints what deviation is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferencegym.errors import UnknownNameError
from simulator.packs.building.kernel_sources import (
    MAX_BATCHED_TOKENS,
    POOL_FRACTION,
    FloatArray,
    ForwardParts,
    ModelShape,
    SourceInfo,
    TierMemory,
)
from simulator.packs.physics import GIB

__all__ = ["FITTED", "GPUS", "MODELS", "Efficiencies", "GpuPeaks", "RooflineKernels"]

RUNTIME_BYTES = 3.5 * GIB
"""CUDA context, workspaces and allocator slack of an engine process; the reserve that
aiconfigurator-core's system files hold for TensorRT-LLM."""

ACTIVATION_BUFFERS = 11
"""Hidden-state-sized bfloat16 buffers alive at once in a prefill forward: the count that explains the
0.69 GiB which aiconfigurator-core reserves for 8,192 tokens of Llama-3-8B."""

_BF16_BYTES = 2.0
_WEIGHT_BYTES_PER_PARAMETER = (2.0, 1.0, 0.5)
"""Bytes per parameter of the layer matrices by tier. Scales and zero points add under 3 % and are left
out, as in aiconfigurator-core; embeddings and vocabulary projection stay bfloat16."""

_KERNELS_PER_LAYER = 4
"""Launches beside the four matrices: two norms, activation, attention."""


@dataclass(frozen=True, slots=True)
class GpuPeaks:
    """Data-sheet peaks of a GPU."""

    name: str
    bf16_tflops: float
    memory_tb_per_s: float


@dataclass(frozen=True, slots=True)
class Efficiencies:
    """Shares of peak that kernels reach; tuples are indexed by tier."""

    matrix_compute: tuple[float, float, float]
    matrix_memory: tuple[float, float, float]
    cache_memory: float
    prefill_attention_compute: float
    elementwise_memory: float
    smoothness: float
    """Exponent ``p``: large is a hard maximum."""
    launch_us: float


GPUS = {
    "a100_sxm": GpuPeaks("a100_sxm", 312.0, 2.039),
    "a100_sxm_40gb": GpuPeaks("a100_sxm_40gb", 312.0, 1.555),
    "h100_sxm": GpuPeaks("h100_sxm", 989.0, 3.35),
    "h200_sxm": GpuPeaks("h200_sxm", 989.0, 4.8),
    "l40s": GpuPeaks("l40s", 362.0, 0.864),
}
"""Dense bfloat16 tensor-core peak and memory bandwidth, NVIDIA data sheets."""

MODELS = {
    shape.name: shape
    for shape in (
        ModelShape("meta-llama/Meta-Llama-3.1-8B", 32, 4096, 14336, 32, 8, 128, 128256),
        ModelShape("meta-llama/Meta-Llama-3-8B", 32, 4096, 14336, 32, 8, 128, 128256),
        ModelShape("meta-llama/Meta-Llama-3.1-70B", 80, 8192, 28672, 64, 8, 128, 128256),
        ModelShape("Qwen/Qwen3-8B", 36, 4096, 12288, 32, 8, 128, 151936),
        ModelShape("Qwen/Qwen3-32B", 64, 5120, 25600, 64, 8, 128, 151936),
        ModelShape("mistralai/Mistral-7B-v0.3", 32, 4096, 14336, 32, 8, 128, 32768),
    )
}
"""Shapes from the models' published configurations."""

FITTED = Efficiencies(
    matrix_compute=(1.0, 0.944, 0.877),
    matrix_memory=(0.788, 0.640, 0.392),
    cache_memory=1.0,
    prefill_attention_compute=0.433,
    elementwise_memory=0.280,
    smoothness=1.27,
    launch_us=6.79,
)
"""Fitted to the committed A100 pack. With so low a ``smoothness`` the two times nearly add, so the shares
are not to be read alone: at equal compute and memory time a matrix takes 1.7 times either."""


class RooflineKernels:
    """``KernelSource`` of a dense model on a GPU known by its data sheet.

    Arguments:
        gpu: peaks of the GPU.
        shape: dimensions of the model.
        memory_gib: memory given to the serving process, GiB.
        efficiencies: shares of peak; the defaults were fitted on an A100.
    """

    def __init__(
        self, gpu: GpuPeaks, shape: ModelShape, memory_gib: float, efficiencies: Efficiencies = FITTED
    ) -> None:
        self._gpu = gpu
        self._shape = shape
        self._memory_bytes = memory_gib * GIB
        self._eff = efficiencies

    @classmethod
    def named(cls, gpu: str, model: str, memory_gib: float) -> RooflineKernels:
        """Look GPU and model up by name; ``UnknownNameError`` lists the known ones."""
        if gpu not in GPUS:
            raise UnknownNameError("system", gpu, GPUS)
        if model not in MODELS:
            raise UnknownNameError("model", model, MODELS)
        return cls(GPUS[gpu], MODELS[model], memory_gib)

    @property
    def info(self) -> SourceInfo:
        """Provenance of the numbers."""
        return SourceInfo(
            source="roofline",
            gpu=self._gpu.name,
            model=self._shape.name,
            engine="roofline",
            engine_version="1",
            library="inferencegym",
            library_version="1",
            tier_kernels=("bfloat16 roofline", "int8 weight-only roofline", "int4 weight-only roofline"),
        )

    @property
    def shape(self) -> ModelShape:
        """Dimensions of the model."""
        return self._shape

    def decode(
        self, tier: int, rows: FloatArray, sequences: FloatArray, context_tokens: FloatArray
    ) -> ForwardParts:
        """One decode forward; see ``KernelSource.decode``."""
        cache_bytes = sequences * context_tokens * self._shape.kv_bytes_per_token
        attention_ms = cache_bytes / (self._bandwidth * self._eff.cache_memory) * 1e3
        zero = np.zeros(np.broadcast(rows, context_tokens).shape)
        return ForwardParts(
            layers_ms=self._layers_ms(tier, rows) + zero,
            attention_ms=attention_ms + self._launch_ms * self._shape.layers + zero,
            head_ms=self._matrix_ms(0, rows, self._shape.hidden, self._shape.vocabulary) + zero,
        )

    def prefill_ms(self, tier: int, prompt_tokens: FloatArray) -> FloatArray:
        """Prefill of one prompt; causal attention costs 2 * prompt**2 * hidden-size operations a layer."""
        shape = self._shape
        attention_flops = 2.0 * prompt_tokens**2 * (shape.heads * shape.head_dim) * shape.layers
        attention_ms = attention_flops / (self._peak_flops * self._eff.prefill_attention_compute) * 1e3
        head_ms = self._matrix_ms(0, np.ones_like(prompt_tokens), shape.hidden, shape.vocabulary)
        return self._layers_ms(tier, prompt_tokens) + attention_ms + self._launch_ms * shape.layers + head_ms

    def memory(self, tier: int) -> TierMemory:
        """Weights, reserves and what is left for the KV pool."""
        shape = self._shape
        layer_bytes = shape.layers * shape.layer_parameters * _WEIGHT_BYTES_PER_PARAMETER[tier]
        vocabulary_bytes = 2.0 * shape.vocabulary * shape.hidden * _BF16_BYTES
        weights = layer_bytes + vocabulary_bytes
        activations = ACTIVATION_BUFFERS * MAX_BATCHED_TOKENS * shape.hidden * _BF16_BYTES
        free = max(0.0, self._memory_bytes - weights - RUNTIME_BYTES - activations)
        return TierMemory(
            weights_bytes=weights,
            runtime_bytes=RUNTIME_BYTES,
            activation_bytes=activations,
            kv_bytes_per_token=shape.kv_bytes_per_token,
            kv_pool_tokens=int(free * POOL_FRACTION // shape.kv_bytes_per_token),
        )

    def least_step_ms(self, tier: int) -> float:
        """No step is shorter: every weight but the embedding is read once, at the data sheet's bandwidth."""
        shape = self._shape
        layer_bytes = shape.layers * shape.layer_parameters * _WEIGHT_BYTES_PER_PARAMETER[tier]
        return (layer_bytes + shape.vocabulary * shape.hidden * _BF16_BYTES) / self._bandwidth * 1e3

    @property
    def _peak_flops(self) -> float:
        return self._gpu.bf16_tflops * 1e12

    @property
    def _bandwidth(self) -> float:
        return self._gpu.memory_tb_per_s * 1e12

    @property
    def _launch_ms(self) -> float:
        return self._eff.launch_us * 1e-3

    def _layers_ms(self, tier: int, rows: FloatArray) -> FloatArray:
        """Matrices, norms and activation of all layers for ``rows`` token rows."""
        matrices = np.zeros_like(rows)
        for inputs, outputs in self._shape.layer_matrices:
            matrices = matrices + self._matrix_ms(tier, rows, inputs, outputs)
        # Two norms with residual (read 2, write 2 hidden states) and the gated activation (read 2, write 1).
        moved = (8.0 * self._shape.hidden + 3.0 * self._shape.intermediate) * _BF16_BYTES * rows
        elementwise = moved / (self._bandwidth * self._eff.elementwise_memory) * 1e3
        launches = (_KERNELS_PER_LAYER - 1) * self._launch_ms
        return (matrices + elementwise + launches) * self._shape.layers

    def _matrix_ms(self, tier: int, rows: FloatArray, inputs: int, outputs: int) -> FloatArray:
        """One matrix multiplication of ``rows`` token rows with weights of the tier."""
        flops = 2.0 * rows * inputs * outputs
        moved = inputs * outputs * _WEIGHT_BYTES_PER_PARAMETER[tier] + rows * (inputs + outputs) * _BF16_BYTES
        compute_ms = flops / (self._peak_flops * self._eff.matrix_compute[tier]) * 1e3
        memory_ms = moved / (self._bandwidth * self._eff.matrix_memory[tier]) * 1e3
        p = self._eff.smoothness
        # Factoring out the larger term keeps the powers in range for any size.
        larger = np.maximum(compute_ms, memory_ms)
        ratio = np.minimum(compute_ms, memory_ms) / larger
        return larger * (1.0 + ratio**p) ** (1.0 / p) + self._launch_ms
