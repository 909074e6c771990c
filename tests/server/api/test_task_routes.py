"""GET /tasks/meta, /tasks/{id}, POST /grade and /grader/replay: the same for every environment."""

from __future__ import annotations

import httpx
import pytest

from tests.server.conftest import begin, error_of, first_task, play, some_action


async def test_meta_names_every_task_and_alias(client: httpx.AsyncClient, mount: str) -> None:
    meta = (await client.get(f"{mount}/tasks/meta")).json()
    tasks = (await client.get(f"{mount}/tasks?all=true")).json()["tasks"]
    assert [task["id"] for task in meta["tasks"]] == [task["id"] for task in tasks]
    assert meta["count"] == len(tasks)
    assert meta["default_task"] == first_task(mount)
    assert meta["reward_range"] == [-1.0, 1.0]


async def test_a_task_by_id(client: httpx.AsyncClient, mount: str) -> None:
    for task in (await client.get(f"{mount}/tasks")).json()["tasks"]:
        detail = (await client.get(f"{mount}/tasks/{task['id']}")).json()
        assert {name: detail[name] for name in task} == task


async def test_an_alias_is_taken_by_every_door(client: httpx.AsyncClient) -> None:
    detail = (await client.get("/toy/tasks/still")).json()
    assert (detail["id"], detail["aliases"], detail["facts"]) == ("calm", ["still"], {"wind": 0.0})
    assert (await begin(client, "/toy", task_id="still"))["task_id"] == "calm"
    body = {"task_id": "still", "seed": 0, "actions": [{}]}
    for path in ("grader", "grade", "grader/replay"):
        assert (await client.post(f"/toy/{path}", json=body)).json()["task_id"] == "calm"


async def test_an_unknown_task_is_not_found(client: httpx.AsyncClient, mount: str) -> None:
    near = first_task(mount)
    reply = await client.get(f"{mount}/tasks/{near}x")
    assert reply.status_code == 404
    assert near in error_of(reply)["hint"]
    body = {"task_id": f"{near}x", "seed": 0, "actions": [{}]}
    for path in ("grade", "grader/replay"):
        reply = await client.post(f"{mount}/{path}", json=body)
        assert reply.status_code == 404
        assert near in error_of(reply)["hint"]


async def test_grade_is_the_grader(client: httpx.AsyncClient, mount: str) -> None:
    session = await begin(client, mount, seed=3)
    await play(client, mount, session, 3)
    body = {"session_id": session["session_id"]}
    assert (await client.post(f"{mount}/grade", json=body)).json() == (
        await client.post(f"{mount}/grader", json=body)
    ).json()


async def test_replay_takes_nothing_but_seed_and_actions(client: httpx.AsyncClient, mount: str) -> None:
    session = await begin(client, mount, seed=3)
    await play(client, mount, session, 3)
    actions = [some_action(mount, step) for step in range(3)]
    body = {"task_id": first_task(mount), "seed": 3, "actions": actions}
    replayed = (await client.post(f"{mount}/grader/replay", json=body)).json()
    assert replayed["verified"] is True
    graded = await client.post(f"{mount}/grader", json={"session_id": session["session_id"]})
    assert replayed == graded.json()
    for more in ({"reward": 99.0}, {"episode_log": []}, {"session_id": session["session_id"]}):
        assert (await client.post(f"{mount}/grader/replay", json=body | more)).status_code == 422
    assert (await client.post(f"{mount}/grader/replay", content="[1]")).status_code == 422


@pytest.mark.parametrize("path", ["grade", "grader/replay"])
async def test_a_grading_may_be_as_long_as_an_episode(
    client: httpx.AsyncClient, mount: str, path: str
) -> None:
    body = {"task_id": first_task(mount), "seed": 0, "actions": [{"x": "y" * 2_000_000}]}
    assert (await client.post(f"{mount}/{path}", json=body)).status_code == 422


async def test_figures_come_with_the_grade(client: httpx.AsyncClient) -> None:
    body = {"task_id": "calm", "seed": 0, "actions": [{}]}
    grade = (await client.post("/toy/grade", json=body)).json()
    assert grade["figures"] == {"path_m": pytest.approx(10.0 * (1.0 - grade["score"]))}
