"""Formulas of LLM serving, written once: the trace builder, the simulators and the tests call these.

All functions are pure and accept floats or broadcastable NumPy arrays. Units are in the names:
``_ms`` milliseconds, ``_bytes`` bytes, ``_gb`` GiB (2**30 bytes, as CUDA and nvidia-smi count).
"""

from __future__ import annotations

from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

__all__ = [
    "COMPLEXITY_PENALTY_PER_BUCKET",
    "GIB",
    "PROMPT_BUCKET_EDGES",
    "acceptance_rate",
    "cost_cents_per_1k",
    "memory_gb",
    "prefill_stall_ms",
    "prompt_bucket",
    "sequences_that_fit",
    "tokens_per_verify_step",
    "verify_rows",
]

Num = TypeVar("Num", float, npt.NDArray[np.float64])

GIB = float(2**30)
"""Bytes in one GiB, the memory unit of every ``_gb`` value."""

PROMPT_BUCKET_EDGES = (64, 128, 256, 512, 1024, 2048, 4096)
"""Edges (tokens) of the eight prompt-length buckets: bucket = digitize(length, edges)."""

COMPLEXITY_PENALTY_PER_BUCKET = 0.03
"""Relative loss of draft acceptance per prompt-length bucket (0 to 0.21).

A modelling choice, not a measurement: long-context prompts (documents, code) are harder to draft for
than chat turns; published acceptance falls by some 10-25 % from chat to summarisation sets."""

_DRAFT_LENGTH_DECAY = 0.15
"""Fall of mean acceptance with draft length: 1 / (1 + 0.15 * gamma). Later draft tokens are guessed
from guessed context."""


def prompt_bucket(prompt_tokens: float) -> int:
    """Bucket 0-7 of a prompt length (``numpy.digitize`` on ``PROMPT_BUCKET_EDGES``)."""
    bucket = 0
    for edge in PROMPT_BUCKET_EDGES:
        if prompt_tokens >= edge:
            bucket += 1
    return bucket


def acceptance_rate(base_rate: float, bucket: Num, spec_length: Num) -> Num:
    """Probability that one draft token is accepted, in [0, 1).

    ``base_rate * (1 - penalty(bucket)) / (1 + 0.15 * spec_length)``; the value is meaningful only for
    ``spec_length > 0``.
    """
    penalty = COMPLEXITY_PENALTY_PER_BUCKET * bucket
    return base_rate * (1.0 - penalty) / (1.0 + _DRAFT_LENGTH_DECAY * spec_length)


def tokens_per_verify_step(acceptance: Num, spec_length: Num) -> Num:
    """Expected tokens a sequence gains per verify step: ``(1 - a**(g+1)) / (1 - a)``.

    Source: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding" (2023), eq. 1.
    Equals 1 when ``spec_length`` is 0. ``acceptance`` must be below 1.
    """
    return cast("Num", (1.0 - acceptance ** (spec_length + 1)) / (1.0 - acceptance))


def verify_rows(sequences: Num, spec_length: Num) -> Num:
    """Token rows of one verify forward: each sequence brings its last token and its drafts."""
    return sequences * (spec_length + 1)


def memory_gb(
    weights_bytes: Num,
    fixed_bytes: float,
    sampler_bytes_per_row: float,
    batch_size: Num,
    spec_length: Num,
    kv_allocated_bytes: Num,
) -> Num:
    """GPU memory a configuration reserves, GiB.

    ``fixed_bytes`` is runtime + prefill activations + CUDA graphs. The sampler's vocabulary-wide
    workspace is sized for the batch cap (engines reserve it when they start), one row a token that a
    verify step can emit. The KV pool is reserved up front, whatever is in it.
    """
    rows = verify_rows(batch_size, spec_length)
    return (weights_bytes + fixed_bytes + sampler_bytes_per_row * rows + kv_allocated_bytes) / GIB


def sequences_that_fit(pool_tokens: Num, prompt_tokens: Num, output_tokens: Num) -> Num:
    """Sequences a KV pool holds in steady state: each keeps its prompt and, on average, half its output."""
    return pool_tokens / (prompt_tokens + 0.5 * output_tokens)


def prefill_stall_ms(running: Num, prefill_ms: Num, output_tokens: Num) -> Num:
    """Time per output token that colocated prefills steal from decode, in steady state.

    ``running * prefill / output``: while one sequence decodes its output, ``running`` others are
    prefilled. With prefill on its own GPU it is zero.
    """
    return running * prefill_ms / output_tokens


def cost_cents_per_1k(
    cents_per_gpu_hour: float, gpus: Num, processed_tokens_per_s: Num, cap_cents: float
) -> Num:
    """US cents per 1,000 tokens processed (prompt + output), at most ``cap_cents``.

    The cap stands for "nothing was served": a finite number instead of a division by zero.
    """
    cents_per_s = cents_per_gpu_hour / 3600.0 * gpus
    floor_tokens = cents_per_s * 1000.0 / cap_cents
    if isinstance(processed_tokens_per_s, float) and isinstance(floor_tokens, float):
        return min(cents_per_s * 1000.0 / max(processed_tokens_per_s, floor_tokens), cap_cents)
    cost = cents_per_s * 1000.0 / np.maximum(processed_tokens_per_s, floor_tokens)
    return np.minimum(cost, cap_cents)  # the two divisions can round to just above the cap
