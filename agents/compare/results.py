"""Committed results: what the tables and pictures of docs/environments say, as data for programs and pages.

========================  ================================================================================
``NAME_scores.json``      the table of reference agents (``inferencegym compare … --summary FILE``)
``NAME_TASK_curve.json``  a learning curve (``curve.json`` of ``python -m agents.ppo.demo …``)
``NAME_TASK_front.json``  what a gain costs (``python -m agents.routing.frontier … --json FILE``)
========================  ================================================================================

Each file names the command that makes it again. What an environment has no file for, it has no result for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Self, cast

from pydantic import BaseModel, ConfigDict

from agents.compare.compare import CONFIDENCE, AgentSummary, Comparison, Mean, parse_seeds
from agents.compare.report import seeds_text
from env.protocols import listed_tasks
from inferencegym.registry import get_spec

__all__ = ["FOLDER", "Curve", "Front", "FrontPoint", "Line", "Scores", "curve_of", "front_of", "scores_of"]

FOLDER = Path(__file__).parents[1] / "data" / "results"


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


class _Result(BaseModel):
    """What every file says. ``seeds``: of the episodes, as :func:`agents.compare.compare.parse_seeds` reads
    them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str
    env: str
    env_version: str
    seeds: str
    confidence: float = CONFIDENCE

    @property
    def episodes(self) -> int:
        """How many episodes each mean is taken over."""
        return len(parse_seeds(self.seeds))

    def to_json(self) -> str:
        """The file's text: a line for each entry, so that a change shows as the rows that changed."""
        parts: list[str] = []
        for name, value in self.model_dump(mode="json").items():
            if isinstance(value, list):
                text = "[\n  " + ",\n  ".join(map(_line, cast("list[object]", value))) + "\n ]"
            else:
                text = _line(value)
            parts.append(f' "{name}": {text}')
        return "{\n" + ",\n".join(parts) + "\n}\n"

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The file, or None when there is none."""
        return cls.model_validate_json(path.read_bytes()) if path.is_file() else None


class Scores(_Result):
    """A comparison without its episodes."""

    baseline: str | None
    rows: tuple[AgentSummary, ...]

    @classmethod
    def of(cls, comparison: Comparison) -> Scores:
        """The summaries of a comparison, and the command that plays it again."""
        spec = get_spec(comparison.env)
        agents = ",".join(dict.fromkeys(row.agent for row in comparison.summaries))
        seeds = seeds_text(comparison.seeds).replace(" ", "")
        parts = ["inferencegym compare --env", spec.name, "--agents", agents]
        if comparison.tasks != tuple(listed_tasks(spec.part("tasks"))):
            parts += ["--tasks", ",".join(comparison.tasks)]
        parts += ["--seeds", seeds]
        if comparison.baseline not in (None, "baseline"):
            parts += ["--baseline", str(comparison.baseline)]
        return cls(
            command=" ".join(parts),
            env=comparison.env,
            env_version=comparison.env_version,
            seeds=seeds,
            baseline=comparison.baseline,
            rows=comparison.summaries,
        )

    def comparison(self) -> Comparison:
        """As :mod:`agents.compare.report` takes it."""
        return Comparison(
            self.env, self.env_version, self.baseline, parse_seeds(self.seeds), self.rows, (), {}
        )


class Line(BaseModel):
    """An agent that does not learn, beside a learning curve."""

    agent: str
    name: str
    score: Mean


class Curve(_Result):
    """Mean held-out score of a policy while it is trained.

    ``points``: (environment steps, score); ``settings``: of the training, as the policy's file has them;
    ``policy``: fingerprint of the weights at the end.
    """

    task: str
    settings: Mapping[str, str | int | float]
    policy: str
    points: tuple[tuple[int, Mean], ...]
    lines: tuple[Line, ...]


class FrontPoint(BaseModel):
    """An agent's mean episode."""

    name: str
    cost: Mean
    gain: Mean


class Front(_Result):
    """What a gain costs: agents as points, and a line of points that a price moves along.

    ``cost`` and ``gain`` name the two, with units.
    """

    task: str
    cost: str
    gain: str
    line_name: str
    agents: tuple[FrontPoint, ...]
    line: tuple[FrontPoint, ...]


def scores_of(env: str) -> Scores | None:
    """The table of an environment, by id or short name. Raises UnknownNameError."""
    return Scores.read(FOLDER / f"{get_spec(env).name}_scores.json")


def curve_of(env: str, task: str) -> Curve | None:
    """The learning curve of a task. Raises UnknownNameError for the environment."""
    return Curve.read(FOLDER / f"{get_spec(env).name}_{task}_curve.json")


def front_of(env: str, task: str) -> Front | None:
    """The trade-off of a task. Raises UnknownNameError for the environment."""
    return Front.read(FOLDER / f"{get_spec(env).name}_{task}_front.json")
