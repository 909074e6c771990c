"""Every error says how to go on."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from inferencegym.registry import EnvSpec, all_specs
from tests.server.conftest import begin, error_of

each = pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
BAD: list[Any] = [None, True, -1, 1.5, 10**30, "x", "", [], {}, [1], {"a": 1}]


async def refused(client: httpx.AsyncClient, path: str, body: Any) -> None:
    reply = await client.post(path, json=body)
    assert reply.status_code < 500, (path, body)
    if reply.status_code >= 400:
        assert error_of(reply)["hint"], (path, body)


@each
async def test_bodies_that_are_refused(client: httpx.AsyncClient, spec: EnvSpec) -> None:
    session = (await begin(client, spec.mount))["session_id"]
    task = next(iter(spec.part("tasks")))
    whole: dict[str, dict[str, Any]] = {
        "reset": {"task_id": task, "seed": 1, "episode_id": "a", "config": {}},
        "step": {"session_id": session, "action": {}},
        "grader": {"task_id": task, "seed": 1, "actions": [{}], "config": {}},
        "grade": {"task_id": task, "episode_log": [{}]},
        "grader/replay": {"task_id": task, "seed": 1, "actions": [{}], "config": {}},
    }
    for path, body in whole.items():
        for changed in ({}, {**body, "colour": 1}, *BAD):
            await refused(client, f"{spec.mount}/{path}", changed)
        for field in body:
            for value in BAD:
                await refused(client, f"{spec.mount}/{path}", {**body, field: value})
            await refused(client, f"{spec.mount}/{path}", {k: v for k, v in body.items() if k != field})


@each
@pytest.mark.parametrize("part", ["action_model", "config_model"])
async def test_fields_that_are_refused(client: httpx.AsyncClient, spec: EnvSpec, part: str) -> None:
    task = next(iter(spec.part("tasks")))
    for field in spec.part(part).model_fields:
        for value in BAD:
            given = {"actions": [{field: value}]} if part == "action_model" else {"config": {field: value}}
            body = {"task_id": task, "seed": 1, "actions": [{}], **given}
            await refused(client, f"{spec.mount}/grader", body)


async def test_other_refusals(client: httpx.AsyncClient) -> None:
    replies = [
        await client.get("/tasks?all=maybe"),
        await client.get("/state"),
        await client.get("/state?session_id=none"),
        await client.get("/nowhere"),
        await client.put("/reset"),
        await client.post("/reset", content=b"{", headers={"content-type": "application/json"}),
        await client.post("/reset", content=b"{}", headers={"content-type": "text/xml"}),
        await client.post("/serving/tasks", json={"split": 3}),
        await client.post("/serving/task", json={}),
    ]
    assert {reply.status_code for reply in replies} >= {404, 405, 415, 422}
    for reply in replies:
        assert error_of(reply)["hint"], reply.request.url
