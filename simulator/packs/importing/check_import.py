"""How well an import predicts what it has not seen: ``python -m simulator.packs.importing.check_import``.

The published offline batches of ``measured_a100_40gb_llama3_8b.csv`` are split in two, every second run in
each half. Each half is imported as measurements of an A100 with 40 GB, and predicts the runs of the other.

Then the reference engine, driven by the shipped pack, is load-tested, and its results are read as those of a
real engine: the pack is held against them, and they are imported as if the pack were not known.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from simulator.packs.benchmarks.record import Record
from simulator.packs.benchmarks.vllm import read_vllm_result
from simulator.packs.building.calibrated_kernels import CalibratedKernels
from simulator.packs.building.columns import PackSettings, build_pack
from simulator.packs.building.compare_measured import ErrorSummary, error_summary, load_measured
from simulator.packs.building.roofline_kernels import RooflineKernels
from simulator.packs.importing.import_measurements import calibrate
from simulator.packs.importing.measured_figures import QUANTITIES, Figure, PackPredictor, figures_of
from simulator.packs.importing.measurements import Collected, Measurement, Measurements
from simulator.packs.importing.reference_load_tests import LOADS, Load, load_tests
from simulator.packs.importing.report import ImportReport, ImportRequest, hold_against, import_pack
from simulator.packs.io import DEFAULT_PACK_PATH, read_pack
from simulator.packs.trace_table import load_trace_table

__all__ = ["CrossPrediction", "cross_predict", "main", "reference_report"]

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


def reference_report(loads: Sequence[Load] = LOADS, seconds: int = 200) -> tuple[ImportReport, ImportReport]:
    """The shipped pack held against the reference engine's load tests, and the import of these."""
    results = load_tests(load_trace_table(), loads, seconds)
    collected = Collected()
    for load, result in zip(loads, results, strict=True):
        name = f"{load.rate_rps:g}/s, {load.prompt_tokens} + {load.output_tokens}"
        read_vllm_result(Record(name, "key", result), 0, collected)
    measurements = Measurements(tuple(collected.points), tuple(collected.left_out), files=("reference",))
    pack = read_pack(DEFAULT_PACK_PATH)
    request = ImportRequest(
        pack.metadata.gpu, _SETTINGS.build_date, pack.metadata.model, pack.metadata.memory_limit_gb
    )
    return hold_against(measurements, pack), import_pack(measurements, request)


def main() -> int:
    """Command line: prints all predictions as Markdown; returns 0."""
    sys.stdout.write("\n".join([*_published(), "", *_reference()]) + "\n")
    return 0


def _reference() -> list[str]:
    evidence, imported = reference_report()
    lines = [
        "| reference engine at | sequences | of | measured ms | shipped pack | roofline alone | imported |",
        "|---|--:|---|--:|--:|--:|--:|",
    ]
    for index, figure in enumerate(evidence.figures):
        errors = (evidence.errors["predicted"], imported.errors["uncorrected"], imported.errors["predicted"])
        shown = " | ".join(f"{error[index]:+.1%}" for error in errors)
        name = QUANTITIES[figure.quantity].split()[0]
        lines.append(
            f"| {figure.point.where} | {figure.point.batch:.1f} | {name} | {figure.measured:.1f} | {shown} |"
        )
    for label, report, kind in (
        ("shipped pack", evidence, "predicted"),
        ("imported, held out", imported, "held_out"),
    ):
        for title, summary in report.summaries()[kind].items():
            lines += ["", f"{label}, {title}: {_worded(summary)}"]
    return lines


def _published() -> list[str]:
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
    return lines


def _said(errors: Sequence[float]) -> str:
    return _worded(error_summary(errors))


def _worded(summary: ErrorSummary) -> str:
    return (
        f"median absolute error {summary.median_absolute:.1%}, largest {summary.max_absolute:.1%}, "
        f"mean {summary.mean_signed:+.1%}"
    )


if __name__ == "__main__":
    sys.exit(main())
