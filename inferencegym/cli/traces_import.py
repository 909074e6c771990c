"""``inferencegym traces import``: benchmark results into a trace pack, or into evidence about one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inferencegym.cli.traces import find_pack, tell_how_to_play
from inferencegym.errors import InvalidValueError

if TYPE_CHECKING:
    from simulator.packs.importing.report import ImportReport

__all__ = ["import_traces"]

MAX_SHOWN_FIGURES = 60
"""Rows of the table on a terminal: those that are predicted worst. --json has all."""

MAX_SHOWN_REASONS = 50
"""Results left out whose reasons are shown on a terminal. --json has all."""

_TITLES = {"predicted": "this pack", "uncorrected": "roofline alone", "held_out": "held out"}
_EVIDENCE_ONLY_WITHOUT = ("--output", "--system", "--model", "--memory-gib", "--cents-per-gpu-hour")


def import_traces(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Results of vllm bench serve (JSON), of AIPerf or GenAI-Perf (JSON, CSV), or CSV tables.",
            show_default=False,
        ),
    ],
    output: Annotated[Path | None, typer.Option(help="Write the pack here (Parquet).")] = None,
    evidence: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE", help="Hold this pack against the figures; nothing is fitted or written."
        ),
    ] = None,
    system: Annotated[str | None, typer.Option(help="GPU, such as a100_sxm or h100_sxm.")] = None,
    model: Annotated[str | None, typer.Option(help="Model; default the one the files name.")] = None,
    memory_gib: Annotated[
        float | None, typer.Option(help="Memory of the serving process, GiB, at most 80; default the GPU's.")
    ] = None,
    cents_per_gpu_hour: Annotated[float | None, typer.Option(help="Price; default a list price.")] = None,
    tier: Annotated[
        str, typer.Option(help="Quantisation of figures that do not name theirs: FP16, INT8, INT4.")
    ] = "FP16",
    engine: Annotated[
        str | None, typer.Option(help="Engine, for the pack's metadata; default what the files say.")
    ] = None,
    engine_version: Annotated[str | None, typer.Option(help="Its version, for the pack's metadata.")] = None,
    build_date: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Date in the metadata; default today.")
    ] = None,
    max_error: Annotated[
        float, typer.Option(help="Largest median error of the fit for which a pack is written.")
    ] = 0.25,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Make a trace pack of measured figures, or hold one against them.

    Without --output or --evidence the fit is made and shown, and nothing is written.
    """
    from inferencegym.registry import load

    _check_max_error(max_error)
    read = load("simulator.packs.benchmarks.readers:read_measurements")
    if evidence is not None:
        _refuse_beside_evidence((output, system, model, memory_gib, cents_per_gpu_hour))
        pack = load("simulator.packs.io:read_pack")(find_pack(evidence))
        names = pack.metadata.tier_names
        measurements = read(files, _tier_index(tier, names), names)
        report = load("simulator.packs.importing.report:hold_against")(measurements, pack)
    else:
        measurements = read(files, _tier_index(tier, load("simulator.packs.schema:TIER_NAMES")))
        if system is None:
            raise InvalidValueError("--system", system, "the GPU, such as a100_sxm")
        if output is not None:
            _check_place(output, files)
        version = {} if engine_version is None else {"engine_version": engine_version}
        request = load("simulator.packs.importing.report:ImportRequest")(
            system=system,
            build_date=(build_date or datetime.now(UTC)).date().isoformat(),
            model=model,
            memory_gib=memory_gib,
            cents_per_gpu_hour=cents_per_gpu_hour,
            engine=engine,
            **version,
        )
        report = load("simulator.packs.importing.report:import_pack")(measurements, request)
    _show(report, as_json)
    if output is not None:
        _write(output, report, max_error, quiet=as_json)


def _write(output: Path, report: ImportReport, max_error: float, *, quiet: bool) -> None:
    from inferencegym.registry import load

    error = report.summaries()["predicted"]["all"].median_absolute
    if error > max_error:
        raise InvalidValueError(
            "median error of the fit",
            f"{error:.1%}",
            f"up to {max_error:.1%} (--max-error)",
            "Nothing was written.",
        )
    load("simulator.packs.io:write_pack")(output, report.pack)
    if not quiet:
        typer.echo(f"wrote {output} ({output.stat().st_size / 1024:.0f} KiB)")
        tell_how_to_play(output)


