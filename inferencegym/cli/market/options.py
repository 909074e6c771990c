"""Options that the commands of ``inferencegym market`` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from simulator.market.config import MarketFiles

__all__ = [
    "GpusOption",
    "HoursOption",
    "JsonOption",
    "ObjectiveOption",
    "ParametersOption",
    "PolicyOption",
    "RateOption",
    "ScenarioOption",
    "ScenariosOption",
    "SeedOption",
    "ThreadsOption",
    "market_files",
]

ScenarioOption = Annotated[str, typer.Option(help="Scenario; `inferencegym market scenarios` lists them.")]
ObjectiveOption = Annotated[
    Path | None, typer.Option("--objective", help="Objective, YAML; default the one shipped.")
]
ScenariosOption = Annotated[
    Path | None, typer.Option("--scenarios", help="Scenarios, YAML; default those shipped.")
]
GpusOption = Annotated[int | None, typer.Option(help="GPUs instead of the scenario's.")]
RateOption = Annotated[float | None, typer.Option(help="Jobs per hour instead of the scenario's.")]
ParametersOption = Annotated[
    Path | None, typer.Option("--parameters", help="File of train-ga; default the scenario's own.")
]
PolicyOption = Annotated[str, typer.Option(help="hold, rule (baseline), untrained, evolved or static.")]
SeedOption = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the customers.")]
HoursOption = Annotated[int, typer.Option(min=1, max=976, help="Hours of an episode.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="Default one a CPU.")]


def market_files(objective: Path | None, scenarios: Path | None) -> MarketFiles:
    """The files that were named, or those shipped."""
    from simulator.market.config import OBJECTIVE_PATH, SCENARIOS_PATH, load_market

    return load_market(objective or OBJECTIVE_PATH, scenarios or SCENARIOS_PATH)
