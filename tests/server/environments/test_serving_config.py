"""Another GPU and recorded traffic over HTTP: played, graded, refused with the place of a fault."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from inferencegym.registry import get_spec
from server.bound import BoundEnv
from server.openenv.adapter import make_environment
from simulator.serving.traffic.trace_file import RequestTrace, read_trace
from tests.server.conftest import begin, error_of

HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens"


def azure_trace(requests: int = 1000) -> str:
    """A recording in Azure's format: some 2.5 requests a second."""
    rng = np.random.default_rng(0)
    seconds = np.cumsum(rng.exponential(0.4, requests))
    lines = [HEAD]
    for at, prompt, output in zip(
        seconds, rng.integers(50, 900, requests), rng.integers(20, 200, requests), strict=True
    ):
        minutes, rest = divmod(float(at), 60.0)
        lines.append(f"2023-11-16 18:{int(minutes):02d}:{rest:010.7f},{prompt},{output}")
    return "\n".join(lines) + "\n"


async def play(client: httpx.AsyncClient, config: dict[str, Any], steps: int = 40) -> tuple[list[Any], Any]:
    session = await begin(client, task_id="task2", seed=1, config=config)
    infos: list[Any] = []
    for _ in range(steps):
        body = {"session_id": session["session_id"], "action": {"batch_size": 64}}
        infos.append((await client.post("/step", json=body)).json()["info"])
    grade = (await client.post("/grader", json={"session_id": session["session_id"]})).json()
    return infos, grade


async def test_a_recording_is_played_and_graded(client: httpx.AsyncClient) -> None:
    config = {"traffic": {"text": azure_trace(), "start_s": 10}}
    infos, grade = await play(client, config)
    assert sum(info["requests"]["arrived"] for info in infos) == pytest.approx(100, abs=40)
    assert grade["verified"]
    actions = [{"batch_size": 64}] * 40
    body = {"task_id": "task2", "seed": 1, "actions": actions, "config": config}
    assert (await client.post("/grader", json=body)).json()["score"] == grade["score"]
    without = (await client.post("/grader", json={**body, "config": None})).json()
    assert without["score"] != grade["score"]


async def test_another_gpu_is_played_and_graded_by_its_own_anchors(client: httpx.AsyncClient) -> None:
    config = {"trace_pack": "h100_llama3_8b"}
    infos, grade = await play(client, config)
    assert infos[0]["settings"] == {"trace_pack": "h100_llama3_8b"}
    body = {"task_id": "task2", "seed": 1, "actions": [{"batch_size": 64}] * 40, "config": config}
    assert (await client.post("/grader", json=body)).json()["score"] == grade["score"]
    _, other = await play(client, {})
    assert other["score"] != grade["score"]
    assert "h200_llama3_8b" in (await client.get("/info")).json()["trace_packs"]


async def test_another_engine_timing_is_played_told_and_graded(client: httpx.AsyncClient) -> None:
    config = {"engine_timing": "mixed_batch"}
    infos, grade = await play(client, config)
    assert infos[0]["settings"] == {"trace_pack": "a100_llama3_8b", "engine_timing": "mixed_batch"}
    body = {"task_id": "task2", "seed": 1, "actions": [{"batch_size": 64}] * 40, "config": config}
    assert (await client.post("/grader", json=body)).json()["score"] == grade["score"]
    usual, _ = await play(client, {"engine_timing": "additive"})
    assert usual == (await play(client, {}))[0] != infos
    assert (await client.get("/info")).json()["engine_timings"]["azure-code"] == "mixed_batch"


async def test_a_file_of_the_servers_folder(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mine.csv").write_text(azure_trace())
    monkeypatch.setenv("INFERENCEGYM_TRAFFIC", str(tmp_path))
    steps, grade = await play(client, {"traffic": {"text": azure_trace()}}, 5)
    by_name, its_grade = await play(client, {"traffic": {"file": "mine.csv"}}, 5)
    assert by_name == steps
    told = {"config", "config_hash"}  # a grade names what was played
    assert {key: its_grade[key] for key in its_grade.keys() - told} == {
        key: grade[key] for key in grade.keys() - told
    }
    for name in ("mine.cs", "../mine.csv", "/etc/passwd"):
        reply = await client.post("/reset", json={"config": {"traffic": {"file": name}}})
        assert reply.status_code == 422 or reply.status_code == 404
        assert "traffic.file" in error_of(reply)["message"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"trace_pack": "h100"}, "trace_pack"),
        ({"trace_pack": 5}, "trace_pack"),
        ({"engine_timing": "mixed"}, "mixed_batch"),
        ({"engine_timing": True}, "engine_timing"),
        ({"traffic": {}}, "text or file"),
        ({"traffic": {"text": HEAD, "file": "a.csv"}}, "text or file"),
        ({"traffic": {"text": ""}}, "empty"),
        ({"traffic": {"text": HEAD + "\n2023-11-16 18:15:46,-3,5\n"}}, "line 2"),
        ({"traffic": {"text": HEAD + "\n2023-11-16 18:15:46,nan,5\n"}}, "ContextTokens"),
        ({"traffic": {"text": HEAD + "\n2023-11-16 18:15:46,3,5\n2023-11-16 18:15:45,3,5\n"}}, "line 3"),
        ({"traffic": {"text": "a,b\n1,2\n"}}, "columns"),
        ({"traffic": {"file": "a.csv"}}, "INFERENCEGYM_TRAFFIC"),
        ({"traffic": {"text": azure_trace(20), "speed": 0}}, "speed"),
        ({"traffic": {"text": azure_trace(20), "replicas": 0}}, "replicas"),
        ({"traffic": {"text": azure_trace(20), "start_s": 1e6}}, "start_s"),
        ({"traffic": {"text": azure_trace(20), "start_s": -1}}, "start_s"),
    ],
)
async def test_what_cannot_be_played_is_refused(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], said: str
) -> None:
    monkeypatch.delenv("INFERENCEGYM_TRAFFIC", raising=False)
    before = (await client.get("/health")).json()["active_sessions"]
    reply = await client.post("/reset", json={"config": config})
    assert reply.status_code in (404, 422)
    assert said in error_of(reply)["message"]
    assert (await client.get("/health")).json()["active_sessions"] == before


