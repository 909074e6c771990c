"""The session store: LRU order, idle timeout, tombstones, threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from inferencegym.errors import EpisodeDoneError, SessionNotFoundError
from server.sessions import TOMBSTONES_PER_SESSION, EpisodeStart, Session, SessionManager
from tests.server.toy_env import Push, make_env

START = EpisodeStart("InferenceGym/Toy-v0", "calm", 1, "label", None)


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def new(manager: SessionManager) -> Session:
    return manager.create(START, make_env("calm", 1))


def get(manager: SessionManager, session: Session) -> Session:
    return manager.get(session.id, START.env_id)


def test_the_least_recently_used_session_goes_first() -> None:
    manager = SessionManager(2)
    one, two = new(manager), new(manager)
    get(manager, one)
    three = new(manager)
    assert get(manager, one) is one
    assert get(manager, three) is three
    with pytest.raises(SessionNotFoundError, match="evicted: the server keeps the 2"):
        get(manager, two)
    assert (len(manager), manager.created, manager.ended["evicted"]) == (2, 3, 1)


def test_an_id_that_never_was_is_unknown() -> None:
    with pytest.raises(SessionNotFoundError, match="unknown"):
        SessionManager(2).get("nope", START.env_id)


def test_an_idle_session_ends_and_a_used_one_does_not() -> None:
    clock = Clock()
    manager = SessionManager(10, idle_timeout_s=60.0, clock=clock)
    used, idle = new(manager), new(manager)
    clock.now_s += 40
    get(manager, used)
    clock.now_s += 40
    assert len(manager) == 1
    assert get(manager, used) is used
    with pytest.raises(SessionNotFoundError, match="60 s without a call"):
        get(manager, idle)


def test_tombstones_are_bounded() -> None:
    manager = SessionManager(1)
    first = new(manager)
    for _ in range(TOMBSTONES_PER_SESSION + 1):
        new(manager)
    with pytest.raises(SessionNotFoundError, match="unknown"):
        get(manager, first)


def test_threads_lose_no_step_and_no_session() -> None:
    manager = SessionManager(50)
    shared = new(manager)

    def work(_index: int) -> str:
        shared.step(Push(force=0.1))
        return new(manager).id

    with ThreadPoolExecutor(16) as pool:
        ids = list(pool.map(work, range(20)))
    assert len(set(ids)) == 20
    assert shared.state()["step_count"] == len(shared.log) == 20
    with pytest.raises(EpisodeDoneError):
        shared.step(Push())
    assert len(shared.log) == 20


def test_a_step_does_not_wait_for_another_session() -> None:
    manager = SessionManager(2)
    held, free = new(manager), new(manager)
    with held.lock:
        thread = threading.Thread(target=free.step, args=(Push(),))
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
    assert len(free.log) == 1
