"""``inferencegym market trace | duel | claim | verify``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inferencegym.cli.market.options import (
    GpusOption,
    HoursOption,
    ObjectiveOption,
    ParametersOption,
    PolicyOption,
    RateOption,
    ScenarioOption,
    ScenariosOption,
    SeedOption,
    market_files,
)
from inferencegym.errors import InvalidValueError

if TYPE_CHECKING:
    from agents.market.duel import Duel

__all__ = ["claim", "duel", "trace", "verify"]

EXIT_DIFFERS = 1


def trace(
    scenario: ScenarioOption = "steady",
    policy: PolicyOption = "evolved",
    seed: SeedOption = 0,
    hours: HoursOption = 200,
    parameters: ParametersOption = None,
    gpus: GpusOption = None,
    arrival_rate: RateOption = None,
    objective: ObjectiveOption = None,
    scenarios: ScenariosOption = None,
    jsonl: Annotated[Path | None, typer.Option(help="Write the canonical trace here.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write a log of the hours here.")] = None,
) -> None:
    """Play one episode with a policy; print its totals, write its trace or log."""
    from agents.market.play import make_demand, named_policy, play_market
    from agents.market.traces import CSV_COLUMNS, csv_row, trace_lines, write_csv
    from inferencegym.cli.compare import check_writable

    check_writable({"--jsonl": jsonl, "--csv": csv})
    setup = market_files(objective, scenarios).setup(scenario, gpus, arrival_rate)
    _check_parameters(parameters, scenario, (policy,))
    chosen = named_policy(policy, setup, parameters)
    played = list(play_market(setup, chosen, make_demand(setup, seed, hours)))
    if jsonl is not None:
        lines = trace_lines(setup, chosen, make_demand(setup, seed, hours), seed)
        _write_lines(jsonl, lines)
    if csv is not None:
        with csv.open("w", encoding="utf-8", newline="") as file:
            write_csv(file, CSV_COLUMNS, (csv_row(setup, hour) for hour in played))
    last = played[-1]
    revenue = sum(hour.counts.revenue for hour in played)
    ending = "the market died" if last.counts.dead else "to the end"
    typer.echo(
        f"{scenario}, {policy}, seed {seed}: {len(played)} hours ({ending}), "
        f"revenue {revenue / 1e6:.2f} USD, reward {last.cumulative_reward / 1e6:.4f}"
    )


def _check_parameters(path: Path | None, scenario: str, policies: tuple[str, ...]) -> None:
    """A file of parameters is for the evolved policy; that it was made for another scenario is said."""
    if path is None:
        return
    if "evolved" not in policies:
        raise InvalidValueError("--parameters", str(path), "for the policy evolved only")
    from agents.market.files import read_document

    _tell_origin(path, read_document(path), scenario)


def _tell_origin(path: Path, document: dict[str, Any], scenario: str) -> None:
    origin = document.get("scenario", scenario)
    if origin != scenario:
        typer.secho(
            f"{path.name} was made for scenario {origin}, it plays {scenario}.", fg="yellow", err=True
        )


def _check_hours(options: dict[str, list[int]], hours: int) -> None:
    """Hours of events: in the episode, each once."""
    for option, chosen in options.items():
        for hour in chosen:
            if not 0 <= hour < hours:
                raise InvalidValueError(option, hour, f"an hour from 0 to {hours - 1}")
            if chosen.count(hour) > 1:
                raise InvalidValueError(option, hour, "each hour once")


def _write_lines(path: Path, lines: Any) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in lines)


def duel(
    scenario: ScenarioOption = "surge",
    left: PolicyOption = "rule",
    right: PolicyOption = "evolved",
    seed: SeedOption = 0,
    hours: HoursOption = 200,
    surge_at: Annotated[list[int] | None, typer.Option(help="Hour before which a surge begins.")] = None,
    shock_at: Annotated[list[int] | None, typer.Option(help="Hour before which a shock begins.")] = None,
    parameters: ParametersOption = None,
    gpus: GpusOption = None,
    arrival_rate: RateOption = None,
    objective: ObjectiveOption = None,
    scenarios: ScenariosOption = None,
    csv: Annotated[Path | None, typer.Option(help="Write the hours of both sides here.")] = None,
) -> None:
    """Play two policies in lockstep on the same customers and compare them."""
    from agents.market.duel import Duel
    from agents.market.play import named_policy
    from inferencegym.cli.compare import check_writable

    check_writable({"--csv": csv})
    setup = market_files(objective, scenarios).setup(scenario, gpus, arrival_rate)
    _check_hours({"--surge-at": surge_at or [], "--shock-at": shock_at or []}, hours)
    _check_parameters(parameters, scenario, (left, right))
    both = [(name, named_policy(name, setup, parameters)) for name in (left, right)]
    played = Duel(setup, both[0], both[1], seed, hours)
    while not played.done:
        if played.hour in (surge_at or []):
            played.surge()
        if played.hour in (shock_at or []):
            played.shock()
        played.step()
    if csv is not None:
        csv.write_text(played.csv(), encoding="utf-8")
    _show_duel(played)


def _show_duel(played: Duel) -> None:
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    one, other = (asdict(summary) for summary in played.summary())
    table = Table("over active hours", *(side.name for side in played.sides))
    for name in one:
        table.add_row(name.replace("_", " "), _plain(one[name]), _plain(other[name]))
    Console().print(table)


def _plain(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else "-" if value is None else str(value)


def claim(
    output: Annotated[Path, typer.Option(help="The claim, JSON.")],
    scenario: ScenarioOption = "steady",
    seeds: Annotated[str, typer.Option(help="A range, a list, or a count (20 is 100-119).")] = "100-119",
    hours: HoursOption = 200,
    parameters: ParametersOption = None,
    gpus: GpusOption = None,
    arrival_rate: RateOption = None,
    objective: ObjectiveOption = None,
    scenarios: ScenariosOption = None,
    trace: Annotated[Path | None, typer.Option(help="Write the trace lines of all seeds here.")] = None,
) -> None:
    """Play a parameter file on some seeds and write down what came of it, to be verified by anybody."""
    from agents.compare.compare import parse_seeds
    from agents.market.claims import METHOD, make_claim
    from agents.market.files import parameters_path, read_parameters
    from inferencegym.cli.compare import check_writable
    from inferencegym.cli.show import counting

    check_writable({"--output": output, "--trace": trace})
    files = market_files(objective, scenarios)
    source = parameters or parameters_path(scenario)
    found, document = read_parameters(source, files.setup(scenario, gpus, arrival_rate))
    _tell_origin(source, document, scenario)
    chosen, lines = parse_seeds(seeds), list[str]()
    with counting("seeds", len(chosen)) as advance:
        made = make_claim(
            files,
            scenario,
            found.natural(),
            chosen,
            hours,
            gpus,
            arrival_rate,
            advance,
            lines.append if trace is not None else lambda line: None,
        )
    output.write_text(made.model_dump_json(indent=1) + "\n", encoding="utf-8")
    if trace is not None:
        _write_lines(trace, lines)
    typer.echo(f"fitness {made.fitness / 1e6:.4f} on {len(chosen)} seeds, trace root {made.trace_root}")
    typer.echo(METHOD)


def verify(
    file: Annotated[Path, typer.Argument(help="A claim.", dir_okay=False)],
    trace: Annotated[Path | None, typer.Option(help="Trace lines that came with the claim.")] = None,
    objective: ObjectiveOption = None,
    scenarios: ScenariosOption = None,
) -> None:
    """Play a claim again and say whether it is valid, or where it differs (exit code 1)."""
    from agents.market.claims import METHOD, differences, read_claim, trace_differences
    from inferencegym.cli.show import counting

    stated, files = read_claim(file), market_files(objective, scenarios)
    lines = [] if trace is None else _read_lines(trace)
    with counting("seeds", len(stated.seeds)) as advance:
        found = differences(stated, files, advance)
    if trace is not None:
        found += trace_differences(stated, files, lines)
    typer.echo("\n".join(["differs:", *found]) if found else f"valid: {len(stated.seeds)} seeds replayed")
    typer.echo(METHOD)
    if found:
        raise typer.Exit(EXIT_DIFFERS)


def _read_lines(path: Path) -> list[str]:
    """The lines without their line feeds; any other line end stays and makes the line another one."""
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValueError("--trace", str(path), "a readable file of trace lines", str(error)) from None
    if text and not text.endswith("\n"):
        raise InvalidValueError("--trace", str(path), "lines that each end in a line feed, the last too")
    return text.split("\n")[:-1]
