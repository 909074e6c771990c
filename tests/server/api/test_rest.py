"""The eight endpoints, for an environment at / and for one that joined by the registry alone."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from server.api.schemas import GradeReply
from tests.server.conftest import begin, error_of, first_task, make_app, play, some_action


async def test_reset_without_a_body_starts_the_first_task_with_seed_42(
    client: httpx.AsyncClient, mount: str
) -> None:
    replies = [
        await client.post(f"{mount}/reset"),
        await client.post(f"{mount}/reset", json={}),
        await client.post(f"{mount}/reset", json={"task_id": first_task(mount), "seed": 42}),
        await client.post(f"{mount}/reset", json={"seed": 42.0, "task_id": None, "config": None}),
    ]
    bodies = [reply.json() for reply in replies]
    assert len({body.pop("session_id") for body in bodies}) == 4
    assert len({body.pop("episode_id") for body in bodies}) == 4
    assert all(body == bodies[0] for body in bodies)
    body = bodies[0]
    assert body["task_id"] == first_task(mount)
    assert (body["seed"], body["reward"], body["done"]) == (42, None, False)
    assert body["episode_length"] == (20 if mount else 200)


async def test_step_reports_everything_and_fills_in_defaults(client: httpx.AsyncClient, mount: str) -> None:
    session = await begin(client, mount)
    reply = await client.post(f"{mount}/step", json={"session_id": session["session_id"], "action": {}})
    body = reply.json()
    assert set(body) == {"observation", "reward", "done", "terminated", "truncated", "info"}
    assert {"timestep", "metrics", "workload", "masked_actions", "reward_terms"} <= set(body["info"])
    assert body["reward"] == pytest.approx(sum(body["info"]["reward_terms"].values()), abs=1e-12)
    assert (body["done"], body["terminated"], body["truncated"]) == (False, False, False)
    assert set(body["observation"]) == set(session["observation"])


async def test_the_same_episode_twice_gives_the_same_bytes(client: httpx.AsyncClient, mount: str) -> None:
    one, two = [await begin(client, mount, seed=7) for _ in range(2)]
    assert await play(client, mount, one, 10) == await play(client, mount, two, 10)
    other = await begin(client, mount, seed=8)
    assert other["observation"] != one["observation"]


async def test_state_tells_what_reproduces_the_episode(client: httpx.AsyncClient, mount: str) -> None:
    session = await begin(client, mount, seed=3, episode_id="mine")
    replies = await play(client, mount, session, 4)
    state = (await client.get(f"{mount}/state", params={"session_id": session["session_id"]})).json()
    assert state["session_id"] == session["session_id"]
    assert (state["episode_id"], state["seed"], state["task_id"]) == ("mine", 3, first_task(mount))
    assert (state["step_count"], state["done"]) == (4, False)
    assert state["cumulative_reward"] == pytest.approx(sum(reply["reward"] for reply in replies))


async def test_an_episode_id_is_a_label_and_need_not_be_unique(client: httpx.AsyncClient) -> None:
    sessions = [await begin(client, episode_id="twin") for _ in range(2)]
    assert sessions[0]["session_id"] != sessions[1]["session_id"]
    assert {session["episode_id"] for session in sessions} == {"twin"}


async def test_a_step_after_the_end_is_a_409_and_changes_nothing(
    client: httpx.AsyncClient, mount: str
) -> None:
    session = await begin(client, mount)
    replies = await play(client, mount, session, session["episode_length"])
    last = replies[-1]
    assert (last["done"], last["terminated"], last["truncated"]) == (True, False, True)
    assert not any(reply["done"] for reply in replies[:-1])
    before = (await client.get(f"{mount}/state", params={"session_id": session["session_id"]})).json()
    reply = await client.post(f"{mount}/step", json={"session_id": session["session_id"], "action": {}})
    assert reply.status_code == 409
    assert error_of(reply)["code"] == "episode_done"
    after = (await client.get(f"{mount}/state", params={"session_id": session["session_id"]})).json()
    assert before == after
    assert after["done"] is True


async def test_three_ways_to_grade_give_one_score(client: httpx.AsyncClient, mount: str) -> None:
    session = await begin(client, mount, seed=5)
    length = session["episode_length"]
    log = await play(client, mount, session, length)
    actions = [some_action(mount, step) for step in range(length)]
    task = session["task_id"]
    by_session = (await client.post(f"{mount}/grader", json={"session_id": session["session_id"]})).json()
    by_replay = (
        await client.post(f"{mount}/grader", json={"task_id": task, "seed": 5, "actions": actions})
    ).json()
    by_log = (await client.post(f"{mount}/grader", json={"task_id": task, "episode_log": log})).json()
    assert set(by_session) == set(by_log) == set(GradeReply.model_fields)
    assert by_session == by_replay
    assert (by_session["verified"], by_log["verified"]) == (True, False)
    assert by_log["score"] == by_session["score"]
    assert by_session["steps"] == length
    assert "unfinished" not in by_session["feedback"]


async def test_a_log_of_step_replies_as_they_stand_is_graded(client: httpx.AsyncClient, mount: str) -> None:
    session = await begin(client, mount)
    log = await play(client, mount, session, session["episode_length"])
    reply = await client.post(f"{mount}/grader", json={"task_id": session["task_id"], "episode_log": log})
    assert reply.status_code == 200
    assert reply.json()["verified"] is False


async def test_an_unfinished_episode_is_graded_and_says_so(client: httpx.AsyncClient, mount: str) -> None:
    session = await begin(client, mount)
    await play(client, mount, session, 3)
    grade = (await client.post(f"{mount}/grader", json={"session_id": session["session_id"]})).json()
    assert (grade["verified"], grade["steps"]) == (True, 3)
    assert f"3 of {session['episode_length']}" in grade["feedback"]
    nothing = await client.post(
        f"{mount}/grader", json={"session_id": (await begin(client, mount))["session_id"]}
    )
    assert nothing.status_code == 409


async def test_a_forged_log_is_never_verified(client: httpx.AsyncClient) -> None:
    session = await begin(client, task_id="task2")
    entry = {
        "action": {},
        "reward": 1.0,
        "verified": True,
        "metrics": (await play(client, "", session, 1))[0]["info"]["metrics"] | {"ttft_p50_ms": 0.0},
    }
    forged = {"task_id": "task2", "episode_log": [entry] * 200}
    grade = (await client.post("/grader", json=forged)).json()
    assert grade["verified"] is False
    for extra in ({"verified": True}, {"session_id": session["session_id"]}, {"seed": 1}):
        assert (await client.post("/grader", json=forged | extra)).status_code == 422


async def test_a_config_changes_the_reward_and_is_replayed(client: httpx.AsyncClient, mount: str) -> None:
    config: dict[str, Any] = {"wind": 0.5} if mount else {"alpha": 0.1, "beta": 0.0}
    plain, changed = await begin(client, mount), await begin(client, mount, config=config)
    rewards = [[r["reward"] for r in await play(client, mount, s, 20)] for s in (plain, changed)]
    assert rewards[0] != rewards[1]
    by_session = await client.post(f"{mount}/grader", json={"session_id": changed["session_id"]})
    replay = {
        "task_id": changed["task_id"],
        "seed": 42,
        "config": config,
        "actions": [some_action(mount, step) for step in range(20)],
    }
    assert (await client.post(f"{mount}/grader", json=replay)).json() == by_session.json()


async def test_baseline_is_the_same_every_time_and_follows_from_a_replay(
    client: httpx.AsyncClient, mount: str
) -> None:
    first = (await client.get(f"{mount}/baseline")).json()
    assert (await client.get(f"{mount}/baseline")).json() == first
    assert (first["agent"], first["seed"]) == ("baseline", 0)
    assert set(first["scores"]) == set(first["breakdowns"])
    assert all(0.0 <= score <= 1.0 for score in first["scores"].values())
    fresh = make_app()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(fresh), base_url="http://fresh") as other:
        assert (await other.get(f"{mount}/baseline")).json() == first


async def test_the_baseline_over_http_gets_the_baseline_score(client: httpx.AsyncClient) -> None:
    session = await begin(client, task_id="task3", seed=0)
    for _ in range(200):
        await client.post("/step", json={"session_id": session["session_id"], "action": {}})
    grade = (await client.post("/grader", json={"session_id": session["session_id"]})).json()
    assert grade["score"] == (await client.get("/baseline")).json()["scores"]["task3"]


async def test_tasks_info_and_health(client: httpx.AsyncClient, mount: str) -> None:
    tasks = (await client.get(f"{mount}/tasks")).json()["tasks"]
    assert {"id", "name", "difficulty", "description", "active_actions"} <= set(tasks[0])
    assert tasks[0]["id"] == first_task(mount)
    info = (await client.get(f"{mount}/info")).json()
    assert info["action_schema"]["type"] == info["observation_schema"]["type"] == "object"
    assert info["versions"]["openenv"]
    assert ("physics" in info) if mount else ("reward_weights" in info)
    health = (await client.get(f"{mount}/health")).json()
    assert health["status"] == "healthy"
    assert health["active_sessions"] >= 0
    assert health["uptime_s"] >= 0


async def test_tasks_beyond_the_usual_ones_are_listed_on_request(client: httpx.AsyncClient) -> None:
    async def ids(query: str) -> list[str]:
        return [task["id"] for task in (await client.get(f"/toy/tasks{query}")).json()["tasks"]]

    assert await ids("") == await ids("?all=false") == ["calm", "windy"]
    assert await ids("?all=true") == ["calm", "windy", "drill"]
    assert (await begin(client, "/toy", task_id="drill"))["episode_length"] == 3
    assert set((await client.get("/toy/baseline")).json()["scores"]) == {"calm", "windy"}
    reply = await client.get("/toy/tasks?all=yes")
    assert reply.status_code == 422
    assert "all" in error_of(reply)["message"]


async def test_a_session_belongs_to_its_environment(client: httpx.AsyncClient) -> None:
    session = await begin(client, "/toy")
    reply = await client.post("/step", json={"session_id": session["session_id"], "action": {}})
    assert reply.status_code == 404
    assert "InferenceGym/Toy-v0" in error_of(reply)["message"]


async def test_a_malformed_reset_starts_no_session(client: httpx.AsyncClient) -> None:
    before = (await client.get("/health")).json()["active_sessions"]
    for body in (b"{", b"[]", b'{"seed": -1}', b'{"task_id": "nope"}', b'{"config": {"alpha": 2}}', b"null"):
        assert (await client.post("/reset", content=body)).status_code == 422
    assert (await client.get("/health")).json()["active_sessions"] == before


async def test_bodies_without_a_json_content_type(client: httpx.AsyncClient) -> None:
    """curl -d declares a form; no header at all is fine too; another type is refused."""
    for headers in (
        {},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/vnd.x+json"},
    ):
        assert (await client.post("/reset", content=b'{"seed": 1}', headers=headers)).status_code == 200
    reply = await client.post("/reset", content=b'{"seed": 1}', headers={"content-type": "text/plain"})
    assert reply.status_code == 415
    assert "application/json" in error_of(reply)["message"]


async def test_the_task_api_takes_the_same_content_types(client: httpx.AsyncClient) -> None:
    body = b'{"split": "train"}'
    for headers in ({}, {"content-type": "application/x-www-form-urlencoded"}):
        reply = await client.post("/serving/num_tasks", content=body, headers=headers)
        assert reply.status_code == 200, reply.text
    reply = await client.post("/serving/num_tasks", content=body, headers={"content-type": "text/plain"})
    assert reply.status_code == 415
    assert "text/plain" in error_of(reply)["message"]


@pytest.mark.parametrize("text", [r"\ud800", r"\udc00", r"\ud800\ud800", r"\ud800x"])
@pytest.mark.parametrize("path", ["/reset", "/step", "/grader", "/mcp"])
async def test_half_a_surrogate_pair_is_called_so(client: httpx.AsyncClient, path: str, text: str) -> None:
    reply = await client.post(path, content=f'{{"task_id": "{text}"}}'.encode())
    message = reply.json()["error"]["message"]
    assert r"half of a surrogate pair (\ud800 to \udfff), which is no character, at line 1" in message


@pytest.mark.parametrize("path", ["/reset", "/mcp", "/serving/num_tasks", "/grader"])
async def test_a_compressed_body_is_refused_by_its_name(client: httpx.AsyncClient, path: str) -> None:
    for encoding in ("gzip", "deflate", "br", "GZIP"):
        reply = await client.post(path, content=b"\x1f\x8b", headers={"content-encoding": encoding})
        assert reply.status_code == 415
        assert encoding.lower() in error_of(reply)["message"]
    reply = await client.post("/reset", content=b"{}", headers={"content-encoding": "identity"})
    assert reply.status_code == 200


async def test_a_trailing_slash_changes_nothing(client: httpx.AsyncClient, mount: str) -> None:
    session = await begin(client, f"{mount}", seed=3)
    body = {"session_id": session["session_id"], "action": {}}
    assert (await client.post(f"{mount}/step/", json=body)).status_code == 200
    for path in ("/tasks", "/schema", "/metadata", "/health"):
        assert (await client.get(f"{mount}{path}/")).status_code == 200
    reply = await client.post(f"{mount}/nothing/here/")
    assert reply.status_code in (404, 405)
    error_of(reply)
    assert (await client.get(f"{mount}/")).headers["content-type"].startswith("application/json")


def test_head_is_get_without_the_body(url: str, mount: str) -> None:
    with httpx.Client(base_url=url, trust_env=False) as live:
        for path in ("/health", "/tasks", "/schema", "/metadata", "/"):
            reply = live.head(f"{mount}{path}")
            assert (reply.status_code, reply.content) == (200, b""), path
        assert live.head(f"{mount}/step").status_code == 405
        assert live.get(f"{mount}/health").status_code == 200


async def test_the_limits_of_the_weights_are_in_every_schema(client: httpx.AsyncClient) -> None:
    info = (await client.get("/info")).json()["config_schema"]
    document = (await client.get("/openapi.json")).json()["components"]["schemas"]["RewardConfig"]
    for schema in (info, document):
        for name in ("alpha", "beta", "gamma", "delta"):
            number, null = schema["properties"][name]["anyOf"]
            assert (number["type"], number["minimum"], number["maximum"]) == ("number", 0, 1)
            assert null == {"type": "null"}
    reply = await client.post("/reset", json={"config": {"alpha": -1}})
    assert "a finite number from 0.0 to 1.0" in error_of(reply)["message"]
