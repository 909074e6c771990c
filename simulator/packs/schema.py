"""What a trace pack is: its axes, its columns and its metadata.

A trace pack is one Parquet file that holds a full grid over five knobs, and everything about its origin
in the file's key-value metadata. Builder, simulator, comparison and tests take every name from here.

Contract of the value columns (``out`` = reference output length, ``E(g)`` = reference tokens per verify
step, both in the metadata):

- ``tpot_ms``: decode time per output token with exactly ``batch_size`` sequences resident at a context of
  prompt + out/2 tokens; prefill is not in it; independent of ``kv_budget``. ``step_ms = tpot_ms * E(g)``.
- ``ttft_p50_ms`` / ``ttft_p99_ms``: prefill of one prompt + 0.50 / 0.99 of a step, because an arrival
  falls uniformly into the iteration in flight; no queue. ``prefill_ms = ttft_p50_ms - 0.5 * step_ms``.
- ``tps``: sustained output tokens/s of one engine that prefills and decodes on the same GPU, its batch
  cap being ``batch_size`` and its KV pool ``kv_budget`` of the deployable one; 0 where memory runs out.
- ``gpu_mem_gb``: GiB reserved. May exceed ``memory_limit_gb``: that row is out of memory.
- ``cost_per_1k``: US cents per 1,000 tokens processed (prompt + output) at ``tps``, capped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from inferencegym.errors import TracePackError
from simulator.packs.physics import acceptance_rate, tokens_per_verify_step

__all__ = [
    "AXES",
    "BATCH_SIZES",
    "GRID_SHAPE",
    "KV_BUDGETS",
    "METADATA_KEY",
    "PROMPT_BUCKETS",
    "PROMPT_LENGTHS_TOKENS",
    "QUANT_TIERS",
    "SPEC_LENGTHS",
    "TIER_NAMES",
    "VALUE_COLUMNS",
    "PackMetadata",
]

BATCH_SIZES = (1, 4, 8, 16, 32, 64, 128, 256, 512)
KV_BUDGETS = (0.1, 0.25, 0.5, 0.75, 1.0)
SPEC_LENGTHS = (0, 1, 2, 4, 8)
QUANT_TIERS = (0, 1, 2)
PROMPT_BUCKETS = (0, 1, 2, 3, 4, 5, 6, 7)

PROMPT_LENGTHS_TOKENS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Prompt length that each bucket of the ``prompt_len_bucket`` axis stands for."""

TIER_NAMES = ("FP16", "INT8", "INT4")
"""Weight-only quantisation tiers in the order of ``QUANT_TIERS``."""

AXES: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("batch_size", BATCH_SIZES),
    ("kv_budget", KV_BUDGETS),
    ("spec_length", SPEC_LENGTHS),
    ("quant_tier", QUANT_TIERS),
    ("prompt_len_bucket", PROMPT_BUCKETS),
)
"""Axis columns and their values; rows follow the C order of these axes (``batch_size`` outermost)."""

GRID_SHAPE = tuple(len(values) for _, values in AXES)

VALUE_COLUMNS = ("ttft_p50_ms", "ttft_p99_ms", "tpot_ms", "tps", "gpu_mem_gb", "cost_per_1k")

METADATA_KEY = b"inferencegym"
"""Parquet key-value entry that holds every field of ``PackMetadata`` as one JSON object."""

_SCHEMA_VERSION = 1

_PLAIN_KEYS = (
    "gpu",
    "model",
    "engine",
    "engine_version",
    "library",
    "library_version",
    "build_date",
    "source",
    "reference_output_tokens",
    "reference_acceptance_rate",
)
"""Fields that are repeated as plain strings, for people who open the file with a generic viewer."""


class _HasMetadata(Protocol):
    """The one thing needed of a ``pyarrow.Schema``; keeps pyarrow out of this module."""

    @property
    def metadata(self) -> Mapping[bytes, bytes] | None: ...


