"""One episode under one interface, whether it runs in this process or on a server."""

from __future__ import annotations

from typing import Any, Protocol

from pydantic import BaseModel

from env.protocols import Episode, Grader, TaskName
from inferencegym.client import InferenceGymClient
from inferencegym.registry import EnvSpec

__all__ = ["LocalPlayer", "Player", "RemotePlayer", "start_player"]


class Player(Protocol):
    """A started episode."""

    observation: BaseModel
    """The newest one."""
    done: bool

    def step(self, action: BaseModel) -> float:
        """Take a step and return its reward."""
        ...

    def grade(self) -> tuple[float, dict[str, float]]:
        """Score and breakdown of the steps so far, of which there must be one."""
        ...


class LocalPlayer:
    """An episode in this process, graded by replaying its actions."""

    def __init__(self, spec: EnvSpec, task_id: TaskName, seed: int) -> None:
        self._grader: Grader = spec.part("grader")
        self._start = (task_id, seed)
        self._episode: Episode = spec.part("make_env")(task_id, seed)
        self._actions: list[dict[str, Any]] = []
        self.observation = self._episode.reset()
        self.done = False

    def step(self, action: BaseModel) -> float:
        """See :class:`Player`."""
        self.observation, reward, self.done, _ = self._episode.step(action)
        self._actions.append(action.model_dump(mode="json"))
        return reward

    def grade(self) -> tuple[float, dict[str, float]]:
        """See :class:`Player`."""
        grade = self._grader.grade_replay(*self._start, self._actions)
        return grade.score, grade.breakdown


class RemotePlayer:
    """An episode on a server, graded from the server's own record."""

    def __init__(self, client: InferenceGymClient[Any], task_id: TaskName, seed: int) -> None:
        self._session = client.reset(task_id, seed)
        self.observation: BaseModel = self._session.observation
        self.done = False

    def step(self, action: BaseModel) -> float:
        """See :class:`Player`."""
        result = self._session.step(action.model_dump(mode="json"))
        self.observation, self.done = result.observation, result.done
        return result.reward

    def grade(self) -> tuple[float, dict[str, float]]:
        """See :class:`Player`."""
        grade = self._session.grade()
        return grade.score, grade.breakdown


def start_player(
    spec: EnvSpec, task_id: TaskName, seed: int, client: InferenceGymClient[Any] | None = None
) -> Player:
    """Start an episode on the client's server, or without a client in this process.

    Raises:
        UnknownNameError: no such task.
        InvalidValueError: a seed outside what is allowed.
        ServerUnavailableError: no server answered in time.
    """
    return LocalPlayer(spec, task_id, seed) if client is None else RemotePlayer(client, task_id, seed)
