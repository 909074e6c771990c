"""Requests that nobody should send. Each gets its status and a message that helps; none gets a 5xx."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.server.conftest import begin, error_of

DEEP = b"[" * 5000 + b"]" * 5000
HUGE_INT = b"9" * 5000


@dataclass(frozen=True)
class Hostile:
    """A request, the status it gets, and a word of the message."""

    name: str
    path: str
    body: Any
    status: int
    says: str
    method: str = "POST"
    content_type: str = "application/json"


def step(name: str, action: Any, says: str, status: int = 422) -> Hostile:
    return Hostile(name, "/step", {"session_id": "$SESSION", "action": action}, status, says)


def raw_step(name: str, action: bytes, says: str) -> Hostile:
    return Hostile(name, "/step", b'{"session_id":"$SESSION","action":' + action + b"}", 422, says)


def reset(name: str, body: Any, says: str, status: int = 422) -> Hostile:
    return Hostile(name, "/reset", body, status, says)


def grader(name: str, body: Any, says: str, status: int = 422) -> Hostile:
    return Hostile(name, "/grader", body, status, says)


REPLAY = {"task_id": "task1", "seed": 0, "actions": [{}]}

TABLE = [
    # Syntax
    reset("not json", b"{", "valid JSON"),
    reset("trailing text", b"{} x", "valid JSON"),
    reset("single quotes", b"{'seed': 1}", "valid JSON"),
    reset("invalid utf-8", b'{"task_id":"\xff\xfe"}', "valid JSON"),
    reset("lone surrogate", b'{"task_id":"\\ud800"}', "valid JSON"),
    reset("utf-16", '{"seed":1}'.encode("utf-16"), "valid JSON"),
    reset("byte order mark", b"\xef\xbb\xbf{}", "valid JSON"),
    reset("deep nesting", DEEP, "recursion"),
    reset("deep nesting in a field", b'{"config":' + DEEP + b"}", "recursion"),
    reset("zero bytes", b"\0\0\0\0", "valid JSON"),
    # Shapes
    reset("list", [], "body"),
    reset("text", '"task1"', "body"),
    reset("number", b"3", "body"),
    reset("null", b"null", "body"),
    reset("unknown field", {"sed": 1}, "Did you mean seed?"),
    # Reset's fields
    reset("unknown task", {"task_id": "tsak1"}, "task1"),
    reset("task of a wrong type", {"task_id": True}, "task_id"),
    reset("task of a number without one", {"task_id": 9}, "task1"),
    reset("path as task", {"task_id": "../../etc/passwd"}, "does not exist"),
    reset("negative seed", {"seed": -1}, "seed"),
    reset("boolean seed", {"seed": True}, "seed"),
    reset("text seed", {"seed": "42"}, "seed"),
    reset("fractional seed", {"seed": 1.5}, "seed"),
    reset("seed of 2**63", {"seed": 2**63}, "seed"),
    reset("seed of 5000 digits", b'{"seed":' + HUGE_INT + b"}", "valid JSON"),
    reset("nan seed", b'{"seed":NaN}', "seed"),
    reset("infinite seed", b'{"seed":1e400}', "seed"),
    reset("empty episode id", {"episode_id": ""}, "episode_id"),
    reset("long episode id", {"episode_id": "x" * 300}, "1 to 255 characters"),
    reset("weight above its range", {"config": {"alpha": 1.5}}, "config.alpha"),
    reset("weights that sum to more than 1", {"config": {"alpha": 1, "beta": 1}}, "at most 1"),
    reset("nan weight", b'{"config":{"alpha":NaN}}', "config.alpha"),
    reset("unknown weight", {"config": {"alfa": 1}}, "Did you mean alpha?"),
    # Actions
    step("text for a number", {"batch_size": "64"}, "action.batch_size"),
    step("boolean for a number", {"kv_budget": True}, "action.kv_budget"),
    step("number for a boolean", {"prefill_disagg": 1}, "true or false"),
    step("null", {"batch_size": None}, "action.batch_size"),
    step("zero batch", {"batch_size": 0}, "from 1 to 512"),
    step("batch above its range", {"batch_size": 513}, "from 1 to 512"),
    step("fractional batch", {"batch_size": 1.5}, "action.batch_size"),
    step("budget below its range", {"kv_budget": 0.0999}, "from 0.1 to 1.0"),
    step("forbidden draft length", {"spec_length": 3}, "0, 1, 2, 4 or 8"),
    step("unknown tier", {"quant_tier": "FP8"}, "INT4"),
    step("unknown knob", {"batchsize": 3}, "Did you mean batch_size?"),
    step("nested knob", {"kv_budget": {"value": 1}}, "action.kv_budget"),
    step("list as action", [1], "action"),
    step("null as action", None, "action"),
    step("many faults at once", {"batch_size": 0, "kv_budget": 9, "spec_length": 3}, "action.spec_length"),
    raw_step("nan", b'{"kv_budget":NaN}', "action.kv_budget"),
    raw_step("infinity", b'{"kv_budget":Infinity}', "action.kv_budget"),
    raw_step("minus infinity", b'{"kv_budget":-Infinity}', "action.kv_budget"),
    raw_step("1e400", b'{"kv_budget":1e400}', "action.kv_budget"),
    raw_step("1e400 as batch", b'{"batch_size":1e400}', "action.batch_size"),
    raw_step("huge integer", b'{"batch_size":' + b"9" * 400 + b"}", "action.batch_size"),
    raw_step("integer of 5000 digits", b'{"batch_size":' + HUGE_INT + b"}", "valid JSON"),
    raw_step("deep nesting in an action", b'{"batch_size":' + DEEP + b"}", "recursion"),
    # Sessions
    Hostile("no action", "/step", {"session_id": "$SESSION"}, 422, "action: missing"),
    Hostile("no session", "/step", {"action": {}}, 422, "session_id: missing"),
    Hostile("empty step", "/step", b"", 422, "valid JSON"),
    Hostile("session of a wrong type", "/step", {"session_id": 5, "action": {}}, 422, "session_id"),
    Hostile("unknown session", "/step", {"session_id": "nope", "action": {}}, 404, "unknown"),
    Hostile("extra field", "/step", {"session_id": "$SESSION", "action": {}, "x": 1}, 422, "unknown field"),
    Hostile("state without a session", "/state", b"", 422, "session_id", "GET"),
    Hostile("state of an unknown session", "/state?session_id=nope", b"", 404, "unknown", "GET"),
    Hostile("state of a strange session", "/state?session_id=%00%ff%ed%a0%80", b"", 404, "unknown", "GET"),
    # Grader
    grader("none of the shapes", {}, "exactly one"),
    grader("two shapes", {"session_id": "x", "episode_log": []}, "exactly one"),
    grader("all shapes", REPLAY | {"session_id": "x", "episode_log": []}, "exactly one"),
    grader("list", [], "an object"),
    grader("empty body", b"", "valid JSON"),
    grader("unknown session", {"session_id": "nope"}, "unknown", 404),
    grader("unknown task", REPLAY | {"task_id": "task4"}, "task4"),
    grader("replay without a seed", {"task_id": "task1", "actions": [{}]}, "seed: missing"),
    grader(
        "replay with a bad action", REPLAY | {"actions": [{}, {"batch_size": 0}]}, "actions[1].batch_size"
    ),
    grader("replay with a text action", REPLAY | {"actions": ["x"]}, "actions[0]"),
    grader("replay with too many actions", REPLAY | {"actions": [{}] * 201}, "200"),
    grader("replay without actions", REPLAY | {"actions": []}, "actions"),
    grader("replay with a bad config", REPLAY | {"config": {"alpha": -1}}, "config.alpha"),
    grader("replay with a negative seed", REPLAY | {"seed": -1}, "seed"),
    grader("log without a task", {"episode_log": [{}]}, "task_id: missing"),
    grader("log of numbers", {"task_id": "task1", "episode_log": [1, 2]}, "episode_log[0]"),
    grader("log of empty entries", {"task_id": "task1", "episode_log": [{}]}, "episode_log[0]"),
    grader("log that is too long", {"task_id": "task1", "episode_log": [{}] * 300}, "200"),
    grader(
        "log with nan", b'{"task_id":"task1","episode_log":[{"metrics":{"ttft_p50_ms":NaN}}]}', "valid JSON"
    ),
    grader(
        "log with 1e400",
        b'{"task_id":"task1","episode_log":[{"metrics":{"tokens_per_sec":1e400}}]}',
        "log[0]",
    ),
    grader("deep log", b'{"task_id":"task1","episode_log":' + DEEP + b"}", "recursion"),
    # HTTP
    Hostile("unknown path", "/nope", {}, 404, "nothing"),
    Hostile("unknown path below a mount", "/toy/nope", {}, 404, "nothing"),
    Hostile("traversal", "/toy/../../etc/passwd", b"", 404, "nothing", "GET"),
    Hostile("wrong method", "/step", b"", 405, "method", "GET"),
    Hostile("another wrong method", "/tasks", b"", 405, "method", "DELETE"),
    Hostile("invented method", "/reset", b"", 405, "method", "FROB"),
    Hostile("plain text", "/step", b"hello", 415, "application/json", content_type="text/plain"),
    Hostile("xml", "/reset", b"<a/>", 415, "application/json", content_type="application/xml"),
    Hostile("file upload", "/grader", b"--x--", 415, "json", content_type="multipart/form-data; boundary=x"),
    Hostile("form", "/reset", b"seed=1", 422, "JSON", content_type="application/x-www-form-urlencoded"),
    Hostile("body above 1 MiB", "/step", b" " * 3_000_000, 413, "1048576"),
    Hostile("log above 8 MiB", "/grader", b" " * 9_000_000, 413, "8388608"),
    Hostile("task api of another environment", "/nope/tasks", {"split": "train"}, 404, "nope"),
    Hostile("task api with an unknown split", "/serving/tasks", {"split": "nope"}, 422, "train"),
    Hostile("task api with a bad index", "/serving/task", {"split": "train", "index": 99}, 400, "index"),
    Hostile("task api with a huge index", "/serving/task", {"split": "train", "index": 10**30}, 400, "index"),
    Hostile("task api with a wrong type", "/serving/num_tasks", {"split": []}, 422, "split"),
    Hostile("task api without json", "/serving/num_tasks", b"{", 422, "JSON"),
    Hostile("task api nested too deep", "/serving/num_tasks", DEEP, 422, ""),
]


@pytest.mark.parametrize("hostile", TABLE, ids=[entry.name for entry in TABLE])
async def test_hostile_request(client: httpx.AsyncClient, hostile: Hostile) -> None:
    session = await begin(client, task_id="task3")
    content = hostile.body
    if not isinstance(content, bytes):
        content = content.encode() if isinstance(content, str) else json.dumps(content).encode()
    content = content.replace(b"$SESSION", session["session_id"].encode())
    reply = await client.request(
        hostile.method, hostile.path, content=content, headers={"content-type": hostile.content_type}
    )
    error = error_of(reply)
    assert reply.status_code == hostile.status, error
    told = f"{error['message']} {error['hint']}".lower()
    assert hostile.says.lower() in told, told
    assert len(told) < 2000
    state = (await client.get("/state", params={"session_id": session["session_id"]})).json()
    assert state["step_count"] == 0


def test_the_table_is_long_enough() -> None:
    assert len(TABLE) >= 30
    assert len({entry.name for entry in TABLE if entry.path == "/step"}) >= 20
