"""A task by every name that clients write, at every door of the server; what is no name is refused."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tests.server.conftest import error_of

NAMES = [1, "1", "task1", "task_1", "task-1", "TASK1", "easy"]
NO_NAMES: list[Any] = [True, False, 1.0, 1.5, [], {}, -1, 10**30]
BODIES: dict[str, dict[str, Any]] = {
    "/reset": {"seed": 42},
    "/grader": {"seed": 42, "actions": [{}]},
    "/grade": {"seed": 42, "actions": [{}]},
    "/grader/replay": {"seed": 42, "actions": [{}]},
}


@pytest.mark.parametrize("path", BODIES)
async def test_every_name_is_the_same_task(client: httpx.AsyncClient, path: str) -> None:
    for name in NAMES:
        reply = await client.post(path, json={"task_id": name, **BODIES[path]})
        assert (reply.status_code, reply.json().get("task_id")) == (200, "task1"), name


@pytest.mark.parametrize("path", BODIES)
async def test_what_is_no_name_is_refused(client: httpx.AsyncClient, path: str) -> None:
    for name in NO_NAMES:
        reply = await client.post(path, json={"task_id": name, **BODIES[path]})
        assert reply.status_code == 422, name
        message = error_of(reply)["message"]
        assert message.startswith("task_id: "), message
        assert "text of at most 200 characters or a whole number from 0 to 1000" in message


async def test_a_number_without_a_task_is_told_the_tasks(client: httpx.AsyncClient) -> None:
    reply = await client.post("/reset", json={"task_id": 4})
    assert (reply.status_code, error_of(reply)["code"]) == (422, "unknown_name")
    assert "task1" in error_of(reply)["hint"]


async def test_a_log_of_a_number_is_graded(client: httpx.AsyncClient) -> None:
    session = (await client.post("/reset", json={"task_id": 2})).json()["session_id"]
    step = (await client.post("/step", json={"session_id": session, "action": {}})).json()
    reply = await client.post("/grader", json={"task_id": 2, "episode_log": [step]})
    assert (reply.status_code, reply.json()["task_id"]) == (200, "task2")


async def test_the_lists_tell_the_aliases(client: httpx.AsyncClient) -> None:
    tasks = (await client.get("/tasks")).json()["tasks"]
    assert tasks[0]["aliases"] == ["1", "task_1", "easy"]
    assert (await client.get("/tasks/hard")).json()["id"] == "task3"
    assert (await client.get("/tasks/2")).json()["id"] == "task2"


def test_a_websocket_reset_takes_them(app: FastAPI) -> None:
    with TestClient(app) as client, client.websocket_connect("/ws") as socket:
        for name in NAMES:
            socket.send_json({"type": "reset", "data": {"task_id": name, "seed": 1}})
            assert socket.receive_json()["data"]["observation"]["info"]["task_id"] == "task1"
        socket.send_json({"type": "reset", "data": {"task_id": True}})
        assert socket.receive_json()["type"] == "error"
        socket.send_json({"type": "state"})
        assert socket.receive_json()["data"]["task_id"] == "task1"
