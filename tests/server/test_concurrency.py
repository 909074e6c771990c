"""Many requests at once: nothing is lost, nothing leaks, nobody waits for somebody else's long call."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import httpx

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
        assert (await client.get("/health")).json()["active_sessions"] <= 50


async def test_evicted_sessions_are_freed_and_their_clients_told(monkeypatch: Any) -> None:
    made: list[weakref.ref[Any]] = []
    original = toy_env.ToyEpisode.__init__

    def remembered(self: Any, *arguments: Any) -> None:
        original(self, *arguments)
        made.append(weakref.ref(self))

    monkeypatch.setattr(toy_env.ToyEpisode, "__init__", remembered)
    async with client_of(make_app(max_sessions=50)) as client:
        made.clear()
        sessions = [await begin(client, "/toy") for _ in range(130)]
        assert (await client.get("/health")).json()["active_sessions"] == 50
        gc.collect()
        assert sum(ref() is not None for ref in made) == 50
        reply = await client.post("/toy/step", json={"session_id": sessions[0]["session_id"], "action": {}})
        assert reply.status_code == 404
        assert "evicted" in error_of(reply)["message"]
        assert "POST /reset" in error_of(reply)["hint"]
        last = await client.post("/toy/step", json={"session_id": sessions[-1]["session_id"], "action": {}})
        assert last.status_code == 200


async def test_a_finished_session_stays_readable_until_it_is_evicted() -> None:
    async with client_of(make_app(max_sessions=2)) as client:
        session = await begin(client, "/toy")
        await play(client, "/toy", session, 20)
        await begin(client, "/toy")
        identity = {"session_id": session["session_id"]}
        assert (await client.get("/toy/state", params=identity)).json()["done"] is True
        assert (await client.post("/toy/grader", json=identity)).json()["steps"] == 20
        for _ in range(2):
            await begin(client, "/toy")
        assert (await client.get("/toy/state", params=identity)).status_code == 404


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
    from server.settings import Settings

    services = Services(Settings())
    services.socket_counts += [lambda: 2, lambda: 3]
    assert services.active_sessions() == 5
