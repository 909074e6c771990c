"""All episodes that a server keeps: the most recently used ones warm, the others cold, nobody's lost.

A session that others push out of the warm ones is brought back by its next call. It ends by DELETE, by its
idle time, or, when every place is taken, if it is finished: then the oldest finished one makes room.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from env.protocols import Episode
from inferencegym.errors import SessionNotFoundError
from server.api.errors import ClientShareError, ServerFullError
from server.guard.clients import LOCAL, is_limited, share_of
from server.sessions.episodes import EpisodeSource, EpisodeStart, Session

__all__ = ["Places", "SessionManager"]

TOMBSTONES = 4000
"""Ended sessions remembered, so that their clients learn why they are gone."""

PLACE_BYTES = 64 * 1024
"""What a cold session may take of memory for one place. A snapshot takes 1–23 kB, 200 actions 10–20 kB;
traffic that a client sent in its config takes places of its own."""

MAX_RETRY_S = 60
"""Longest Retry-After of a server that is full, seconds."""


@dataclass(frozen=True, slots=True)
class Places:
    """How many sessions are kept."""

    warm: int
    """Sessions ready to step at once."""
    kept: int = 4000
    """Warm and cold ones together."""
    client_share: float = 1.0
    """Of ``kept``, what one address may take; programs on this machine may take all."""
    limit_loopback: bool = False

    def of(self, client: str) -> int:
        """Places that a client may take."""
        limited = is_limited(client, self.limit_loopback)
        return share_of(self.kept, self.client_share) if limited else self.kept


class SessionManager:
    """Keeps sessions, thread-safe.

    Args:
        places: how many.
        idle_timeout_s: seconds without a call after which a session ends; 0 never ends one.
        clock: monotonic seconds, replaced in tests.
    """

    def __init__(
        self, places: Places, idle_timeout_s: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._places = places
        self._idle_timeout_s = idle_timeout_s
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        """Named by their clients, in order of use."""
        self._held: dict[str, Session] = {}
        """Of connections, which end them themselves."""
        self._warm: OrderedDict[str, Session] = OrderedDict()
        """In order of use."""
        self._taken: Counter[str] = Counter()
        """Places by client."""
        self._tombstones: OrderedDict[str, str] = OrderedDict()
        self.created = 0
        self.ended = {"evicted": 0, "idle": 0, "deleted": 0}

    def __len__(self) -> int:
        with self._lock:
            self._end_idle()
            return len(self._sessions)

    @property
    def warm_count(self) -> int:
        """Sessions whose next step needs nothing brought back."""
        return len(self._warm)

    @property
    def places_taken(self) -> int:
        """Places taken of ``Places.kept``."""
        return self._taken.total()

    def create(
        self,
        start: EpisodeStart,
        episode: Episode,
        source: EpisodeSource,
        client: str = LOCAL,
        *,
        held: bool = False,
    ) -> Session:
        """Keep a new episode.

        Args:
            start: what it was started from.
            episode: the episode.
            source: begins it anew when it has been cold.
            client: address of who plays it.
            held: it belongs to a connection: no client names it, and only :meth:`drop` ends it.

        Raises:
            ClientShareError: the client's share is taken by unfinished episodes.
            ServerFullError: all places are taken by unfinished episodes.
        """
        session = Session(uuid.uuid4().hex, start, episode, source, client, self._now_warm)
        session.places = places = _places(start)
        with self._lock:
            self._end_idle()
            self._make_room(client, places)
            self._taken[client] += places
            session.last_used_s = self._clock()
            if held:
                self._held[session.id] = session
            else:
                self._sessions[session.id] = session
                self.created += 1
        self._now_warm(session)
        return session

    def get(self, session_id: str, env_id: str) -> Session:
        """The session, which becomes the most recently used one.

        Raises:
            SessionNotFoundError: unknown, ended, or of another environment; the message says which.
        """
        with self._lock:
            self._end_idle()
            session = self._of(session_id, env_id)
            self._sessions.move_to_end(session_id)
            session.last_used_s = self._clock()
            if session_id in self._warm:
                self._warm.move_to_end(session_id)
        return session

    def touch(self, session: Session) -> None:
        """A held session is used: it becomes the most recently used of the warm ones."""
        with self._lock:
            if session.id in self._warm:
                self._warm.move_to_end(session.id)

    def delete(self, session_id: str, env_id: str) -> None:
        """End a session at its client's wish. Raises SessionNotFoundError as :meth:`get`."""
        with self._lock:
            self._end(self._of(session_id, env_id), "deleted")

    def drop(self, session: Session) -> None:
        """End a held session; no harm if it has ended."""
        with self._lock:
            if self._held.pop(session.id, None) is not None:
                self._release(session)

    # Parts; all but _now_warm are called with the lock held.

    def _of(self, session_id: str, env_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise self._not_found(session_id)
        if session.start.env_id != env_id:
            raise SessionNotFoundError(
                f"session_id: this session belongs to {session.start.env_id}, not to {env_id}.",
                "Call the endpoints of the environment that started it.",
            )
        return session

    def _now_warm(self, session: Session) -> None:
        """Count a session among the warm ones, and cool those that are too many.

        A session's own lock may be held here, so the other way round nobody waits for one (see ``cool``).
        """
        with self._lock:
            if session.id in self._sessions or session.id in self._held:
                self._warm[session.id] = session
            surplus = [self._coolest() for _ in range(len(self._warm) - self._places.warm)]
        for each in surplus:
            if not each.cool():  # in use at this moment: it stays warm
                with self._lock:
                    if each.id in self._sessions or each.id in self._held:
                        self._warm[each.id] = each

    def _coolest(self) -> Session:
        """Takes the session out that has to cool first: a finished one, else the least recently used."""
        found = next((each for each in self._warm.values() if each.finished), None)
        if found is None:
            return self._warm.popitem(last=False)[1]
        del self._warm[found.id]
        return found

    def _make_room(self, client: str, places: int) -> None:
        share = self._places.of(client)
        while share < self._places.kept and self._taken[client] + places > share:
            if not self._end_oldest_finished(client):
                raise ClientShareError(share, self._retry_after_s())
        while self._taken.total() + places > self._places.kept:
            if not self._end_oldest_finished(None):
                raise ServerFullError(self._places.kept, self._retry_after_s())

    def _end_oldest_finished(self, client: str | None) -> bool:
        """Of one client, or of all for None."""
        sessions = self._sessions.values()
        found = next((each for each in sessions if each.finished and client in (None, each.client)), None)
        if found is not None:
            self._end(found, "evicted")
        return found is not None

    def _retry_after_s(self) -> int:
        """Seconds until the next session may have ended by its idle time."""
        if not self._idle_timeout_s or not self._sessions:
            return MAX_RETRY_S
        oldest = next(iter(self._sessions.values())).last_used_s
        return max(1, min(MAX_RETRY_S, int(oldest + self._idle_timeout_s - self._clock())))

    def _end_idle(self) -> None:
        if not self._idle_timeout_s:
            return
        oldest_allowed = self._clock() - self._idle_timeout_s
        # The order of use is the order of last_used_s: only the front can be too old.
        while self._sessions:
            first = next(iter(self._sessions.values()))
            if first.last_used_s >= oldest_allowed:
                return
            self._end(first, "idle")

    def _end(self, session: Session, reason: str) -> None:
        del self._sessions[session.id]
        self._release(session)
        self.ended[reason] += 1
        self._tombstones[session.id] = reason
        while len(self._tombstones) > TOMBSTONES:
            self._tombstones.popitem(last=False)

    def _release(self, session: Session) -> None:
        self._warm.pop(session.id, None)
        self._taken[session.client] -= session.places
        if not self._taken[session.client]:
            del self._taken[session.client]

    def _not_found(self, session_id: str) -> SessionNotFoundError:
        why = {
            "evicted": "was evicted: it was finished, and its place was needed",
            "idle": f"was evicted after {self._idle_timeout_s:g} s without a call",
            "deleted": "was deleted",
        }.get(self._tombstones.get(session_id, ""))
        again = "Start a new episode with POST /reset"
        if why is None:
            return SessionNotFoundError(
                f"session_id: {session_id[:80]!r} is unknown.",
                f"{again} and use the session_id of its reply.",
            )
        return SessionNotFoundError(
            f"session_id: {session_id[:80]!r} {why}.",
            f"{again}; the same task, seed and actions give the same episode.",
        )


def _places(start: EpisodeStart) -> int:
    """Places that a session takes: one, and more for what its config holds."""
    return 1 + (len(orjson.dumps(start.config)) // PLACE_BYTES if start.config else 0)
