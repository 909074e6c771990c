"""One client at full speed takes nothing from the others: budgets, shares, a bounded queue."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tests.server import toy_env
from tests.server.conftest import begin, client_of, error_of, make_app, play, serve, some_action

GREEDY, HONEST = "203.0.113.7", "198.51.100.2"


def at(app: FastAPI, address: str) -> httpx.AsyncClient:
    """A client with an address of its own."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app, client=(address, 1)), base_url="http://test", timeout=30
    )


def replay_of(steps: int) -> dict[str, Any]:
    return {"task_id": "calm", "seed": 1, "actions": [some_action("/toy", step) for step in range(steps)]}


@contextmanager
def held_gradings(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, list[int]]]:
    """Replays of the toy wait for the event; the list has an entry for each that has begun."""
    release, begun = threading.Event(), list[int]()
    original = toy_env.ToyGrader.grade_replay

    def held(self: Any, *arguments: Any, **options: Any) -> Any:
        begun.append(1)
        release.wait(30)
        return original(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(toy_env.ToyGrader, "grade_replay", held)
        try:
            yield release, begun
        finally:
            release.set()


async def until(condition: Any) -> None:
    for _ in range(3000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came")


async def test_what_is_computed_for_a_client_has_a_budget_and_steps_are_free_of_it() -> None:
    app = make_app(cost_limit="260/hour")
    async with at(app, GREEDY) as greedy, at(app, HONEST) as honest:
        session = await begin(greedy, "/toy")
        for _ in range(3):
            await begin(greedy, "/toy")
        assert (await greedy.post("/toy/grader", json=replay_of(10))).status_code == 200
        refused = await greedy.post("/toy/reset")
        assert refused.status_code == 429
        assert "260/hour" in error_of(refused)["message"]
        assert int(refused.headers["retry-after"]) >= 1
        for path in ("grader", "grader/replay", "grade"):
            assert (await greedy.post(f"/toy/{path}", json=replay_of(20))).status_code == 429
        assert len(await play(greedy, "/toy", session, 20)) == 20
        await begin(honest, "/toy")
        assert (await honest.get("/toy/info")).status_code == 200


async def test_reading_a_long_body_is_charged() -> None:
    app = make_app(cost_limit="1000/hour")
    async with at(app, GREEDY) as greedy:
        wrong = {"config": {"traffic": {"text": "x" * 90_000}}}
        assert (await greedy.post("/reset", json=wrong)).status_code == 422
        assert (await greedy.post("/reset", json=wrong)).status_code == 429
        log = {"task_id": "calm", "episode_log": [{"x": "y" * 90_000}]}
        assert (await greedy.post("/toy/grader", json=log)).status_code == 429


async def test_what_costs_more_than_a_whole_budget_passes_all_the_same() -> None:
    app = make_app(cost_limit="100/hour")
    async with at(app, GREEDY) as greedy:
        body = {"task_id": "task1", "seed": 1, "actions": [{}] * 200}
        for _ in range(2):
            assert (await greedy.post("/grader", json=body)).status_code == 200
        assert (await greedy.post("/grader", json=body)).status_code == 429


async def test_programs_on_this_machine_have_no_budget_unless_the_operator_wants_it() -> None:
    async with client_of(make_app(cost_limit="60/hour")) as client:
        for _ in range(5):
            await begin(client, "/toy")
    async with client_of(make_app(cost_limit="60/hour", limit_loopback=True)) as client:
        for _ in range(2):
            await begin(client, "/toy")
        assert (await client.post("/toy/reset")).status_code == 429


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:203.0.113.7", "203.0.113.7", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("203.0.113.7", "203.0.113.8", False),
    ],
)
async def test_a_whole_ipv6_network_is_one_client(one: str, other: str, same: bool) -> None:
    app = make_app(cost_limit="60/hour")
    async with at(app, one) as first, at(app, other) as second:
        for _ in range(2):
            await begin(first, "/toy")
        assert (await second.post("/toy/reset")).status_code == (429 if same else 200)


async def test_the_grading_queue_is_bounded_and_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(grader_threads=1, grader_queue=8, client_share=0.5)
    with held_gradings(monkeypatch) as (release, begun):
        async with at(app, GREEDY) as greedy, at(app, HONEST) as honest, client_of(app) as local:
            waiting = [asyncio.create_task(greedy.post("/toy/grader", json=replay_of(5))) for _ in range(4)]
            await until(lambda: begun)
            await asyncio.sleep(0.05)
            refused = await greedy.post("/toy/grader", json=replay_of(5))
            assert (refused.status_code, error_of(refused)["code"]) == (429, "client_share")
            assert int(refused.headers["retry-after"]) >= 1
            waiting += [asyncio.create_task(honest.post("/toy/grader", json=replay_of(5))) for _ in range(4)]
            await asyncio.sleep(0.05)
            refused = await local.post("/toy/grader", json=replay_of(5))
            assert (refused.status_code, error_of(refused)["code"]) == (503, "server_full")
            # Documents, health and steps wait for no grading.
            for path in ("/toy/info", "/info", "/toy/health", "/health", "/toy/tasks"):
                assert (await honest.get(path)).status_code == 200
            assert len(await play(honest, "/toy", await begin(honest, "/toy"), 20)) == 20
            release.set()
            replies = await asyncio.gather(*waiting)
    assert {reply.status_code for reply in replies} == {200}


async def test_abandoned_gradings_are_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(grader_threads=1, grader_queue=8)
    with held_gradings(monkeypatch) as (release, begun), serve(app) as url:
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as patient:
            first = asyncio.create_task(patient.post("/toy/grader", json=replay_of(5)))
            await until(lambda: begun)
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as leaver:
                left = [asyncio.create_task(leaver.post("/toy/grader", json=replay_of(5))) for _ in range(7)]
                await asyncio.sleep(0.3)
                assert (await patient.post("/toy/grader", json=replay_of(5))).status_code == 503
                for task in left:
                    task.cancel()
                await asyncio.gather(*left, return_exceptions=True)

            async def has_room() -> bool:
                tried = asyncio.create_task(patient.post("/toy/grader", json=replay_of(5)))
                done, _ = await asyncio.wait([tried], timeout=0.2)
                if not done:
                    waiting.append(tried)
                return not done

            waiting: list[asyncio.Task[httpx.Response]] = []
            for _ in range(100):
                if await has_room():
                    break
            release.set()
            assert {reply.status_code for reply in await asyncio.gather(first, *waiting)} == {200}
    assert len(begun) == 1 + len(waiting)


async def test_a_client_has_its_share_of_the_places() -> None:
    app = make_app(max_sessions=2, max_episodes=8, client_share=0.25)
    async with at(app, GREEDY) as greedy, at(app, HONEST) as honest:
        mine = [await begin(greedy, "/toy") for _ in range(2)]
        refused = await greedy.post("/toy/reset")
        assert (refused.status_code, error_of(refused)["code"]) == (429, "client_share")
        assert "DELETE /sessions" in error_of(refused)["hint"]
        await begin(honest, "/toy")
        await play(greedy, "/toy", mine[0], 20)
        await begin(greedy, "/toy")
