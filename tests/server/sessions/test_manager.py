"""The session store: warm and cold ones, places, shares, idle timeout, tombstones, threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest

from inferencegym.errors import EpisodeDoneError, InferenceGymError, SessionNotFoundError
from inferencegym.registry import all_specs, get_spec
from server.api.errors import ClientShareError, EpisodeChangedError, ServerFullError
from server.api.raw import json_response
from server.bound import BoundEnv, reply_parts
from server.sessions.episodes import EpisodeStart, Session
from server.sessions.manager import PLACE_BYTES, TOMBSTONES, Places, SessionManager
from tests.server.toy_env import SPEC as TOY
from tests.server.toy_env import Push

TOY_BOUND = BoundEnv(TOY)
START = EpisodeStart(TOY.id, "calm", 1, "label", None)
STRANGER = "203.0.113.7"


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def keeping(warm: int, **places: Any) -> SessionManager:
    return SessionManager(Places(warm, **places))


def new(manager: SessionManager, client: str = "local", start: EpisodeStart = START) -> Session:
    return manager.create(start, TOY_BOUND.begin(start)[0], TOY_BOUND, client)


def get(manager: SessionManager, session: Session) -> Session:
    return manager.get(session.id, START.env_id)


def finish(session: Session) -> None:
    while not session.finished:
        session.step(Push())


def test_the_least_recently_used_session_goes_cold_and_comes_back():
    manager = keeping(2)
    one, two = new(manager), new(manager)
    get(manager, one)
    three = new(manager)
    assert [session.is_cold for session in (one, two, three)] == [False, True, False]
    get(manager, two).step(Push())
    assert [session.is_cold for session in (one, two, three)] == [True, False, False]
    assert (len(manager), manager.warm_count, manager.created) == (3, 2, 3)


def test_finished_sessions_go_cold_first():
    manager = keeping(2)
    first, finished = new(manager), new(manager)
    finish(finished)
    get(manager, finished)
    new(manager)
    assert (first.is_cold, finished.is_cold) == (False, True)


def test_a_session_in_use_is_not_cooled():
    manager = keeping(1)
    busy = new(manager)
    with busy.lock:
        new(manager)
    assert not busy.is_cold


@pytest.mark.parametrize("env", [spec.name for spec in all_specs()])
def test_a_session_that_was_cold_goes_on_with_the_same_bytes(env: str):
    bound = BoundEnv(get_spec(env))
    for task in bound.tasks:
        start = EpisodeStart(bound.spec.id, task, 5, "label", None)
        action = bound.action_model()

        def played(coldly: bool, start: EpisodeStart = start, action: Any = action) -> list[Any]:
            manager = keeping(50)
            session = manager.create(start, bound.begin(start)[0], bound)
            seen: list[Any] = []
            while not session.finished and session.steps < 40:
                if coldly and session.steps % 7 == 3:
                    assert session.cool()
                    assert session.is_cold
                seen.append(bytes(json_response(reply_parts(session.step(action))).body))
            state = {**session.state(), "session_id": ""}
            if coldly:
                session.cool()
            return [*seen, orjson.dumps(state), orjson.dumps(session.log_copy())]

        assert played(coldly=True) == played(coldly=False), task


def test_an_environment_whose_snapshots_cannot_be_written_is_played_again(monkeypatch: pytest.MonkeyPatch):
    manager = keeping(50)
    session, other = new(manager), new(manager)
    monkeypatch.setattr(type(TOY_BOUND.begin(START)[0]), "snapshot", lambda _self: lambda: None)
    for _ in range(5):
        session.cool()
        assert session.step(Push(force=0.5)) == other.step(Push(force=0.5))


def test_a_session_that_cannot_be_brought_back_says_so_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch):
    manager = keeping(50)
    session = new(manager)
    session.step(Push())
    session.cool()

    def gone(_start: EpisodeStart) -> Any:
        raise InferenceGymError("the pack is gone")

    with monkeypatch.context() as patch:
        patch.setattr(TOY_BOUND, "begin", gone)
        with pytest.raises(EpisodeChangedError, match="cannot go on"):
            session.step(Push())
    session.step(Push())
    assert session.steps == 2


def test_nobody_loses_an_unfinished_episode_when_all_places_are_taken():
    manager = keeping(1, kept=3)
    kept = [new(manager) for _ in range(3)]
    with pytest.raises(ServerFullError, match="All 3 places") as refused:
        new(manager)
    assert refused.value.retry_after_s >= 1
    finish(kept[1])
    new(manager)
    for session in (kept[0], kept[2]):
        assert get(manager, session) is session
    with pytest.raises(SessionNotFoundError, match="it was finished, and its place was needed"):
        get(manager, kept[1])


def test_a_client_has_its_share_and_no_more():
    manager = keeping(1, kept=8, client_share=0.25)
    mine = [new(manager, STRANGER) for _ in range(2)]
    with pytest.raises(ClientShareError, match="2 unfinished episodes"):
        new(manager, STRANGER)
    new(manager, "198.51.100.1")
    finish(mine[0])
    new(manager, STRANGER)
    with pytest.raises(SessionNotFoundError):
        get(manager, mine[0])
    manager.delete(mine[1].id, START.env_id)
    new(manager, STRANGER)


def test_programs_on_this_machine_may_take_every_place():
    manager = keeping(1, kept=4, client_share=0.25)
    for _ in range(4):
        new(manager, "127.0.0.1")
    strict = keeping(1, kept=4, client_share=0.25, limit_loopback=True)
    new(strict, "127.0.0.1")
    with pytest.raises(ClientShareError):
        new(strict, "127.0.0.1")


def test_what_a_config_holds_takes_places_of_its_own():
    manager = keeping(1, kept=8, client_share=0.5)
    heavy = EpisodeStart(TOY.id, "calm", 1, "label", {"text": "x" * 2 * PLACE_BYTES})
    manager.create(heavy, TOY_BOUND.begin(START)[0], TOY_BOUND, STRANGER)
    assert manager.places_taken == 3
    with pytest.raises(ClientShareError):
        manager.create(heavy, TOY_BOUND.begin(START)[0], TOY_BOUND, STRANGER)


def test_a_deleted_session_frees_its_place_at_once():
    manager = keeping(1, kept=1)
    session = new(manager)
    manager.delete(session.id, START.env_id)
    with pytest.raises(SessionNotFoundError, match="was deleted"):
        get(manager, session)
    with pytest.raises(SessionNotFoundError, match="was deleted"):
        manager.delete(session.id, START.env_id)
    new(manager)
    assert (manager.places_taken, manager.warm_count, manager.ended["deleted"]) == (1, 1, 1)


def test_a_held_session_has_no_name_and_ends_with_its_connection():
    clock = Clock()
    manager = SessionManager(Places(1, kept=2), idle_timeout_s=60, clock=clock)
    held = manager.create(START, TOY_BOUND.begin(START)[0], TOY_BOUND, held=True)
    with pytest.raises(SessionNotFoundError, match="unknown"):
        get(manager, held)
    clock.now_s += 1000
    new(manager)
    assert held.is_cold
    held.step(Push())
    assert (len(manager), manager.places_taken) == (1, 2)
    manager.drop(held)
    manager.drop(held)
    assert manager.places_taken == 1


def test_an_id_that_never_was_is_unknown():
    with pytest.raises(SessionNotFoundError, match="unknown"):
        keeping(2).get("nope", START.env_id)


def test_an_idle_session_ends_and_a_used_one_does_not():
    clock = Clock()
    manager = SessionManager(Places(10), idle_timeout_s=60.0, clock=clock)
    used, idle = new(manager), new(manager)
    clock.now_s += 40
    get(manager, used)
    clock.now_s += 40
    assert len(manager) == 1
    assert get(manager, used) is used
    with pytest.raises(SessionNotFoundError, match="60 s without a call"):
        get(manager, idle)


def test_tombstones_are_bounded():
    manager = keeping(1)
    first = new(manager)
    manager.delete(first.id, START.env_id)
    for _ in range(TOMBSTONES):
        manager.delete(new(manager).id, START.env_id)
    with pytest.raises(SessionNotFoundError, match="unknown"):
        get(manager, first)


def test_threads_lose_no_step_and_no_session():
    manager = keeping(3)
    shared = new(manager)

    def work(_index: int) -> str:
        get(manager, shared).step(Push(force=0.1))
        return new(manager).id

    with ThreadPoolExecutor(16) as pool:
        ids = list(pool.map(work, range(20)))
    assert len(set(ids)) == 20
    assert shared.state()["step_count"] == shared.steps == len(shared.log_copy()) == 20
    with pytest.raises(EpisodeDoneError):
        shared.step(Push())
    assert len(shared.log_copy()) == 20
    assert manager.warm_count <= 3 + 16


def test_a_step_does_not_wait_for_another_session():
    manager = keeping(2)
    held, free = new(manager), new(manager)
    with held.lock:
        thread = threading.Thread(target=free.step, args=(Push(),))
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
    assert len(free.log_copy()) == 1
