"""Kernel timings measured on real GPUs, from NVIDIA's aiconfigurator-core (extra ``traces``).

A build-time tool: nothing that serves requests imports this module, and the library is imported only when
a source is made. What the library times on silicon and what it models itself is in docs/physics/packs.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from inferencegym.errors import TracePackError
from simulator.kernels.sums import ordered_sum
from simulator.packs.building.kernel_sources import (
    MAX_BATCHED_TOKENS,
    POOL_FRACTION,
    FloatArray,
    ForwardParts,
    ModelShape,
    SourceInfo,
    TierMemory,
)
from simulator.packs.building.roofline_kernels import GPUS, RooflineKernels
from simulator.packs.physics import GIB

__all__ = ["LIBRARY", "MeasuredKernels"]

_log = logging.getLogger(__name__)

LIBRARY = "aiconfigurator-core"

_TIER_MODES = (("bfloat16",), ("int8_wo", "fp8"), ("int4_wo", "nvfp4"))
"""Matrix kernels that may stand for each tier, best first: weight-only where it was measured (Ampere),
else the kernels of the same width that newer GPUs run."""

_TIER_NAMES = {"bfloat16": "FP16", "int8_wo": "INT8", "fp8": "FP8", "int4_wo": "INT4", "nvfp4": "NVFP4"}
"""What people call the kernels."""

_MEMORY_MODES = ("bfloat16", "int8_wo", "int4_wo")
"""Modes whose weight bytes stand for each tier when its kernels are estimated."""

_ONE_STEP = 1
"""Output length that puts a step at exactly the context asked for: the library times a step at input +
output // 2 tokens."""

_MORE_MEMORY = "Where the weights do not fit, take more GPUs (--tp) or give more memory (--memory-gib)."

_NOT_DENSE = ("mla_", "dsa_")
"""In the names of timing tables that no dense model uses: attention of DeepSeek's models."""

_MAX_SEQUENCES = 256
"""Batch cap given to the memory model; it does not change its answer between 1 and 512."""


