"""Whether a trace pack can be true: what must hold on every GPU, and what is unusual."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simulator.packs.io import TracePack
from simulator.packs.schema import BATCH_SIZES, PROMPT_LENGTHS_TOKENS, TIER_NAMES

__all__ = ["faults", "findings"]

Grid = npt.NDArray[np.float64]

_NOISE, _BELIEVABLE = 0.02, 0.5
"""A step may be faster at a larger batch, where another kernel takes over: worth a note from the first share,
beyond belief from the second. The same for prefills and prompt lengths."""

_FASTEST_STEP_MS, _SLOWEST_STEP_MS = 0.05, 60_000.0


def faults(pack: TracePack) -> list[str]:
    """What no GPU does, a sentence each; empty for a sound pack. (Reading a pack checks its schema.)"""
    found: list[str] = []
    columns, metadata = pack.columns, pack.metadata
    for name in ("tpot_ms", "ttft_p50_ms", "ttft_p99_ms", "gpu_mem_gb", "cost_per_1k"):
        low = float(columns[name].min())
        if low <= 0.0:
            found.append(f"{name}: {low:.4g} in some row; it must be above 0")
    if columns["tps"].min() < 0.0:
        found.append(f"tps: {columns['tps'].min():.4g} in some row; it must not be negative")
    if (columns["ttft_p99_ms"] < columns["ttft_p50_ms"]).any():
        found.append("ttft_p99_ms is below ttft_p50_ms in some row")
    if pack.prefill_ms.min() <= 0.0:
        found.append("ttft_p50_ms leaves no time for a prefill: it must exceed half a step")
    if not _FASTEST_STEP_MS <= pack.step_ms.min() <= pack.step_ms.max() <= _SLOWEST_STEP_MS:
        found.append(f"steps of {pack.step_ms.min():.4g} to {pack.step_ms.max():.4g} ms are not believable")
    found += _drops(pack, _BELIEVABLE)
    over = columns["gpu_mem_gb"] > metadata.memory_limit_gb
    if over.all():
        found.append(f"no setting fits {metadata.memory_limit_gb:g} GiB")
    if (columns["tps"][over] > 0.0).any():
        found.append("tps is above 0 in a row that is out of memory")
    return found


def findings(pack: TracePack) -> list[str]:
    """What a user of the pack should know, a sentence each."""
    metadata = pack.metadata
    notes = [
        f"tier {slot} is {name}, timed as {kernels}"
        for slot, name, kernels in zip(TIER_NAMES, metadata.tier_names, metadata.tier_kernels, strict=True)
        if name != slot
    ]
    if metadata.source != "measured":
        notes.append(f"the timings are {metadata.source}, not measured")
    notes += _drops(pack, _NOISE)
    share = float((pack.columns["gpu_mem_gb"] > metadata.memory_limit_gb).mean())
    notes.append(f"{share:.1%} of the settings do not fit {metadata.memory_limit_gb:g} GiB")
    return notes


def _drops(pack: TracePack, above: float) -> list[str]:
    """Where more work takes less time, by more than a share."""
    steps = _falling("step", pack.step_ms, 0, BATCH_SIZES, "batch size", above)
    return steps + _falling("prefill", pack.prefill_ms, 1, PROMPT_LENGTHS_TOKENS, "prompt length", above)


def _falling(what: str, grid: Grid, axis: int, nodes: tuple[int, ...], name: str, above: float) -> list[str]:
    """Where a time falls most along an axis, if by more than ``above``."""
    before = np.take(grid, range(len(nodes) - 1), axis=axis)
    after = np.take(grid, range(1, len(nodes)), axis=axis)
    drop = 1.0 - after / before
    if drop.max() <= above:
        return []
    at = int(np.unravel_index(int(drop.argmax()), drop.shape)[axis])
    return [f"a {what} takes {drop.max():.0%} less time at {name} {nodes[at + 1]} than at {nodes[at]}"]
