"""The value columns of a trace pack, computed from a source of kernel timings.

Grids keep the order of the axes in ``pack_schema`` (batch, kv_budget, spec_length, quant_tier, prompt);
axes on which a quantity does not depend have length 1 until the very end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.packs.building.kernel_sources import FloatArray, KernelSource, TierMemory
from simulator.packs.io import TracePack
from simulator.packs.physics import (
    GIB,
    cost_cents_per_1k,
    memory_gb,
    prefill_stall_ms,
    sequences_that_fit,
    verify_rows,
)
from simulator.packs.schema import (
    BATCH_SIZES,
    GRID_SHAPE,
    KV_BUDGETS,
    PROMPT_LENGTHS_TOKENS,
    QUANT_TIERS,
    SPEC_LENGTHS,
    PackMetadata,
)

__all__ = ["PackSettings", "build_pack"]

_SAMPLER_BUFFERS = 9
"""Vocabulary-wide float32 buffers a row of the batch needs while it is sampled: logits, penalised logits,
scaled logits, sorted logits, int64 sort indices (two), softmax, cumulated softmax, final probabilities."""

_FLOAT32_BYTES = 4


@dataclass(frozen=True, slots=True)
class PackSettings:
    """What a pack is built with besides the kernels. Defaults describe the pack in this directory."""

    build_date: str
    memory_limit_gb: float = 40.0
    """Memory given to the serving process, GiB: an A100-40GB."""
    reference_output_tokens: int = 256
    reference_acceptance_rate: float = 0.80
    """Base draft acceptance of the easiest task; the simulator rescales to its own."""
    cents_per_gpu_hour: float = 293.0
    """NVIDIA A100-40GB on Google Cloud, on demand in us-central1, list price 2.93 USD per GPU-hour."""
    cost_cap_cents_per_1k: float = 0.15
    """A finite cost where nothing, or almost nothing, is served: thirty times the reward's cost scale."""
    cuda_graph_bytes: float = 1.0 * GIB
    """Captured decode graphs. vLLM announces at start-up that they take 1 to 3 GiB more per GPU; the lower
    end, since one model of 8 B parameters captures few distinct batch sizes."""
    kv_link_gb_per_s: float = 25.0
    """KV transfer between a prefill and a decode GPU: one 200 Gb/s InfiniBand HDR port per GPU, as in a
    DGX A100; aiconfigurator-core's a100_sxm lists the same figure between nodes."""
    weight_load_gb_per_s: float = 25.0
    """Host to GPU over PCIe 4.0 x16 in practice; 31.5 GB/s is the wire rate."""
    prefill_chunk_tokens: int = 2048
    """Tokens of one chunk when a long prefill is interleaved with decoding (vLLM's usual default)."""


def build_pack(source: KernelSource, settings: PackSettings) -> TracePack:
    """Compute all value columns and the metadata. Deterministic."""
    metadata = _metadata(source, settings)
    expected_tokens = metadata.reference_tokens_per_step().reshape(1, 1, -1, 1, 1)
    step_ms = _step_ms(source, settings)
    prefill_ms = _prefill_ms(source)
    tpot_ms = step_ms / expected_tokens
    reserved_gb = _reserved_gb(metadata)
    tps = _sustained_tps(tpot_ms, prefill_ms, metadata)
    tps = np.where(reserved_gb > metadata.memory_limit_gb, 0.0, tps)
    columns = {
        "ttft_p50_ms": prefill_ms + 0.50 * step_ms,
        "ttft_p99_ms": prefill_ms + 0.99 * step_ms,
        "tpot_ms": tpot_ms,
        "tps": tps,
        "gpu_mem_gb": reserved_gb,
        "cost_per_1k": _cost(tps, metadata),
    }
    return TracePack({name: _on_grid(values) for name, values in columns.items()}, metadata)


def _step_ms(source: KernelSource, settings: PackSettings) -> FloatArray:
    """One verify step: the target's forward over drafts and last tokens, and the drafting before it.

    The drafter is an EAGLE-style head: per draft token one decoder layer like the target's, and the
    vocabulary projection. Its own weights (about 0.5 GB) are not in the memory column.
    """
    batch, gamma = _axis(BATCH_SIZES, 0), _axis(SPEC_LENGTHS, 2)
    context = _prompts() + settings.reference_output_tokens / 2
    tiers: list[FloatArray] = []
    for tier in QUANT_TIERS:
        verify = source.decode(tier, verify_rows(batch, gamma), batch, context)
        plain = source.decode(tier, batch, batch, context)
        draft_ms = (plain.layers_ms + plain.attention_ms) / source.shape.layers + plain.head_ms
        tiers.append(verify.total_ms + gamma * draft_ms)
    return np.concatenate(tiers, axis=3)