class MeasuredKernels:
    """``KernelSource`` over the timing tables of aiconfigurator-core.

    A tier for which the library has no matrix kernels on this GPU and engine is estimated: the measured
    bfloat16 time, scaled by the ratio of the two tiers in the roofline model; ``info`` says so.

    Arguments:
        system: GPU name of the library (``a100_sxm``, ``h100_sxm``, …).
        model: Hugging Face id of a dense model that the library carries.
        backend: ``trtllm``, ``vllm`` or ``sglang``.
        backend_version: a version the library has timings of; None is its current one.
        memory_gib: memory given to the serving process on each GPU, GiB.
        gpus: tensor-parallel size; timings are of the whole group, memory of one of its GPUs.

    Raises ``TracePackError`` when the library is absent or does not support the combination.
    """

    def __init__(
        self,
        system: str,
        model: str,
        backend: str,
        backend_version: str | None,
        memory_gib: float,
        gpus: int = 1,
    ) -> None:
        self._sdk = _import_library()
        self._system, self._backend = system, backend
        self._memory_gib, self._gpus = memory_gib, gpus
        self._version = self._resolve_version(backend_version)
        self._shape = self._read_shape(model)
        self._engines: list[Any] = []
        self._modes: list[str | None] = []
        for modes in _TIER_MODES:
            mode, engine = self._compile_first(modes)
            self._modes.append(mode)
            self._engines.append(engine)
        if self._engines[0] is None:
            raise self._unsupported("it has no bfloat16 matrix timings")
        if self._decode_cell(self._engines[0], 1, 1, 1)[1] <= 0.0:
            raise self._unsupported(f"{model} has no attention over a KV cache that the library times apart")

    @property
    def info(self) -> SourceInfo:
        """Provenance of the numbers."""
        return SourceInfo(
            source="measured",
            gpu=self._system,
            model=self._shape.name,
            engine=self._backend,
            engine_version=self._version,
            library=LIBRARY,
            library_version=version(LIBRARY),
            tier_kernels=tuple(
                mode or f"{fallback} estimated from bfloat16"
                for mode, fallback in zip(self._modes, _MEMORY_MODES, strict=True)
            ),
            tier_names=tuple(
                _TIER_NAMES[mode] if mode else f"{_TIER_NAMES[fallback]} (estimated)"
                for mode, fallback in zip(self._modes, _MEMORY_MODES, strict=True)
            ),
            gpus=self._gpus,
        )

    @property
    def shape(self) -> ModelShape:
        """Dimensions of the model."""
        return self._shape

    def decode(
        self, tier: int, rows: FloatArray, sequences: FloatArray, context_tokens: FloatArray
    ) -> ForwardParts:
        """One decode forward; see ``KernelSource.decode``.

        Matrices, norms and head are timed at ``rows``, attention at ``sequences``: a verify step reads
        each sequence's cache once for all its rows.
        """
        if self._engines[tier] is None:
            base = self.decode(0, rows, sequences, context_tokens)
            model = self._roofline()
            ratio = (
                model.decode(tier, rows, sequences, context_tokens).layers_ms
                / model.decode(0, rows, sequences, context_tokens).layers_ms
            )
            return ForwardParts(base.layers_ms * ratio, base.attention_ms, base.head_ms)
        grids = np.broadcast_arrays(rows, sequences, context_tokens)
        cells = [
            self._decode_cell(self._engines[tier], int(r), int(n), int(c))
            for r, n, c in zip(*(grid.ravel() for grid in grids), strict=True)
        ]
        layers, attention, head = (
            np.asarray(part).reshape(grids[0].shape) for part in zip(*cells, strict=True)
        )
        return ForwardParts(layers, attention, head)

    def prefill_ms(self, tier: int, prompt_tokens: FloatArray) -> FloatArray:
        """Prefill of one prompt alone on the GPU."""
        if self._engines[tier] is None:
            model = self._roofline()
            ratio = model.prefill_ms(tier, prompt_tokens) / model.prefill_ms(0, prompt_tokens)
            return self.prefill_ms(0, prompt_tokens) * ratio
        predict: Callable[[int, int], float] = self._engines[tier].predict_prefill_latency
        return np.asarray([predict(1, int(tokens)) for tokens in prompt_tokens.ravel()]).reshape(
            prompt_tokens.shape
        )

    def memory(self, tier: int) -> TierMemory:
        """The library's memory model inside ``memory_gib``."""
        try:
            estimate: dict[str, Any] = self._sdk.estimate_kv_cache(
                self._shape.name,
                self._system,
                self._backend,
                self._version,
                max_num_tokens=MAX_BATCHED_TOKENS,
                max_batch_size=_MAX_SEQUENCES,
                memory_fraction_kind="of_free" if self._backend == "trtllm" else "of_total",
                memory_fraction_value=POOL_FRACTION,
                tp_size=self._gpus,
                gpu_memory_capacity_bytes_override=int(self._memory_gib * GIB),
                gemm_quant_mode=self._modes[tier] or _MEMORY_MODES[tier],
            )
        except Exception as error:
            raise self._unsupported(f"{self._memory_gib:g} GiB: {error}", _MORE_MEMORY) from error
        parts: dict[str, int] = estimate["memory_breakdown"]
        return TierMemory(
            weights_bytes=float(parts["weights_bytes"]),
            runtime_bytes=float(parts["runtime_overhead_bytes"] + parts["comm_overhead_bytes"]),
            activation_bytes=float(parts["activations_bytes"]),
            kv_bytes_per_token=int(estimate["kv_size_per_token_bytes"]),
            kv_pool_tokens=int(estimate["total_kv_size_tokens"]),
        )

    @staticmethod
    def _decode_cell(engine: Any, rows: int, sequences: int, context: int) -> tuple[float, float, float]:
        """Layers, attention and head of one forward, ms."""
        layers = head = 0.0
        for operation in engine.decode_step_per_op(rows, context, _ONE_STEP):
            name, latency_ms = str(operation[0]), float(operation[1])
            if "embedding" in name or "logits" in name:
                head += latency_ms
            elif not name.endswith("_attention"):
                layers += latency_ms
        attention = ordered_sum(
            float(operation[1])
            for operation in engine.decode_step_per_op(sequences, context, _ONE_STEP)
            if str(operation[0]).endswith("_attention")
        )
        return layers, attention, head

    def _resolve_version(self, requested: str | None) -> str:
        database = import_module("aiconfigurator_core.sdk.perf_database")
        try:
            return str(database.resolve_query_version(self._system, self._backend, requested or "current"))
        except Exception as error:
            raise self._unsupported(str(error)) from error

    def _read_shape(self, model: str) -> ModelShape:
        utils = import_module("aiconfigurator_core.sdk.utils")
        try:
            config: dict[str, Any] = utils.get_model_config_from_model_path(model)
        except Exception as error:
            raise self._unsupported(str(error)) from error
        if config["num_experts"]:
            raise self._unsupported(f"{model} is a mixture of experts; a pack needs a dense model")
        return ModelShape(
            name=model,
            layers=int(config["layers"]),
            hidden=int(config["hidden_size"]),
            intermediate=int(config["inter_size"]),
            heads=int(config["n"]),
            kv_heads=int(config["n_kv"]),
            head_dim=int(config["d"]),
            vocabulary=int(config["vocab"]),
        )

    def _compile_first(self, modes: tuple[str, ...]) -> tuple[str | None, Any]:
        """The first mode that has timings, and its engine; (None, None) when there is none."""
        for mode in modes:
            try:
                engine = self._sdk.EngineHandle.compile(
                    self._shape.name,
                    self._system,
                    self._backend,
                    backend_version=self._version,
                    gemm_quant_mode=mode,
                    tp_size=self._gpus,
                )
                engine.predict_decode_latency(1, MAX_BATCHED_TOKENS)
            except (RuntimeError, ValueError, LookupError, OSError):  # bases of the library's own errors
                _log.debug("no %s timings on %s/%s", mode, self._system, self._backend, exc_info=True)
                continue
            return mode, engine
        return None, None

    def _roofline(self) -> RooflineKernels:
        if self._system not in GPUS:
            raise self._unsupported(f"tiers without timings need its peaks, known: {', '.join(GPUS)}")
        return RooflineKernels(GPUS[self._system], self._shape, self._memory_gib)

    def _unsupported(
        self, reason: str, hint: str = "See its support matrix, or build with --source roofline."
    ) -> TracePackError:
        return TracePackError(
            f"{LIBRARY} cannot describe system {self._system!r} with backend {self._backend!r}: "
            f"{reason.rstrip('.')}.",
            hint,
        )


def _concerns_dense_models(record: logging.LogRecord) -> bool:
    """The library loads, and warns of, the tables of every kind of model."""
    return not any(name in record.getMessage() for name in _NOT_DENSE)


def _import_library() -> Any:
    logging.getLogger("aiconfigurator_core.sdk.perf_database").addFilter(_concerns_dense_models)
    try:
        return import_module("aiconfigurator_core.sdk")
    except ImportError as error:
        raise TracePackError(
            f"the measured source needs {LIBRARY}, which is not installed.",
            "Install the extra: pip install 'inferencegym[traces]'; or build with --source roofline.",
        ) from error