async def test_tasks_on_recorded_traffic_are_listed_on_request(client: httpx.AsyncClient) -> None:
    ids = [task["id"] for task in (await client.get("/tasks?all=true")).json()["tasks"]]
    assert ids == ["task1", "task2", "task3", "azure-conversation", "azure-code", "mooncake-conversation"]
    assert len((await client.get("/tasks")).json()["tasks"]) == 3
    assert (await begin(client, task_id="azure-code"))["episode_length"] == 200


async def test_what_was_understood_of_a_recording_is_told(client: httpx.AsyncClient) -> None:
    infos, grade = await play(client, {"traffic": {"text": azure_trace(), "replicas": 2}}, 2)
    told = infos[0]["settings"]["traffic"]
    assert (told["format"], told["requests"], told["skipped"], told["replicas"]) == ("azure", 1000, 0, 2)
    assert told["requests_per_s"] == pytest.approx(2.5, abs=0.3)
    # The task's baseline was measured on other traffic.
    assert "same recording" in grade["feedback"]
    assert "baseline" not in grade["feedback"]


@pytest.mark.parametrize("door", ["http", "websocket"])
async def test_a_long_reading_holds_up_nobody(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, door: str
) -> None:
    read_by: list[int] = []

    def read(path: Path, **options: Any) -> RequestTrace:
        read_by.append(threading.get_ident())
        return read_trace(path, **options)

    (tmp_path / "mine.csv").write_text(azure_trace())
    monkeypatch.setenv("INFERENCEGYM_TRAFFIC", str(tmp_path))
    monkeypatch.setattr("simulator.serving.traffic.on_offer.read_trace", read)
    config = {"traffic": {"file": "mine.csv"}}
    if door == "http":
        await begin(client, config=config)
    else:
        environment = make_environment(BoundEnv(get_spec("serving")))()
        await environment.reset_async(config=config)
        environment.close()
    assert read_by
    assert threading.get_ident() not in read_by


async def test_a_file_with_a_fault_is_read_once(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mine.csv").write_text(f"{HEAD}\n2023-11-16 18:15:46,-3,5\n")
    (tmp_path / "folder.csv").mkdir()
    monkeypatch.setenv("INFERENCEGYM_TRAFFIC", str(tmp_path))
    reads: list[str] = []

    def read(path: Path, **options: Any) -> RequestTrace:
        reads.append(path.name)
        return read_trace(path, **options)

    monkeypatch.setattr("simulator.serving.traffic.on_offer.read_trace", read)
    body = {"config": {"traffic": {"file": "mine.csv"}}}
    replies = [error_of(await client.post("/reset", json=body)) for _ in range(3)]
    assert reads == ["mine.csv"]
    assert replies[0] == replies[2]
    assert (replies[0]["code"], "line 2" in replies[0]["message"]) == ("bad_trace_file", True)
    (tmp_path / "mine.csv").write_text(azure_trace())
    assert (await client.post("/reset", json=body)).status_code == 200
    assert (await client.get("/info")).json()["traffic_files"] == ["mine.csv"]


async def test_a_torn_pack_does_not_take_info_with_it(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "torn.parquet").write_bytes(b"torn")
    monkeypatch.setenv("INFERENCEGYM_TRACE_PACKS", str(tmp_path))
    for path in ("/info", "/autoscaling/info"):
        reply = await client.get(path)
        assert reply.status_code == 200
        assert "torn" not in reply.json()["trace_packs"]
    assert "torn" in (await client.get("/info")).json()["unreadable_trace_packs"]
    for path in ("/reset", "/autoscaling/reset"):
        for name in ("torn", ""):
            reply = await client.post(path, json={"config": {"trace_pack": name}})
            assert reply.status_code == 422
            assert str(tmp_path) not in reply.text
