"""How well an import predicts what it has not seen: ``python -m simulator.data.check_import``.

The published offline batches of ``measured_a100_40gb_llama3_8b.csv`` are split in two, every second run in
each half. Each half is imported as measurements of an A100 with 40 GB, and predicts the runs of the other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from simulator.data.calibrated_kernels import CalibratedKernels
from simulator.data.compare_measured import error_summary, load_measured
from simulator.data.import_measurements import calibrate
from simulator.data.measured_figures import Figure, PackPredictor, figures_of
from simulator.data.measurements import Measurement
from simulator.data.pack_columns import PackSettings, build_pack
from simulator.data.roofline_kernels import RooflineKernels

__all__ = ["CrossPrediction", "cross_predict", "main"]

_SETTINGS = PackSettings(build_date="2026-01-01")


@dataclass(frozen=True, slots=True)
class CrossPrediction:
    """A published run beside two predictions of it, seconds."""

    figure: Figure
    roofline_s: float
    imported_s: float
    """By the import of the half that the run is not in."""

    @property
    def roofline_error(self) -> float:
        """Relative error before the import."""
        return self.roofline_s / self.figure.measured - 1.0

    @property
    def imported_error(self) -> float:
        """Relative error after it."""
        return self.imported_s / self.figure.measured - 1.0


def cross_predict(framework: str) -> list[CrossPrediction]:
    """Predict every published run of a framework from every second other one."""
    base = RooflineKernels.named("a100_sxm_40gb", "meta-llama/Meta-Llama-3-8B", _SETTINGS.memory_limit_gb)
    roofline = PackPredictor(build_pack(base, _SETTINGS))
    figures = figures_of(
        Measurement(
            where=f"{run.framework} {run.batch_size} x {run.io_tokens}",
            tier=0,
            batch=float(run.batch_size),
            prompt_tokens=float(run.io_tokens),
            output_tokens=float(run.io_tokens),
            colocated=False,
            latency_s=run.latency_s,
        )
        for run in load_measured()
        if run.framework == framework
    )
    imports = [
        PackPredictor(
            build_pack(
                CalibratedKernels(base, calibrate(base, _SETTINGS, figures[half::2]).correction), _SETTINGS
            )
        )
        for half in (0, 1)
    ]
    return [
        CrossPrediction(figure, roofline.predict(figure), imports[1 - index % 2].predict(figure))
        for index, figure in enumerate(figures)
    ]


def main() -> int:
    """Command line: prints both halves' predictions as Markdown; returns 0."""
    frameworks = list(dict.fromkeys(run.framework for run in load_measured()))
    predictions = {framework: cross_predict(framework) for framework in frameworks}
    lines = [
        "| framework | in = out tokens | batch | measured s | roofline alone | after the import |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for framework, rows in predictions.items():
        for row in rows:
            point = row.figure.point
            lines.append(
                f"| {framework} | {point.prompt_tokens:.0f} | {point.batch:.0f} | {row.figure.measured:.2f} "
                f"| {row.roofline_error:+.1%} | {row.imported_error:+.1%} |"
            )
    lines.append("")
    for framework, rows in predictions.items():
        before = _said([row.roofline_error for row in rows])
        after = _said([row.imported_error for row in rows])
        lines.append(f"{framework}: {len(rows)} runs; roofline alone {before}; after the import {after}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _said(errors: Sequence[float]) -> str:
    summary = error_summary(errors)
    return (
        f"median absolute error {summary.median_absolute:.1%}, largest {summary.max_absolute:.1%}, "
        f"mean {summary.mean_signed:+.1%}"
    )


if __name__ == "__main__":
    sys.exit(main())
