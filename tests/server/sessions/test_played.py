"""What a grade names of the episode behind it, and which logs are refused."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import httpx
import orjson
import pytest

from inferencegym import __version__
from inferencegym.registry import all_specs, get_spec
from simulator.packs.on_offer import DEFAULT_PACK, pack_path
from tests.server.conftest import begin, client_of, error_of, make_app

DIGEST = sha256(pack_path(DEFAULT_PACK).read_bytes()).hexdigest()
TRAFFIC = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:{minute:02d}:00,100,10\n" for minute in range(5)
)


@pytest.fixture(scope="module")
def http() -> httpx.AsyncClient:
    return client_of(make_app())


async def graded(http: httpx.AsyncClient, mount: str, **reset: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The grade of three steps by session, and by replay."""
    session = await begin(http, mount, **reset)
    for _ in range(3 if session["episode_length"] > 3 else 1):
        await http.post(f"{mount}/step", json={"session_id": session["session_id"], "action": {}})
    steps = (await http.get(f"{mount}/state", params={"session_id": session["session_id"]})).json()[
        "step_count"
    ]
    by_session = await http.post(f"{mount}/grader", json={"session_id": session["session_id"]})
    body = {"task_id": session["task_id"], "seed": session["seed"], "actions": [{}] * steps}
    by_replay = await http.post(f"{mount}/grader", json={**body, "config": reset.get("config")})
    return by_session.json(), by_replay.json()


@pytest.mark.parametrize("env", [spec.name for spec in all_specs()])
async def test_a_grade_names_what_was_played(http: httpx.AsyncClient, env: str) -> None:
    spec = get_spec(env)
    for grade in await graded(http, spec.mount, seed=7):
        assert (grade["verified"], grade["standard"], grade["seed"]) == (True, True, 7)
        assert (grade["config"], grade["config_hash"]) == ({}, sha256(b"{}").hexdigest())
        assert (grade["environment"], grade["environment_version"]) == (spec.id, spec.version)
        assert grade["engine_version"] == __version__
        pack = {"name": DEFAULT_PACK, "sha256": DIGEST} if env in ("serving", "autoscaling") else None
        assert grade["trace_pack"] == pack
        assert "own settings" not in grade["feedback"]


@pytest.mark.parametrize(
    ("mount", "config"),
    [
        ("", {"alpha": 0.3}),
        ("", {"trace_pack": "h100_llama3_8b"}),
        ("", {"traffic": {"text": TRAFFIC}}),
        ("/autoscaling", {"trace_pack": "h100_llama3_8b"}),
        ("/routing", {"region": "Iowa"}),
        ("/market", {"scenario": "steady"}),
    ],
)
async def test_a_task_that_its_config_changed_is_not_the_standard_one(
    http: httpx.AsyncClient, mount: str, config: dict[str, Any]
) -> None:
    task = {"task_id": "stream_1"} if mount == "/routing" else {}  # the first is a fixed game
    for grade in await graded(http, mount, config=config, **task):
        assert (grade["verified"], grade["standard"]) == (True, False)
        assert "not played with the task's own settings" in grade["feedback"]
        expected = orjson.dumps(config, option=orjson.OPT_SORT_KEYS)
        if "traffic" not in config:
            assert grade["config"] == config
            assert grade["config_hash"] == sha256(expected).hexdigest()
        assert len(orjson.dumps(grade["config"])) < 1000
        if "trace_pack" in config:
            assert grade["trace_pack"]["name"] == config["trace_pack"]
            assert grade["trace_pack"]["sha256"] != DIGEST


async def test_another_default_pack_is_not_the_standard_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERENCEGYM_TRACE_PACK", "h100_llama3_8b")
    async with client_of(make_app()) as client:
        for grade in await graded(client, ""):
            assert (grade["config"], grade["standard"]) == ({}, False)


async def test_of_a_log_from_outside_nothing_is_claimed(http: httpx.AsyncClient) -> None:
    log = await replies(http, "", 3)
    grade = (await http.post("/grader", json={"task_id": "task1", "episode_log": log})).json()
    assert (grade["verified"], grade["standard"], grade["seed"], grade["config"]) == (
        False,
        False,
        None,
        None,
    )


async def replies(http: httpx.AsyncClient, mount: str, steps: int) -> list[dict[str, Any]]:
    session = await begin(http, mount)
    body = {"session_id": session["session_id"], "action": {}}
    return [(await http.post(f"{mount}/step", json=body)).json() for _ in range(steps)]


@pytest.mark.parametrize("env", [spec.name for spec in all_specs()])
async def test_a_log_out_of_order_is_refused(http: httpx.AsyncClient, env: str) -> None:
    spec = get_spec(env)
    tasks = (await http.get(f"{spec.mount}/tasks")).json()["tasks"]
    task = next(each for each in tasks if each["episode_length"] >= 4)
    session = await begin(http, spec.mount, task_id=task["id"])
    body = {"session_id": session["session_id"], "action": {}}
    log = [(await http.post(f"{spec.mount}/step", json=body)).json() for _ in range(4)]
    told = [
        {"action": {}, "reward": each["reward"], "metrics": each["info"]["metrics"], "timestep": index + 1}
        for index, each in enumerate(log)
    ]
    for entries in (log, told):
        for wrong in (entries[::-1], [entries[0], entries[0], *entries[1:]], entries[1:], entries[::2]):
            request = {"task_id": task["id"], "episode_log": wrong}
            reply = await http.post(f"{spec.mount}/grader", json=request)
            assert reply.status_code == 422, (env, reply.text)
            assert "at this place of the log" in error_of(reply)["message"]
        good = await http.post(f"{spec.mount}/grader", json={"task_id": task["id"], "episode_log": entries})
        assert good.status_code == 200, good.text
    other = next(each["id"] for each in tasks if each["id"] != task["id"])
    named = [{**each, "task_id": other} for each in told]
    reply = await http.post(f"{spec.mount}/grader", json={"task_id": task["id"], "episode_log": named})
    assert "episode_log[0].task_id" in error_of(reply)["message"]
