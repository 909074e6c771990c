"""What every environment of the registry offers to the layers above (server, agents, gymnasium, CLI)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal, Protocol, runtime_checkable

from pydantic import BaseModel

from inferencegym.errors import InvalidValueError, UnknownNameError
from inferencegym.registry import TaskName

__all__ = [
    "Agent",
    "AgentReport",
    "Episode",
    "GradeResult",
    "Grader",
    "TaskInfo",
    "TaskName",
    "listed_tasks",
    "logged_step",
    "report_of",
    "task_named",
]


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task as GET /tasks lists it.

    ``aliases`` are further names that every door takes for ``id``; ``facts`` is what GET /tasks/{id} tells in
    addition, JSON-ready: a success line, an exact optimum. A task that is not ``listed`` can be played as any
    other; lists show it, and comparisons play it, when they are asked for all or for it.
    """

    id: str
    name: str
    difficulty: Literal["easy", "medium", "hard"]
    description: str
    active_actions: tuple[str, ...]
    episode_length: int
    aliases: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    listed: bool = True
    baseline_range: tuple[float, float] | None = None
    """Where the task was designed to leave the baseline agent's score; None where that was left open."""


def listed_tasks(tasks: Mapping[str, TaskInfo]) -> dict[str, TaskInfo]:
    """The tasks that lists show without being asked for all."""
    return {name: task for name, task in tasks.items() if task.listed}


def task_named(tasks: Mapping[str, TaskInfo], name: TaskName) -> TaskInfo:
    """A task by id or alias: in any case, with or without dashes, underscores and spaces; a number stands for
    its digits.

    Raises:
        InvalidValueError: neither text nor a whole number.
        UnknownNameError: no task is called so; the ids of near matches among ids and aliases.
    """
    text = _as_text(name)
    if text in tasks:
        return tasks[text]
    spellings = {_folded(alias): task for task in tasks.values() for alias in task.aliases}
    # An id goes before an alias that is spelt like it.
    spellings |= {_folded(task_id): task for task_id, task in tasks.items()}
    try:
        return spellings[_folded(text)]
    except KeyError:
        aliases = {alias: task.id for task in tasks.values() for alias in task.aliases}
        raise UnknownNameError("task_id", text, tasks, aliases) from None


def _as_text(name: object) -> str:
    if isinstance(name, str):
        return name
    if isinstance(name, bool) or not isinstance(name, Integral):
        raise InvalidValueError("task_id", name, "a task's id or alias as text, or its number")
    return str(int(name)) if abs(int(name)) <= _NUMBER_MAX else "a number beyond all tasks"


_NUMBER_MAX = 10**18
"""Python refuses to write out whole numbers of thousands of digits."""


_SEPARATOR = re.compile("(?<=[a-z0-9])[-_ ](?=[a-z0-9])")


def _folded(name: str) -> str:
    return _SEPARATOR.sub("", name.lower())


@runtime_checkable
class Episode(Protocol):
    """One seeded episode. Not thread-safe: its owner serialises calls."""

    task: TaskInfo

    @property
    def done(self) -> bool: ...

    def reset(self, seed: int | None = None) -> BaseModel:
        """Start over (``None`` keeps the current seed) and return the first observation."""
        ...

    def step(self, action: Any) -> tuple[BaseModel, float, bool, dict[str, Any]]:
        """Advance one step with an already validated action model.

        ``info`` is JSON-ready and holds at least ``timestep``, ``metrics``, ``workload``,
        ``masked_actions`` and ``reward_terms`` (named, signed parts that sum to the reward). What else a
        grade depends on, ``settings`` holds.

        Raises:
            EpisodeDoneError: the episode is over; nothing was changed.
        """
        ...

    def state(self) -> dict[str, Any]:
        """Episode metadata: the fields of the spec's ``state_model``."""
        ...

    def snapshot(self) -> Any:
        """An opaque copy of the whole state, safe to keep while the episode goes on."""
        ...

    def restore(self, snapshot: Any) -> None:
        """Go back to a snapshot of this episode; the future is then byte-identical."""
        ...


def logged_step(action: BaseModel, reward: float, done: bool, info: Mapping[str, Any]) -> dict[str, Any]:
    """A step as graders take it, with what else ``info`` tells them: ``settings``."""
    entry = {
        # The action as the environment took it, if it says so: without masked fields.
        "action": info.get("action") or action.model_dump(mode="json"),
        "reward": reward,
        "done": done,
        "metrics": info["metrics"],
    }
    return {**entry, "settings": info["settings"]} if "settings" in info else entry


@dataclass(frozen=True, slots=True)
class GradeResult:
    """A grade. ``score`` and every value of ``breakdown`` lie in [0, 1].

    ``figures`` is what the episode amounted to in units, for example ``co2_g``; comparisons show a column
    for each.
    """

    score: float
    breakdown: dict[str, float]
    feedback: str
    verified: bool
    steps: int
    figures: dict[str, float] = field(default_factory=dict[str, float])
    ended: bool = False
    """The episode ended before its length, by what happened in it."""
    passed: bool | None = None
    """Whether the episode passed its task's lines; None where there are none."""
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further names in ``breakdown`` and the part that each stands for."""

    @property
    def parts(self) -> dict[str, float]:
        """``breakdown``, each part once."""
        return {name: value for name, value in self.breakdown.items() if name not in self.aliases}


class Grader(Protocol):
    """Deterministic and stateless."""

    def grade_log(
        self, task_id: TaskName, log: Sequence[Mapping[str, Any]], *, verified: bool = False
    ) -> GradeResult:
        """Grade /step replies (or their action, reward, metrics).

        ``verified`` is passed as True only by a server grading its own record.
        Raises InvalidValueError naming the entry and field of a malformed log.
        """
        ...

    def grade_replay(
        self,
        task_id: TaskName,
        seed: int,
        actions: Sequence[Mapping[str, Any]],
        config: Mapping[str, Any] | None = None,
    ) -> GradeResult:
        """Run the episode again from (task, seed, actions) and grade what happened (verified)."""
        ...


class Agent(Protocol):
    """A policy. One instance plays one episode at a time; ``reset`` starts the next."""

    def reset(self) -> None: ...

    def act(self, observation: Any) -> Any:
        """Map an observation model to an action model."""
        ...


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What an agent tells about the episode it has just played.

    ``figures`` are numbers by name; comparisons show a column for each. ``note`` is what a reader of the
    score must know, for example that something else played in the agent's place; empty without such.
    """

    figures: dict[str, float] = field(default_factory=dict[str, float])
    note: str = ""


def report_of(agent: object) -> AgentReport:
    """What the agent's method ``report`` tells; an agent need not have one."""
    report = getattr(agent, "report", None)
    return AgentReport() if report is None else report()