def _show(report: ImportReport, as_json: bool) -> None:
    from inferencegym.cli.show import print_json

    if as_json:
        print_json(report.document())
        return
    for entry in report.left_out[:MAX_SHOWN_REASONS]:
        typer.secho(f"left out: {entry.where}: {entry.reason}", fg="yellow", err=True)
    if (unseen := len(report.left_out) - MAX_SHOWN_REASONS) > 0:
        typer.secho(f"left out: {unseen} more; --json has all", fg="yellow", err=True)
    for note in report.notes:
        typer.secho(f"note: {note}", fg="yellow", err=True)
    _show_tables(report)


def _show_tables(report: ImportReport) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console.width = 200

    def table(title: str, *columns: str) -> Table:
        made = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
        for index, column in enumerate(columns):
            made.add_column(column, justify="right" if index else "left", no_wrap=True)
        return made

    title, rows = _figure_rows(report)
    shown = table(
        title, "figure", "tier", "batch", "prompt", "output", "of", "measured", "predicted", "error"
    )
    for row in rows:
        shown.add_row(*row)
    console.print(shown)
    if report.calibration is not None:
        fitted = table("Correction", "parameter", "value", "±", "± before measuring")
        for row in _parameter_rows(report):
            fitted.add_row(*row)
        console.print(fitted)
    errors = table("Errors", "predicted by", "of", "figures", "median", "largest", "mean")
    for kind, by_title in report.summaries().items():
        for name, s in by_title.items():
            errors.add_row(
                _TITLES[kind], name, str(s.runs), f"{s.median_absolute:.1%}", f"{s.max_absolute:.1%}",
                f"{s.mean_signed:+.1%}",
            )  # fmt: skip
    console.print(errors)


def _figure_rows(report: ImportReport) -> tuple[str, list[tuple[str, ...]]]:
    from inferencegym.registry import load

    names = report.pack.metadata.tier_names
    units: dict[str, str] = load("simulator.packs.importing.measured_figures:QUANTITIES")
    errors = report.errors["predicted"]
    order = range(len(errors))
    title = f"{len(errors)} figures"
    if len(errors) > MAX_SHOWN_FIGURES:
        order = sorted(order, key=lambda index: -abs(errors[index]))[:MAX_SHOWN_FIGURES]
        title += f", the {MAX_SHOWN_FIGURES} that are predicted worst; --json has all"
    rows: list[tuple[str, ...]] = []
    for index in order:
        figure, point = report.figures[index], report.figures[index].point
        numbers = (point.batch, point.prompt_tokens, point.output_tokens)
        values = (figure.measured, figure.measured * (1.0 + errors[index]))
        rows.append(
            (
                point.where,
                names[point.tier],
                *(f"{number:.4g}" for number in numbers),
                units[figure.quantity],
                *(f"{value:.4g}" for value in values),
                f"{errors[index]:+.1%}",
            )
        )
    return title, rows


def _parameter_rows(report: ImportReport) -> list[tuple[str, ...]]:
    """Factors with relative deviations, overheads with absolute ones."""
    from inferencegym.registry import load

    if report.calibration is None:
        return []
    rows: list[tuple[str, ...]] = []
    fitted = zip(
        load("simulator.packs.importing.import_measurements:PARAMETERS"),
        report.calibration.values,
        report.calibration.deviations,
        strict=True,
    )
    for parameter, value, deviation in fitted:
        if parameter.factor:
            rows.append((parameter.name, f"× {value:.3f}", f"{deviation:.0%}", f"{parameter.prior:.0%}"))
        else:
            rows.append((parameter.name, f"{value:.3g}", f"{deviation:.2g}", f"{parameter.prior:.2g}"))
    return rows


def _tier_index(name: str, names: tuple[str, ...]) -> int:
    if name.upper() not in names:
        raise InvalidValueError("--tier", name, ", ".join(names))
    return names.index(name.upper())


def _refuse_beside_evidence(values: tuple[Any, ...]) -> None:
    for option, value in zip(_EVIDENCE_ONLY_WITHOUT, values, strict=True):
        if value is not None:
            raise InvalidValueError(option, value, "nothing beside --evidence, which fits and writes nothing")


def _check_place(output: Path, files: list[Path]) -> None:
    """Better now than after the fit. What was measured must not be lost to a pack."""
    from inferencegym.registry import load

    load("agents.compare.output_files:check_writable")(
        "--output", output, load("simulator.packs.io:PACK_SUFFIX")
    )
    if output.resolve() in {file.resolve() for file in files}:
        raise InvalidValueError("--output", str(output), "a file that is not among those to be read")


def _check_max_error(max_error: float) -> None:
    if not 0.0 < max_error <= 1.0:
        raise InvalidValueError("--max-error", max_error, "a share above 0, up to 1")
