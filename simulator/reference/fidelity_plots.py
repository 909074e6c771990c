"""Pictures of the fidelity report (matplotlib, extra ``demo``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from inferencegym.models.serving import EngineTiming
from simulator.packs.building.compare_measured import Comparison
from simulator.reference.fidelity import NEAR_SATURATION, Point

__all__ = ["plot_loads", "plot_measured"]

_REFERENCE = "#23395b"
_FAST: dict[EngineTiming, str] = {"additive": "#e0a458", "mixed_batch": "#c8553d"}


def plot_loads(path: Path, settings: Sequence[Mapping[EngineTiming, Sequence[Point]]]) -> None:
    """TPOT and TTFT of the fast simulator under each timing and of the reference over load: two panels a
    setting."""
    columns = 4
    rows = -(-len(settings) // columns) * 2
    figure = _figure(13.0, 1.9 * rows)
    for index, results in enumerate(settings):
        top = index // columns * 2
        tpot = figure.add_subplot(rows, columns, top * columns + index % columns + 1)
        ttft = figure.add_subplot(rows, columns, (top + 1) * columns + index % columns + 1)
        tpot.set_title(next(iter(results.values()))[0].setting, fontsize=9)
        _panel(tpot, results, "tpot_ms", "TPOT, ms")
        tpot.set_ylim(bottom=0.0)
        ttft.set_yscale("log")
        _panel(ttft, results, "ttft_p50_ms", "TTFT, ms")
        _panel(ttft, results, "ttft_p99_ms", "TTFT, ms", style=":")
        ttft.set_xlabel("share of capacity", fontsize=8)
        if index == 0:
            tpot.legend(fontsize=7, frameon=False)
            ttft.text(0.03, 0.93, "p50 solid, p99 dotted", transform=ttft.transAxes, fontsize=7, va="top")
    figure.tight_layout()
    figure.savefig(path, dpi=75)


def _panel(
    axes: Any, results: Mapping[EngineTiming, Sequence[Point]], name: str, label: str, style: str = "-"
) -> None:
    points = next(iter(results.values()))
    loads = [point.load for point in points]
    axes.plot(loads, [getattr(p.reference, name) for p in points], style, color=_REFERENCE, label="reference")
    for timing, found in results.items():
        values = [getattr(point.fast, name) for point in found]
        axes.plot(loads, values, style, color=_FAST[timing], label=timing, marker=".", markersize=3, lw=1)
    axes.axvspan(NEAR_SATURATION, max(loads), color="0.93", lw=0, zorder=0)
    axes.set_ylabel(label, fontsize=8)
    axes.tick_params(labelsize=7)


def plot_measured(path: Path, runs: Sequence[Comparison]) -> None:
    """Predicted against measured latency of the published runs."""
    figure = _figure(5.2, 4.4)
    axes = figure.add_subplot(1, 1, 1)
    for framework, marker in (("TensorRT-LLM", "o"), ("vLLM", "s")):
        chosen = [run for run in runs if run.measured.framework == framework]
        axes.scatter(
            [run.measured.latency_s for run in chosen],
            [run.predicted_s for run in chosen],
            marker=marker,
            s=26,
            alpha=0.8,
            zorder=3,
            color=_FAST["mixed_batch"] if marker == "o" else _REFERENCE,
            label=framework,
        )
    ends = [1.5, 200.0]
    axes.plot(ends, ends, color="0.4", lw=1)
    axes.fill_between(
        ends, [0.85 * end for end in ends], [1.15 * end for end in ends], color="0.92", label="±15 %"
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("measured latency of the batch, s")
    axes.set_ylabel("predicted, s")
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=90)


def _figure(width: float, height: float) -> Any:
    return import_module("matplotlib.figure").Figure(figsize=(width, height))