@dataclass(frozen=True, slots=True)
class PackMetadata:
    """Origin and constants of a trace pack. Tuples are indexed by quantisation tier.

    Attributes ending in ``_gb`` are GiB; ``_gb_per_s`` are 10**9 bytes a second, as links are quoted.
    """

    gpu: str
    model: str
    engine: str
    engine_version: str
    library: str
    library_version: str
    build_date: str
    """ISO date (YYYY-MM-DD)."""
    source: str
    """``measured`` (kernel timings of real GPUs) or ``roofline`` (first principles)."""
    reference_output_tokens: int
    reference_acceptance_rate: float
    tier_names: tuple[str, ...]
    tier_kernels: tuple[str, ...]
    """Matrix kernels that each tier was timed with (``bfloat16``, ``int8_wo``, …) and, where the library
    has no timing, how they were estimated."""
    weights_bytes: tuple[float, ...]
    kv_pool_tokens: tuple[int, ...]
    """Tokens of the whole deployable KV pool (``kv_budget`` = 1)."""
    kv_bytes_per_token: int
    runtime_bytes: float
    activation_bytes: float
    cuda_graph_bytes: float
    sampler_bytes_per_row: float
    memory_limit_gb: float
    cents_per_gpu_hour: float
    cost_cap_cents_per_1k: float
    kv_link_gb_per_s: float
    weight_load_gb_per_s: float
    prefill_chunk_tokens: int
    gpus_per_engine: int = 1
    """Tensor-parallel size. Timings are of the whole group, memory and KV bytes of one of its GPUs."""
    schema_version: int = _SCHEMA_VERSION

    @property
    def cents_per_engine_hour(self) -> float:
        """Price of all GPUs of one engine."""
        return self.cents_per_gpu_hour * self.gpus_per_engine

    @property
    def fixed_bytes(self) -> float:
        """Runtime + activations + CUDA graphs, the ``fixed_bytes`` of ``physics.memory_gb``."""
        return self.runtime_bytes + self.activation_bytes + self.cuda_graph_bytes

    def reference_tokens_per_step(self) -> npt.NDArray[np.float64]:
        """Expected tokens per verify step at reference acceptance, shape ``(len(SPEC_LENGTHS),)``.

        Bucket 0 for every prompt length, so that the value depends on ``spec_length`` alone and a reader
        can undo it exactly.
        """
        gamma = np.asarray(SPEC_LENGTHS, dtype=np.float64)
        bucket = np.zeros_like(gamma)
        return tokens_per_verify_step(acceptance_rate(self.reference_acceptance_rate, bucket, gamma), gamma)

    def to_parquet(self) -> dict[bytes, bytes]:
        """Key-value entries for a Parquet schema: the JSON object and the plain strings."""
        values: dict[str, Any] = asdict(self)
        entries = {METADATA_KEY: json.dumps(values, sort_keys=True).encode()}
        entries.update({key.encode(): str(values[key]).encode() for key in _PLAIN_KEYS})
        return entries

    @classmethod
    def from_parquet_schema(cls, schema: _HasMetadata) -> PackMetadata:
        """Read the metadata of a ``pyarrow.Schema``.

        Raises ``TracePackError`` when the entry is missing, not JSON, or lacks or mistypes a field.
        """
        raw = (schema.metadata or {}).get(METADATA_KEY)
        if raw is None:
            raise TracePackError(
                f"the file has no {METADATA_KEY.decode()!r} metadata entry.",
                "Build a pack with python -m simulator.packs.building.build_traces.",
            )
        try:
            values: Any = json.loads(raw)
        except ValueError as error:
            raise TracePackError(f"the {METADATA_KEY.decode()!r} metadata is not JSON: {error}.") from None
        if not isinstance(values, dict):
            raise TracePackError(f"the {METADATA_KEY.decode()!r} metadata is not a JSON object.")
        return cls._from_values(cast("dict[str, Any]", values))

    @classmethod
    def _from_values(cls, values: dict[str, Any]) -> PackMetadata:
        values = {"gpus_per_engine": 1, **values}  # packs written before it existed
        version = values.get("schema_version")
        if version != _SCHEMA_VERSION:
            raise TracePackError(
                f"schema_version: {version!r} is not readable; allowed: {_SCHEMA_VERSION}.",
                "Rebuild the pack with this version of the builder.",
            )
        return cls(**{field.name: _parse(field.name, str(field.type), values) for field in fields(cls)})


_PARSERS: dict[str, tuple[type, type | tuple[type, ...]]] = {
    # annotation of the field -> (constructor, JSON types accepted)
    "str": (str, str),
    "int": (int, int),
    "float": (float, (int, float)),
}


def _parse(name: str, annotation: str, values: dict[str, Any]) -> Any:
    """One field of the metadata, converted to its declared type."""
    if name not in values:
        raise TracePackError(f"the pack metadata lacks the field {name!r}.")
    value = values[name]
    if not annotation.startswith("tuple"):
        return _parse_scalar(name, annotation, value)
    if not isinstance(value, list) or len(cast("list[Any]", value)) != len(QUANT_TIERS):
        raise TracePackError(f"{name}: {value!r} is not allowed; allowed: a list of {len(QUANT_TIERS)}.")
    element = annotation.removeprefix("tuple[").split(",")[0]
    return tuple(_parse_scalar(name, element, item) for item in cast("list[Any]", value))


def _parse_scalar(name: str, annotation: str, value: Any) -> Any:
    construct, accepted = _PARSERS[annotation]
    if isinstance(value, bool) or not isinstance(value, accepted):
        raise TracePackError(f"{name}: {value!r} is not allowed; allowed: {annotation}.")
    return construct(value)