def _prefill_ms(source: KernelSource) -> FloatArray:
    return np.concatenate([source.prefill_ms(tier, _prompts()) for tier in QUANT_TIERS], axis=3)


def _sustained_tps(tpot_ms: FloatArray, prefill_ms: FloatArray, metadata: PackMetadata) -> FloatArray:
    """Output tokens/s with the batch that both the cap and the KV pool allow, prefills interleaved."""
    output = np.asarray(float(metadata.reference_output_tokens))
    pool = _axis(metadata.kv_pool_tokens, 3) * _axis(KV_BUDGETS, 1)
    running = np.minimum(_axis(BATCH_SIZES, 0), sequences_that_fit(pool, _prompts(), output))
    per_token_ms = _tpot_at(tpot_ms, running) + prefill_stall_ms(running, prefill_ms, output)
    return 1000.0 * running / per_token_ms


def _tpot_at(tpot_ms: FloatArray, running: FloatArray) -> FloatArray:
    """``tpot_ms`` at a batch between the grid's, linear in log2(batch); ends are held."""
    grid = np.broadcast_to(tpot_ms, GRID_SHAPE)
    wanted = np.log2(np.maximum(np.broadcast_to(running, GRID_SHAPE), 1.0))
    known = np.log2(_axis(BATCH_SIZES, 0).ravel())
    result = np.empty(GRID_SHAPE)
    for cell in np.ndindex(GRID_SHAPE[1:]):
        column = (slice(None), *cell)
        result[column] = np.interp(wanted[column], known, grid[column])
    return result


def _reserved_gb(metadata: PackMetadata) -> FloatArray:
    pool_bytes = _axis(metadata.kv_pool_tokens, 3) * metadata.kv_bytes_per_token
    return memory_gb(
        _axis(metadata.weights_bytes, 3),
        metadata.fixed_bytes,
        metadata.sampler_bytes_per_row,
        _axis(BATCH_SIZES, 0),
        _axis(SPEC_LENGTHS, 2),
        _axis(KV_BUDGETS, 1) * pool_bytes,
    )


def _cost(tps: FloatArray, metadata: PackMetadata) -> FloatArray:
    """Cents per 1,000 tokens processed: every output token brings its share of the prompt."""
    output = metadata.reference_output_tokens
    processed = tps * (_prompts() + output) / output
    return cost_cents_per_1k(
        metadata.cents_per_engine_hour, np.ones_like(processed), processed, metadata.cost_cap_cents_per_1k
    )


def _metadata(source: KernelSource, settings: PackSettings) -> PackMetadata:
    memories = [source.memory(tier) for tier in QUANT_TIERS]
    info = source.info
    return PackMetadata(
        gpu=info.gpu,
        model=info.model,
        engine=info.engine,
        engine_version=info.engine_version,
        library=info.library,
        library_version=info.library_version,
        build_date=settings.build_date,
        source=info.source,
        reference_output_tokens=settings.reference_output_tokens,
        reference_acceptance_rate=settings.reference_acceptance_rate,
        tier_names=info.tier_names,
        tier_kernels=info.tier_kernels,
        weights_bytes=tuple(memory.weights_bytes for memory in memories),
        kv_pool_tokens=tuple(memory.kv_pool_tokens for memory in memories),
        kv_bytes_per_token=memories[0].kv_bytes_per_token,
        runtime_bytes=memories[0].runtime_bytes,
        activation_bytes=_largest_activation(memories),
        cuda_graph_bytes=settings.cuda_graph_bytes,
        sampler_bytes_per_row=float(_SAMPLER_BUFFERS * source.shape.vocabulary * _FLOAT32_BYTES),
        memory_limit_gb=settings.memory_limit_gb,
        cents_per_gpu_hour=settings.cents_per_gpu_hour,
        cost_cap_cents_per_1k=settings.cost_cap_cents_per_1k,
        kv_link_gb_per_s=settings.kv_link_gb_per_s,
        weight_load_gb_per_s=settings.weight_load_gb_per_s,
        prefill_chunk_tokens=settings.prefill_chunk_tokens,
        gpus_per_engine=info.gpus,
    )


def _largest_activation(memories: list[TierMemory]) -> float:
    return max(memory.activation_bytes for memory in memories)


def _axis(values: tuple[float, ...], position: int) -> FloatArray:
    """Axis values shaped to broadcast along one of the five grid axes."""
    shape = [1] * len(GRID_SHAPE)
    shape[position] = len(values)
    return np.asarray(values, dtype=np.float64).reshape(shape)


def _prompts() -> FloatArray:
    return _axis(PROMPT_LENGTHS_TOKENS, 4)


def _on_grid(values: FloatArray) -> FloatArray:
    return np.ascontiguousarray(np.broadcast_to(values, GRID_SHAPE))
