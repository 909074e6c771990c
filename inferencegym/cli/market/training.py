"""``inferencegym market scenarios | train-ga | sweep | newest``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferencegym.cli.market.options import (
    GpusOption,
    JsonOption,
    ObjectiveOption,
    RateOption,
    ScenarioOption,
    ScenariosOption,
    ThreadsOption,
    market_files,
)
from inferencegym.errors import InferenceGymError

if TYPE_CHECKING:
    from agents.market.train import HeldOut

__all__ = ["newest", "scenarios", "sweep", "train_ga"]


def scenarios(
    objective: ObjectiveOption = None, scenarios_path: ScenariosOption = None, as_json: JsonOption = False
) -> None:
    """List the scenarios, after checking both files."""
    from rich.console import Console
    from rich.table import Table

    from inferencegym.cli.show import print_json

    files = market_files(objective, scenarios_path)
    if as_json:
        print_json({name: scenario.model_dump(mode="json") for name, scenario in files.scenarios.items()})
        return
    table = Table("scenario", "card", "GPUs", "jobs/h", "median limit", "prices", "events")
    for name, scenario in files.scenarios.items():
        setup = files.setup(name)
        table.add_row(
            name,
            scenario.card,
            str(scenario.gpus),
            f"{scenario.arrival_rate:g}",
            f"{scenario.median_limit:g}",
            f"{setup.min_price / 1e6:g} to {setup.max_price / 1e6:g}",
            ", ".join(event.name for event in scenario.events),
        )
    Console().print(table)


def train_ga(
    scenario: ScenarioOption = "steady",
    generations: Annotated[int, typer.Option(help="0 writes the untrained policy.")] = 50,
    population_size: Annotated[int, typer.Option(help="Candidates of a generation.")] = 30,
    seeds: Annotated[int, typer.Option(help="Training seeds, from 10000 on; at least 12.")] = 24,
    search_seed: Annotated[int, typer.Option(help="Seed of the search.")] = 1,
    output: Annotated[
        Path | None, typer.Option(help="JSON file; default ga_best_params_SCENARIO.json.")
    ] = None,
    gpus: GpusOption = None,
    arrival_rate: RateOption = None,
    objective: ObjectiveOption = None,
    scenarios: ScenariosOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Evolve the five-parameter policy and report it on held-out seeds 100-199."""
    from agents.compare.episodes import cpu_count
    from agents.market.files import parameters_path
    from agents.market.train import TrainingSettings, document, evolve, held_out
    from inferencegym.cli.compare import check_writable
    from inferencegym.cli.show import counting

    setup = market_files(objective, scenarios).setup(scenario, gpus, arrival_rate)
    settings = TrainingSettings(generations, population_size, seeds, search_seed)
    path = output or parameters_path(scenario, Path())
    check_writable({"--output": path})
    workers = threads or cpu_count()
    with counting("generations", generations) as advance:
        found, fitness = evolve(setup, settings, workers, lambda done, best: advance())
    report = held_out(setup, found, threads=workers)
    written = document(setup, settings, found, fitness, report)
    path.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    _show_training(fitness / 1e6, report)
    typer.echo(str(path))


def _show_training(fitness: float, report: list[HeldOut]) -> None:
    typer.echo(f"training fitness {fitness:.2f} (mean sum of rewards)")
    for row in report:
        typer.echo(
            f"held-out {row.policy:>9}: {row.reward.value:7.2f} ± {row.reward.half_width:.2f}, "
            f"{row.minus_rule.value:+.2f} ± {row.minus_rule.half_width:.2f} against the rule, "
            f"{row.death_rate:.0%} of the markets died"
        )


def sweep(
    output: Annotated[Path, typer.Option(help="JSON file of the best prices.")],
    objective: ObjectiveOption = None,
    scenarios: ScenariosOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Find the best constant price of every scenario on the training seeds."""
    from agents.compare.episodes import cpu_count
    from agents.market.train import best_constants
    from inferencegym.cli.compare import check_writable

    check_writable({"--output": output})
    written = best_constants(market_files(objective, scenarios), threads or cpu_count())
    output.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    for name, price in written["prices"].items():
        typer.echo(f"{name}: {price:.2f}")


def newest(
    folder: Annotated[Path, typer.Argument(help="Folder to look in.")] = Path(),
    scenario: Annotated[str | None, typer.Option(help="Only of this scenario.")] = None,
) -> None:
    """Name the newest ga_best_params*.json of a folder: the one that the dashboard loads."""
    from agents.market.files import PATTERN, newest_parameters

    found = newest_parameters(folder, scenario)
    if found is None:
        raise InferenceGymError(
            f"There is no {PATTERN} in {folder}.", "Make one: inferencegym market train-ga."
        )
    typer.echo(str(found))
