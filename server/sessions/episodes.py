"""An episode that a server keeps: warm, ready to step; or cold, as what brings it back byte for byte."""

from __future__ import annotations

import math
import pickle
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import orjson
from pydantic import BaseModel

from env.protocols import Episode, TaskInfo, logged_step
from inferencegym.errors import InferenceGymError
from server.api.errors import EpisodeChangedError

__all__ = ["EpisodeSource", "EpisodeStart", "Session", "StepResult", "log_entry", "take_step"]


@dataclass(frozen=True, slots=True)
class EpisodeStart:
    """What an episode was started from; with the actions it reproduces the episode."""

    env_id: str
    task_id: str
    seed: int
    episode_id: str
    config: dict[str, Any] | None


class EpisodeSource(Protocol):
    """Where an episode comes from, and comes from again; see :class:`server.bound.BoundEnv`."""

    action_model: type[BaseModel]

    def begin(self, start: EpisodeStart) -> tuple[Episode, BaseModel]:
        """A new episode and its first observation."""
        ...


class StepResult(NamedTuple):
    """One step as every transport reports it."""

    observation: BaseModel
    reward: float
    done: bool
    terminated: bool
    info: dict[str, Any]

    @property
    def truncated(self) -> bool:
        """The episode ended because its length was reached."""
        return self.done and not self.terminated


def take_step(episode: Episode, action: BaseModel) -> StepResult:
    """Advance an episode, for REST and WebSocket alike.

    An environment that can end before its length says so by ``info["terminated"]``; without it every end
    is a truncation.

    Raises:
        EpisodeDoneError: the episode is over; nothing was changed.
    """
    observation, reward, done, info = episode.step(action)
    if not math.isfinite(reward):
        raise ArithmeticError(f"the environment gave the reward {reward}")
    return StepResult(observation, reward, done, bool(info.get("terminated", False)), info)


def log_entry(action: BaseModel, result: StepResult) -> dict[str, Any]:
    """A step as POST /grader takes it."""
    return logged_step(action, result.reward, result.done, result.info)


def _ignore(_session: Session) -> None:
    """Nobody wants to know that a session became warm."""


class Session:
    """One episode of one client. Thread-safe: calls of one session wait for each other.

    Args:
        id: the session's name.
        start: what it was started from.
        episode: as ``source`` began it.
        source: begins it anew when it was cold.
        client: address of who plays it.
        on_warm: called when a call has made a cold session warm, with the session's lock held.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 (what the API calls it)
        start: EpisodeStart,
        episode: Episode,
        source: EpisodeSource,
        client: str,
        on_warm: Callable[[Session], None] = _ignore,
    ) -> None:
        self.id, self.start, self.client = id, start, client
        self.task: TaskInfo = episode.task
        self.last_used_s = 0.0
        self.places = 1
        """Of those that a server has, see :class:`server.sessions.manager.Places`."""
        self.lock = threading.Lock()
        self.finished = episode.done
        self._source, self._on_warm = source, on_warm
        self._episode: Episode | None = episode
        self._frozen: bytes | None = None
        self._actions: list[BaseModel] = []
        """Since the session was last warm; those before are in ``_past``."""
        self._past = bytearray()
        """Actions as JSON, one a line."""
        self._log: list[dict[str, Any]] | None = []
        """One entry a step; None once it has been cold: then it is played again when it is asked for."""
        self.steps = 0

    @property
    def is_cold(self) -> bool:
        """Whether the next call has to bring the episode back first, which takes milliseconds."""
        return self._episode is None

    def step(self, action: BaseModel) -> StepResult:
        """Advance the episode and write the step down. Raises EpisodeDoneError; nothing is changed then."""
        with self.lock:
            result = take_step(self._warm(), action)
            self._actions.append(action)
            self.steps += 1
            self.finished = result.done
            if self._log is not None:
                self._log.append(log_entry(action, result))
        return result

    def state(self) -> dict[str, Any]:
        """The episode's metadata under this session's own ids."""
        with self.lock:
            state = self._warm().state()
        return {**state, "session_id": self.id, "episode_id": self.start.episode_id}

    def log_copy(self) -> list[dict[str, Any]]:
        """The log so far, one entry a step, as POST /grader takes it: action, reward, done and metrics.

        Entries are never changed after they were written.
        """
        with self.lock:
            if self._log is not None:
                return list(self._log)
            actions = list(self._all_actions())
        # A session that has been cold: the same actions give the same entries. Its own episode goes on.
        episode = self._begin()
        return [log_entry(action, take_step(episode, action)) for action in actions]

    def warm(self) -> None:
        """Bring the episode back if it is cold."""
        with self.lock:
            self._warm()

    def cool(self) -> bool:
        """Keep only what brings the episode back. False when somebody is using it, and nothing is changed."""
        if not self.lock.acquire(blocking=False):
            return False
        try:
            if self._episode is not None:
                self._frozen = _frozen(self._episode)
                for action in self._actions:
                    self._past += orjson.dumps(action.model_dump(mode="json")) + b"\n"
                self._episode, self._actions, self._log = None, [], None
        finally:
            self.lock.release()
        return True

    def _warm(self) -> Episode:
        if self._episode is None:
            self._episode = self._restored()
            self._frozen = None
            self._on_warm(self)
        return self._episode

    def _restored(self) -> Episode:
        episode = self._begin()
        try:
            if self._frozen is not None:
                episode.restore(pickle.loads(zlib.decompress(self._frozen)))  # noqa: S301 (our own bytes)
            else:
                for action in self._all_actions():
                    episode.step(action)
        except InferenceGymError:
            raise EpisodeChangedError(self.id) from None
        return episode

    def _begin(self) -> Episode:
        try:
            return self._source.begin(self.start)[0]
        except InferenceGymError:  # what it was started with, a trace pack say, is not there any more
            raise EpisodeChangedError(self.id) from None

    def _all_actions(self) -> Iterator[BaseModel]:
        for line in self._past.splitlines():
            yield self._source.action_model.model_validate_json(line)
        yield from list(self._actions)


def _frozen(episode: Episode) -> bytes | None:
    """A snapshot as bytes; None for an environment whose snapshots cannot be written, which is replayed."""
    try:
        return zlib.compress(pickle.dumps(episode.snapshot(), pickle.HIGHEST_PROTOCOL), level=1)
    except (pickle.PicklingError, TypeError, AttributeError):
        return None
