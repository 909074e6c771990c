"""Plays agents and writes down what the page draws."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from pydantic import BaseModel

from agents.llm.task_text import find_task
from agents.registry import get_agent
from env.protocols import Episode, Grader, GradeResult, report_of
from inferencegym.registry import EnvSpec
from server.dashboard.drawing import chart_of, tile_of
from server.dashboard.scene import Outcome, Scene, Span, stretches
from server.dashboard.views.view import Panel, Signal, View, view_of
from server.sessions.episodes import StepResult, log_entry, take_step

__all__ = ["Recording", "Side", "record", "scene_of"]

REPORT_EVERY_S = 0.5
"""A slow agent's run is shown as it comes, this often."""


class Side:
    """An episode that is played and written down, step by step.

    Args:
        spec: the environment.
        task_id: id or alias of the task.
        seed: of the episode.
        agent: name of who plays.

    Raises:
        UnknownNameError: no such task.
    """

    def __init__(self, spec: EnvSpec, task_id: str, seed: int, agent: str) -> None:
        self.spec, self.task, self.seed, self.agent = spec, find_task(spec, task_id), seed, agent
        self.episode: Episode = spec.part("make_env")(self.task.id, seed)
        self.observation: BaseModel = self.episode.reset()
        self.steps: list[StepResult] = []
        self._log: list[dict[str, Any]] = []

    @property
    def done(self) -> bool:
        """The episode is over."""
        return self.episode.done

    def take(self, action: BaseModel) -> None:
        """One step. What the environment refuses changes nothing."""
        result = take_step(self.episode, action)
        self.observation = result.observation
        self._log.append(log_entry(action, result))
        self.steps.append(result)

    def grade(self) -> GradeResult:
        """The grade of the steps so far."""
        grader: Grader = self.spec.part("grader")
        return grader.grade_log(self.task.id, self._log)

    def outcome(self, side: int) -> Outcome:
        """The grade as the page shows it."""
        grade = self.grade()
        return Outcome(side, self.agent, grade.score, grade.parts, grade.feedback, self.note)

    @property
    def note(self) -> str:
        """What a reader of the score must know of who played."""
        return ""


class Recording(Side):
    """An agent's episode.

    Raises:
        UnknownNameError: no such task or agent.
        InferenceGymError: the agent lacks something, for example a key or trained parameters.
    """

    def __init__(self, spec: EnvSpec, task_id: str, seed: int, agent: str) -> None:
        self._player = get_agent(spec.id, agent, task_id, seed)
        super().__init__(spec, task_id, seed, agent)
        self._player.reset()

    def advance(self) -> None:
        """One step."""
        self.take(self._player.act(self.observation))

    @property
    def note(self) -> str:
        """What the agent reports."""
        return report_of(self._player).note


def record(spec: EnvSpec, task_id: str, seed: int, agents: Sequence[str]) -> Iterator[Scene]:
    """Let one agent or two play the same task and seed; yields the run so far now and then, then the whole.

    Raises as :class:`Recording`, before anything is played.
    """
    sides = [Recording(spec, task_id, seed, agent) for agent in agents]
    run = uuid4().hex
    shown_s = time.monotonic()
    while not all(side.done for side in sides):
        for side in sides:
            if not side.done:
                side.advance()
        if time.monotonic() - shown_s > REPORT_EVERY_S:
            yield scene_of(spec, sides, seed, run)
            shown_s = time.monotonic()
    yield scene_of(spec, sides, seed, run)


def scene_of(spec: EnvSpec, sides: Sequence[Side], seed: int, run: str) -> Scene:
    """What is drawn of the sides as far as they have come."""
    view, task = view_of(spec), sides[0].task
    panels = [panel.of(task.id) for panel in view.panels]
    names = [side.agent for side in sides]
    done = all(side.done for side in sides)
    columns = [_Columns(side.steps) for side in sides]
    first = sides[0].steps[0].info if sides[0].steps else {}
    return Scene(
        title=f"{spec.title} · {task.id} · seed {seed}",
        sides=names,
        step_title=view.step_title,
        steps=max(len(side.steps) for side in sides),
        length=max(len(side.steps) for side in sides) if done else task.episode_length,
        charts=[chart_of(panel, columns, names, _limits(panel, task.id, first)) for panel in panels],
        tiles=[tile_of(panel, columns) for panel in panels if panel.tile],
        spans=_spans(view, sides),
        outcomes=[side.outcome(number) for number, side in enumerate(sides)] if done else [],
        done=done,
        run=run,
    )


class _Columns:
    """Series of a side; a chart and a tile may ask for the same one."""

    def __init__(self, steps: Sequence[StepResult]) -> None:
        self._rows = [
            {"observation": step.observation.model_dump(), "reward": step.reward, "info": step.info}
            for step in steps
        ]
        self._known: dict[Signal, list[float | None]] = {}

    def values(self, signal: Signal) -> list[float | None]:
        if signal not in self._known:
            names = signal.path.split(".")
            self._known[signal] = signal.series(_number(row, names) for row in self._rows)
        return self._known[signal]


def _number(row: Mapping[str, Any], names: Sequence[str]) -> float | None:
    value: Any = row
    for name in names:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None


def _limits(panel: Panel, task_id: str, info: Mapping[str, Any]) -> Mapping[str, float]:
    return panel.limits(task_id, info) if panel.limits and info else {}


def _spans(view: View, sides: Sequence[Side]) -> list[Span]:
    """What happens to both sides once; what depends on how a side played, for each."""
    labels = [[view.span(step.info) for step in side.steps] for side in sides]
    if all(one == other for each in labels[1:] for one, other in zip(labels[0], each, strict=False)):
        return _runs(max(labels, key=len))
    return [
        replace(span, label=f"{span.label}, {side.agent}", side=number)
        for number, (side, own) in enumerate(zip(sides, labels, strict=True))
        for span in _runs(own)
    ]


def _runs(labels: Sequence[str]) -> list[Span]:
    return [Span(first + 0.5, last + 0.5, label) for first, last, label in stretches(labels)]
