"""``inferencegym compare``: agents side by side, with intervals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferencegym.cli.config import ConfigOption, config_of
from inferencegym.errors import InferenceGymError, InvalidValueError

if TYPE_CHECKING:
    from agents.compare.compare import Comparison

__all__ = ["check_writable", "compare"]

_Writers = dict[str, tuple[Path | None, Callable[[Path], object]]]
"""By option: the file that it names, if any, and what writes it."""

_FILE_WIDTH = 200
"""Columns of a table that is not shown on a terminal."""


def compare(
    env: Annotated[str, typer.Option("--env", help="Environment: short name or id.")] = "serving",
    agents: Annotated[
        str | None,
        typer.Option(help="Names, separated by commas; default all but those that call a service."),
    ] = None,
    tasks: Annotated[str | None, typer.Option(help="Task ids, separated by commas; default all.")] = None,
    seeds: Annotated[str, typer.Option(help="A range, a list, or a count (20 is 100-119).")] = "100-119",
    baseline: Annotated[str, typer.Option(help="Agent that differences are taken to.")] = "baseline",
    config: ConfigOption = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default one a CPU.")] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write everything as JSON.")] = None,
    summary_path: Annotated[
        Path | None,
        typer.Option("--summary", help="Write means and intervals alone, as agents/data/results."),
    ] = None,
    csv_path: Annotated[Path | None, typer.Option("--csv", help="Write the episodes as CSV.")] = None,
    png_path: Annotated[
        Path | None, typer.Option("--png", help="Draw the scores (needs matplotlib).")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no tables.")] = False,
) -> None:
    """Let agents play the same episodes and compare their scores."""
    from agents.compare import report
    from agents.compare.compare import make_plan, parse_seeds, run_plan
    from agents.compare.episodes import cpu_count
    from agents.compare.results import Scores
    from inferencegym.cli.show import counting

    plan = make_plan(
        env,
        _names("--agents", agents),
        _names("--tasks", tasks),
        parse_seeds(seeds),
        baseline,
        config_of(config),
    )
    writers: _Writers = {
        "--json": (json_path, lambda path: path.write_text(report.to_json(comparison), encoding="utf-8")),
        "--summary": (
            summary_path,
            lambda path: path.write_text(Scores.of(comparison).to_json(), encoding="utf-8"),
        ),
        "--csv": (csv_path, lambda path: path.write_text(report.to_csv(comparison), encoding="utf-8")),
        "--png": (png_path, lambda path: report.write_png(comparison, path)),
    }
    check_writable({option: path for option, (path, _) in writers.items()})
    if png_path is not None:
        report.require_matplotlib()
    for agent, reason in plan.left_out.items():
        typer.secho(f"{agent} does not play: {reason}", fg="yellow", err=True)
    with counting("episodes", len(plan.jobs), enabled=not quiet) as on_episode:
        comparison = run_plan(plan, workers or cpu_count(), on_episode)
    if markdown:
        typer.echo(report.to_markdown(comparison), nl=False)
    elif not quiet:
        _show(comparison)
    for note in report.notes_of(comparison):
        typer.secho(note, fg="yellow", err=True)
    _write_all(writers)


def _write_all(writers: _Writers) -> None:
    """Write the files; one that cannot be written keeps no other from it."""
    from agents.compare.output_files import write_file

    failure: InferenceGymError | None = None
    for option, (path, write) in writers.items():
        if path is not None:
            try:
                write_file(option, path, write)
            except InferenceGymError as error:
                failure = failure or error
    if failure is not None:
        raise failure


def _show(comparison: Comparison) -> None:
    """A table for each task."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from agents.compare import report

    console = Console()
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    for task in comparison.tasks:
        rows = report.rows_of(comparison, task)
        table = Table(title=f"{comparison.env} {task}", title_justify="left", box=SIMPLE_HEAD)
        for index, title in enumerate(report.header_of(comparison, rows)):
            table.add_column(title, justify="right" if index else "left", no_wrap=not index)
        for row in rows:
            table.add_row(*report.row_of(comparison, rows, row))
        console.print(table)
    seeds = report.seeds_text(comparison.seeds)
    note = (
        f"seeds {seeds}; ± is half of the mean's 95 % interval (Student's t); differences are paired by seed"
    )
    console.print(note, style="dim", highlight=False)


def _names(option: str, text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidValueError(option, text, "names separated by commas")
    return names


def check_writable(paths: dict[str, Path | None]) -> None:
    """Better now than after an hour of playing: each a file of its own that can be written.

    Raises InvalidValueError that names the option.
    """
    from agents.compare import output_files

    taken = dict[Path, str]()
    for option, path in paths.items():
        if path is not None:
            first = taken.setdefault(path.resolve(), option)
            if first != option:
                raise InvalidValueError(option, str(path), f"another file than that of {first}")
            output_files.check_writable(option, path, ".png" if option == "--png" else "")
