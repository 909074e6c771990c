"""Evolve a policy of InferenceGym/Serving-v0: ``python -m agents.serving.evolved --task task3``.

CMA-ES searches the parameters of :class:`agents.serving.evolved_policy.EvolvedPolicy`, starting from the best
two-mode policy of the calibration. Fitness is the mean grade over seeds that are fresh in every generation
and the same for all of its candidates; every so often the mean of the search is graded on a fixed set of
validation seeds, and the best of those is kept. Neither set holds a seed of the tables (100 to 199), of the
baseline (0) or of the calibration (9000 to 9007).

The parameters of the three tasks are committed under ``agents/data/`` with how they were made. To grade
them on held-out seeds: ``inferencegym compare --agents static,adaptive,evolved --baseline static``.
Needs the extra ``gym``; playing does not.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress

from agents.compare.episodes import cpu_count
from agents.serving.arena import Arena
from agents.serving.evolved_policy import INPUTS, parameters_of, stored_path
from env.serving.tasks import get_task, load_calibration
from grader.serving.policies import policy_from_dict
from inferencegym.errors import InferenceGymError, InvalidValueError
from inferencegym.options import OptionParser
from simulator.packs.trace_sim import shared_simulator

__all__ = ["Settings", "command", "evolve", "main"]

FloatArray = npt.NDArray[np.float64]

FIRST_TRAINING_SEED = 10_000
VALIDATION_SEEDS = range(2_000_000, 2_000_064)
VALIDATE_EVERY = 10
"""Generations between two gradings of the search's mean on the validation seeds."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to search."""

    task: str
    generations: int = 300
    population: int = 24
    seeds: int = 48
    """Episodes that each candidate of a generation plays."""
    sigma: float = 0.12
    """Standard deviation of the first generation, in units of the parameters."""
    fitness: Literal["grade", "reward"] = "grade"
    search_seed: int = 1
    minutes: float = 10.0
    """The search ends at the first validation after this time."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", get_task(self.task).info.id)
        for name, least in (("generations", 1), ("population", 4), ("seeds", 1)):
            if getattr(self, name) < least:
                raise InvalidValueError(name, getattr(self, name), f"a whole number from {least} up")
        for name in ("sigma", "minutes"):
            if not getattr(self, name) > 0.0:
                raise InvalidValueError(name, getattr(self, name), "a number above 0")
        if FIRST_TRAINING_SEED + self.generations * self.seeds > VALIDATION_SEEDS.start:
            raise InvalidValueError(
                "generations × seeds",
                self.generations * self.seeds,
                f"at most {VALIDATION_SEEDS.start - FIRST_TRAINING_SEED:,}, below the validation seeds",
            )

    def training_seeds(self, generation: int) -> range:
        """Seeds of a generation; every generation has its own."""
        first = FIRST_TRAINING_SEED + generation * self.seeds
        return range(first, first + self.seeds)


def evolve(settings: Settings, threads: int = 1, progress: Progress | None = None) -> dict[str, Any]:
    """Search, and return the best parameters with their provenance, ready for JSON.

    Raises:
        InferenceGymError: numba or cma is missing.
    """
    cma = _import_cma()
    arena = Arena(settings.task, threads)
    start = parameters_of(
        settings.task, policy_from_dict(load_calibration()["tasks"][settings.task]["best_adaptive"])
    )
    search = cma.CMAEvolutionStrategy(
        start,
        settings.sigma,
        {"popsize": settings.population, "seed": settings.search_seed, "verbose": -9},
    )
    best, best_grade = start, _validate(arena, start)
    start_grade, generation = best_grade, 0
    bar = progress.add_task(settings.task, total=settings.generations) if progress else None
    ends_s = time.monotonic() + 60.0 * settings.minutes
    # Time may end it right after a validation only, so that the number of generations says all.
    while generation < settings.generations and not (
        generation and generation % VALIDATE_EVERY == 0 and time.monotonic() > ends_s
    ):
        candidates = np.array(search.ask())
        grades, rewards = arena.play(candidates, settings.training_seeds(generation))
        fitness = (grades if settings.fitness == "grade" else rewards).mean(axis=1)
        search.tell(list(candidates), (-fitness).tolist())
        generation += 1
        if generation % VALIDATE_EVERY == 0 or generation == settings.generations:
            mean = np.array(search.result.xfavorite)
            grade = _validate(arena, mean)
            if grade > best_grade:
                best, best_grade = mean, grade
        if progress is not None and bar is not None:
            progress.update(bar, completed=generation, description=f"{settings.task} {best_grade:.4f}")
    return _document(replace(settings, generations=generation), best, best_grade, start_grade)


def _import_cma() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that its plots need matplotlib
            import cma
    except ImportError:
        raise InferenceGymError(
            "Training needs cma.", "Install the extra: pip install 'inferencegym[gym]'."
        ) from None
    return cma


def _validate(arena: Arena, parameters: FloatArray) -> float:
    return float(arena.play(parameters[None], VALIDATION_SEEDS)[0].mean())


def _document(settings: Settings, parameters: FloatArray, grade: float, start_grade: float) -> dict[str, Any]:
    pack = shared_simulator().table.metadata
    return {
        "made_by": command(settings),
        "settings": {name: value for name, value in asdict(settings).items() if name != "minutes"},
        "training_seeds": [FIRST_TRAINING_SEED, settings.training_seeds(settings.generations - 1)[-1]],
        "validation_seeds": [VALIDATION_SEEDS.start, VALIDATION_SEEDS.stop - 1],
        "validation_grade": grade,
        "validation_grade_of_the_start": start_grade,
        "trace_pack": {"gpu": pack.gpu, "model": pack.model, "source": pack.source},
        "cma": version("cma"),
        "inputs": list(INPUTS),
        "parameters": [round(value, 6) for value in parameters.tolist()],
    }


def command(settings: Settings) -> str:
    """The command that makes the same parameters again, however fast the machine is."""
    words = ["python -m agents.evolved", f"--task {settings.task}"]
    words += [f"--{name.replace('_', '-')} {getattr(settings, name)}" for name, _ in _OPTIONS]
    return " ".join([*words, f"--fitness {settings.fitness}", f"--minutes {MINUTES_ENOUGH}"])


MINUTES_ENOUGH = 600

_OPTIONS = (("generations", int), ("population", int), ("seeds", int), ("sigma", float), ("search_seed", int))


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = OptionParser(prog="python -m agents.serving.evolved", description="Evolve a policy.")
    parser.add_argument("--task", required=True, help="task1, task2 or task3")
    parser.add_argument("--output", type=Path, help="JSON file; default agents/data/evolved_TASK.json")
    parser.add_argument("--threads", type=int, default=cpu_count())
    defaults = Settings("task1")
    for name, kind in (*_OPTIONS, ("minutes", float)):
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=kind, default=getattr(defaults, name), help="default %(default)s")
    parser.add_argument("--fitness", choices=("grade", "reward"), default=defaults.fitness)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Evolve, save, and say what came of it; returns the exit status."""
    given = _arguments(arguments)
    fields = {name: getattr(given, name) for name in Settings.__slots__}
    try:
        settings = Settings(**fields)
        with Progress(console=Console(stderr=True)) as progress:
            document = evolve(settings, max(1, given.threads), progress)
    except InferenceGymError as error:
        print(error, file=sys.stderr)
        return 2
    output: Path = given.output or stored_path(settings.task)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(document, indent=1) + "\n")
    print(
        f"{settings.task}: {document['settings']['generations']} generations; mean grade on validation seeds "
        f"{document['validation_grade_of_the_start']:.4f} -> {document['validation_grade']:.4f}; {output}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
