"""Episodes that REST clients play: a thread-safe LRU store with one lock per session."""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import BaseModel

from env.protocols import Episode, logged_step
from inferencegym.errors import SessionNotFoundError

__all__ = ["EpisodeStart", "Session", "SessionManager", "StepResult", "log_entry", "take_step"]

TOMBSTONES_PER_SESSION = 40
"""Ended sessions remembered per allowed session, so that their clients learn why they are gone."""


@dataclass(frozen=True, slots=True)
class EpisodeStart:
    """What an episode was started from; with the actions it reproduces the episode."""

    env_id: str
    task_id: str
    seed: int
    episode_id: str
    config: dict[str, Any] | None


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


@dataclass(slots=True)
class Session:
    """One episode of a REST client. Hold ``lock`` for every use of ``episode`` and ``log``."""

    id: str
    start: EpisodeStart
    episode: Episode
    last_used_s: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    log: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """One entry a step: action, reward, done and metrics, as POST /grader takes them."""

    def step(self, action: BaseModel) -> StepResult:
        """Advance the episode and write the step down."""
        with self.lock:
            result = take_step(self.episode, action)
            self.log.append(log_entry(action, result))
        return result

    def state(self) -> dict[str, Any]:
        """The episode's metadata under this session's own ids."""
        with self.lock:
            state = self.episode.state()
        return {**state, "session_id": self.id, "episode_id": self.start.episode_id}

    def log_copy(self) -> list[dict[str, Any]]:
        """The log so far; entries are never changed after they were written."""
        with self.lock:
            return list(self.log)


class SessionManager:
    """Keeps the most recently used sessions.

    Args:
        max_sessions: sessions kept; one more evicts the least recently used.
        idle_timeout_s: seconds without a call after which a session ends; 0 never ends one.
        clock: monotonic seconds, replaced in tests.

    Sessions that ended leave a tombstone, so that a later call learns that the id was once good.
    """

    def __init__(
        self, max_sessions: int, idle_timeout_s: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_sessions = max_sessions
        self._idle_timeout_s = idle_timeout_s
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._tombstones: OrderedDict[str, str] = OrderedDict()
        self.created = 0
        self.ended = {"evicted": 0, "idle": 0}

    def __len__(self) -> int:
        with self._lock:
            self._end_idle()
            return len(self._sessions)

    def create(self, start: EpisodeStart, episode: Episode) -> Session:
        """Keep a new episode; evicts the least recently used one when the store is full."""
        with self._lock:
            self._end_idle()
            session = Session(uuid.uuid4().hex, start, episode, self._clock())
            self._sessions[session.id] = session
            self.created += 1
            while len(self._sessions) > self._max_sessions:
                self._end(next(iter(self._sessions)), "evicted")
        return session

    def get(self, session_id: str, env_id: str) -> Session:
        """The session, which becomes the most recently used one.

        Raises:
            SessionNotFoundError: unknown, ended, or of another environment; the message says which.
        """
        with self._lock:
            self._end_idle()
            session = self._sessions.get(session_id)
            if session is None:
                raise self._not_found(session_id)
            if session.start.env_id != env_id:
                raise SessionNotFoundError(
                    f"session_id: this session belongs to {session.start.env_id}, not to {env_id}.",
                    "Call the endpoints of the environment that started it.",
                )
            self._sessions.move_to_end(session_id)
            session.last_used_s = self._clock()
        return session

    def _end_idle(self) -> None:
        if not self._idle_timeout_s:
            return
        oldest_allowed = self._clock() - self._idle_timeout_s
        # The order of use is the order of last_used_s: only the front can be too old.
        while self._sessions:
            first = next(iter(self._sessions.values()))
            if first.last_used_s >= oldest_allowed:
                return
            self._end(first.id, "idle")

    def _end(self, session_id: str, reason: str) -> None:
        del self._sessions[session_id]
        self.ended[reason] += 1
        self._tombstones[session_id] = reason
        while len(self._tombstones) > TOMBSTONES_PER_SESSION * self._max_sessions:
            self._tombstones.popitem(last=False)

    def _not_found(self, session_id: str) -> SessionNotFoundError:
        again = "Start a new episode with POST /reset"
        reason = self._tombstones.get(session_id)
        if reason == "evicted":
            return SessionNotFoundError(
                f"session_id: {session_id[:80]!r} was evicted: the server keeps the {self._max_sessions} "
                "most recently used sessions.",
                f"{again}; the same task, seed and actions give the same episode.",
            )
        if reason == "idle":
            return SessionNotFoundError(
                f"session_id: {session_id[:80]!r} was evicted after {self._idle_timeout_s:g} s without a "
                "call.",
                f"{again}; the same task, seed and actions give the same episode.",
            )
        return SessionNotFoundError(
            f"session_id: {session_id[:80]!r} is unknown.", f"{again} and use the session_id of its reply."
        )
