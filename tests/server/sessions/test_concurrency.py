"""Many requests at once: nothing is lost, nothing leaks, nobody waits for somebody else's long call."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import httpx
import pytest

from server.services import Services
from tests.server import toy_env
from tests.server.conftest import begin, client_of, error_of, make_app, play, some_action


async def test_forty_steps_at_once_on_one_session_are_all_counted(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        session = await begin(client, task_id="task3")
        body = {"session_id": session["session_id"], "action": {"batch_size": 64}}
        replies = await asyncio.gather(*(client.post("/step", json=body) for _ in range(40)))
        assert {reply.status_code for reply in replies} == {200}
        assert sorted(reply.json()["info"]["timestep"] for reply in replies) == list(range(1, 41))
        state = (await client.get("/state", params={"session_id": session["session_id"]})).json()
        assert state["step_count"] == 40
        grade = (await client.post("/grader", json={"session_id": session["session_id"]})).json()
        assert grade["steps"] == 40


async def test_fifty_sessions_at_once_do_not_touch_each_other(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
        alone = await play(client, "/toy", await begin(client, "/toy", seed=3), 20)

        async def one(index: int) -> Any:
            # Every other session plays the same seed as the one that played alone.
            return await play(client, "/toy", await begin(client, "/toy", seed=3 + index % 2), 20)

        together = await asyncio.gather(*(one(index) for index in range(50)))
        assert all(replies == alone for replies in together[::2])
        assert all(replies != alone for replies in together[1::2])


async def test_more_sessions_than_are_warm_take_no_more_memory_and_all_go_on(monkeypatch: Any) -> None:
    made: list[weakref.ref[Any]] = []
    original = toy_env.ToyEpisode.__init__

    def remembered(self: Any, *arguments: Any) -> None:
        original(self, *arguments)
        made.append(weakref.ref(self))

    monkeypatch.setattr(toy_env.ToyEpisode, "__init__", remembered)
    async with client_of(make_app(max_sessions=50)) as client:
        made.clear()
        sessions = [await begin(client, "/toy") for _ in range(130)]
        assert (await client.get("/health")).json()["active_sessions"] == 130
        gc.collect()
        assert sum(ref() is not None for ref in made) == 50
        for session in sessions:
            assert len(await play(client, "/toy", session, 1)) == 1
        gc.collect()
        assert sum(ref() is not None for ref in made) == 50


@pytest.mark.parametrize("mount", ["", "/toy"], ids=["serving", "toy"])
async def test_sixty_agents_share_five_warm_places_and_get_the_bytes_they_would_alone(mount: str) -> None:
    async with client_of(make_app(max_sessions=5)) as client:

        async def episode(seed: int) -> list[bytes]:
            session = await begin(client, mount, seed=seed)
            identity = {"session_id": session["session_id"]}
            replies = []
            for step in range(20):
                body = {**identity, "action": some_action(mount, step)}
                replies.append((await client.post(f"{mount}/step", json=body)).content)
            grade = await client.post(f"{mount}/grader", json=identity)
            return [*replies, grade.content]

        alone = [await episode(seed) for seed in range(4)]
        together = await asyncio.gather(*(episode(index % 4) for index in range(60)))
    assert together == [alone[index % 4] for index in range(60)]


async def test_a_finished_session_stays_readable_until_its_place_is_needed() -> None:
    async with client_of(make_app(max_sessions=1, max_episodes=2)) as client:
        session = await begin(client, "/toy")
        await play(client, "/toy", session, 20)
        await begin(client, "/toy")
        identity = {"session_id": session["session_id"]}
        assert (await client.get("/toy/state", params=identity)).json()["done"] is True
        assert (await client.post("/toy/grader", json=identity)).json()["steps"] == 20
        await begin(client, "/toy")
        gone = await client.get("/toy/state", params=identity)
        assert gone.status_code == 404
        assert "evicted" in error_of(gone)["message"]
        assert "POST /reset" in error_of(gone)["hint"]
        full = await client.post("/toy/reset")
        assert full.status_code == 503
        assert error_of(full)["code"] == "server_full"
        assert 1 <= int(full.headers["retry-after"]) <= 60


async def test_delete_frees_a_place_at_once() -> None:
    async with client_of(make_app(max_sessions=1, max_episodes=1)) as client:
        session = await begin(client, "/toy")
        path = f"/sessions/{session['session_id']}"
        assert (await client.delete(path)).status_code == 404  # of another environment
        reply = await client.delete(f"/toy{path}")
        assert reply.json() == {"session_id": session["session_id"], "deleted": True}
        again = await client.delete(f"/toy{path}")
        assert again.status_code == 404
        assert "deleted" in error_of(again)["message"]
        await begin(client, "/toy")


async def test_steps_go_on_while_replays_are_graded(url: str) -> None:
    """More replays than grading threads wait for a thread; steps are served meanwhile."""
    replay = {"task_id": "task2", "seed": 1, "actions": [some_action("", step) for step in range(200)]}
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
        session = await begin(client)
        gradings = [asyncio.create_task(client.post("/grader", json=replay)) for _ in range(12)]
        replies = await play(client, "", session, 20)
        assert len(replies) == 20
        grades = [reply.json() for reply in await asyncio.gather(*gradings)]
    assert all(grade == grades[0] for grade in grades)
    assert grades[0]["verified"] is True


def test_a_service_counts_rest_and_socket_sessions() -> None:
    app = make_app()
    assert app is not None
    from server.operations.settings import Settings

    services = Services(Settings())
    services.socket_counts += [lambda: 2, lambda: 3]
    assert services.active_sessions() == 5
