"""A picture of a trace pack: throughput against latency, and where the quantisation tiers cross."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from inferencegym.errors import TracePackError
from simulator.packs.io import TracePack
from simulator.packs.schema import BATCH_SIZES, PROMPT_LENGTHS_TOKENS

__all__ = ["write_plot"]

_PROMPT_TOKENS = 256
_COLORS = ("C0", "C1", "C2")


def write_plot(pack: TracePack, path: Path) -> None:
    """Write a PNG.

    Raises:
        TracePackError: matplotlib is not installed, or the file cannot be written.
    """
    try:
        figure_class = import_module("matplotlib.figure").Figure
    except ImportError:
        raise TracePackError(
            "A plot needs matplotlib, which is not installed.",
            "Install the extra: pip install 'inferencegym[demo]'.",
        ) from None
    metadata = pack.metadata
    figure: Any = figure_class(figsize=(11, 4.6), dpi=110, layout="constrained")
    gpus = "" if metadata.gpus_per_engine == 1 else f"{metadata.gpus_per_engine} x "
    figure.suptitle(
        f"{metadata.model.rpartition('/')[2]} on {gpus}{metadata.gpu}, {metadata.engine} "
        f"{metadata.engine_version} ({metadata.source}); prompts of {_PROMPT_TOKENS} tokens"
    )
    frontier, crossing = figure.subplots(1, 2)
    _draw_frontier(frontier, pack)
    _draw_crossing(crossing, pack)
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise TracePackError(f"{path} cannot be written: {error.strerror}.") from None


def _draw_frontier(axes: Any, pack: TracePack) -> None:
    bucket = PROMPT_LENGTHS_TOKENS.index(_PROMPT_TOKENS)
    for tier, name in enumerate(pack.metadata.tier_names):
        tpot = pack.columns["tpot_ms"][:, -1, 0, tier, bucket]
        tps = pack.columns["tps"][:, -1, 0, tier, bucket]
        fits = tps > 0.0
        axes.plot(1000.0 / tpot[fits], tps[fits], "o-", color=_COLORS[tier], label=name)
        for batch, x, y in zip(BATCH_SIZES, 1000.0 / tpot, tps, strict=True):
            if tier == 0 and y > 0.0:
                axes.annotate(str(batch), (x, y), textcoords="offset points", xytext=(5, 4), fontsize=8)
    axes.set(xlabel="decode speed of one sequence (tokens/s)", ylabel="throughput of the engine (tokens/s)")
    axes.set_title("Frontier; numbers are batch sizes", fontsize=10)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()


def _draw_crossing(axes: Any, pack: TracePack) -> None:
    bucket = PROMPT_LENGTHS_TOKENS.index(_PROMPT_TOKENS)
    base = pack.step_ms[:, 0, 0, bucket]
    for tier, name in enumerate(pack.metadata.tier_names):
        axes.plot(BATCH_SIZES, base / pack.step_ms[:, 0, tier, bucket], "o-", color=_COLORS[tier], label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(BATCH_SIZES, [str(batch) for batch in BATCH_SIZES])
    axes.set(xlabel="sequences in the batch", ylabel="speed of a decode step, first tier = 1")
    axes.set_title("Where the tiers cross", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend()
