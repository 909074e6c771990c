"""Threads that share a loop."""

from __future__ import annotations

import threading

import pytest

from inferencegym.gym import team as module
from inferencegym.gym.team import Team, available_cores


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 15, 33, 64, 1000])
def test_ranges_cover_everything_once(size: int, count: int) -> None:
    team, seen, lock = Team(size), [0] * count, threading.Lock()

    def work(low: int, high: int) -> None:
        with lock:
            for index in range(low, high):
                seen[index] += 1

    for _ in range(3):
        team.spread(work, count)
    team.close()
    team.spread(work, count)
    assert seen == [4] * count


def test_large_loops_use_every_thread() -> None:
    team, names = Team(3), set()
    barrier = threading.Barrier(3, timeout=30)

    def work(low: int, high: int) -> None:
        barrier.wait()
        names.add(threading.current_thread().name)

    team.spread(work, 300)
    assert len(names) == 3
    team.close()


@pytest.mark.parametrize("where", [0, 150])
def test_a_failure_in_any_thread_reaches_the_caller_and_leaves_the_team_usable(where: int) -> None:
    team = Team(2)

    def fail(low: int, high: int) -> None:
        if low <= where < high:
            raise ValueError("broken")

    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            team.spread(fail, 200)
    team.spread(lambda low, high: None, 200)
    team.close()


def test_a_forked_process_works_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    team, calls = Team(2), []
    monkeypatch.setattr(module.os, "getpid", lambda: -1)
    team.spread(lambda low, high: calls.append((low, high)), 100)
    assert calls == [(0, 100)]
    team.close()


def test_there_is_at_least_one_core() -> None:
    assert available_cores() >= 1
