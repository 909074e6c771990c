"""Autoscaling-v0 over HTTP: one episode from reset to grade, bad input, and what OpenEnv's tools say."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from openenv.validation.graders.runtime import (
    ObservationSchemaGrader,
    RewardWellFormedGrader,
    StateContractGrader,
)
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import RuntimePlan

from inferencegym import InferenceGymClient
from inferencegym.errors import InferenceGymError
from inferencegym.models.autoscaling import SCENARIOS, AutoscalingObservation
from tests.live import ROOT
from tests.server.conftest import begin, error_of

MOUNT = "/autoscaling"


async def step(client: httpx.AsyncClient, session: dict[str, Any], **action: Any) -> httpx.Response:
    body = {"session_id": session["session_id"], "action": action}
    return await client.post(f"{MOUNT}/step", json=body)


async def test_an_episode_from_reset_to_grade(client: httpx.AsyncClient) -> None:
    session = await begin(client, MOUNT, task_id="high_traffic", seed=9)
    assert session["episode_length"] == 240
    actions = [{"target_replicas": 12, "rationale": "rush hour"}, *[{"action": "no_op"}] * 239]
    log = []
    for action in actions:
        reply = (await step(client, session, **action)).json()
        AutoscalingObservation.model_validate(reply["observation"])
        log.append(reply)
    assert log[-1]["truncated"] is True
    assert (await step(client, session)).status_code == 409
    grades = [
        (await client.post(f"{MOUNT}/grader", json=body)).json()
        for body in (
            {"session_id": session["session_id"]},
            {"task_id": "high_traffic", "seed": 9, "actions": actions},
            {"task_id": "high_traffic", "episode_log": log},
        )
    ]
    assert [grade["verified"] for grade in grades] == [True, True, False]
    assert len({grade["score"] for grade in grades}) == 1
    assert grades[0]["passed"] is False
    assert grades[0]["figures"]["replica_hours"] == pytest.approx(12.0, abs=0.3)
    state = (await client.get(f"{MOUNT}/state", params={"session_id": session["session_id"]})).json()
    assert state["step_count"] == 240
    assert state["replica_hours"] == pytest.approx(grades[0]["figures"]["replica_hours"])


async def test_two_sessions_do_not_mix(client: httpx.AsyncClient) -> None:
    sessions = [await begin(client, MOUNT, seed=seed) for seed in (1, 2)]
    steps = [step(client, sessions[turn % 2], action="scale_up") for turn in range(40)]
    replies = [reply.json() for reply in await asyncio.gather(*steps)]
    for index in (0, 1):
        assert sorted(r["info"]["timestep"] for r in replies[index::2]) == list(range(1, 21))


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ({"action": "scale_sideways"}, ("scale_sideways", "scale_down", "no_op", "scale_up")),
        ({"target_replicas": 25}, ("target_replicas", "25", "24")),
        ({"target_replicas": 0}, ("target_replicas", "0", "1")),
        ({"target_replicas": "many"}, ("target_replicas", "many")),
        ({"rationale": "x" * 281}, ("rationale", "280")),
        ({"action": "scale_down", "target_replicas": 3}, ("scale_down", "3", "one of them")),
        ({"replicas": 3}, ("replicas",)),
    ],
)
async def test_bad_actions_are_422_and_change_nothing(
    client: httpx.AsyncClient, action: dict[str, Any], says: tuple[str, ...]
) -> None:
    session = await begin(client, MOUNT)
    reply = await step(client, session, **action)
    assert reply.status_code == 422
    message = error_of(reply)["message"]
    assert all(part in message for part in says), message
    state = (await client.get(f"{MOUNT}/state", params={"session_id": session["session_id"]})).json()
    assert state["step_count"] == 0


async def test_scenarios_are_options_and_tasks(client: httpx.AsyncClient) -> None:
    usual = (await client.get(f"{MOUNT}/tasks")).json()["tasks"]
    assert [task["id"] for task in usual] == ["balanced", "high_traffic", "failure_heavy"]
    everything = (await client.get(f"{MOUNT}/tasks", params={"all": "true"})).json()["tasks"]
    assert [task["id"] for task in everything[3:]] == list(SCENARIOS)
    session = await begin(client, MOUNT, config={"scenario": "rolling_update"})
    state = (await client.get(f"{MOUNT}/state", params={"session_id": session["session_id"]})).json()
    assert state["scenario"] == "rolling_update"
    reply = await client.post(f"{MOUNT}/reset", json={"config": {"scenario": "earthquake"}})
    assert reply.status_code == 422
    assert "rolling_update" in error_of(reply)["message"]


def test_validate_url_passes(url: str) -> None:
    command = [sys.executable, "-m", "openenv.cli", "validate", "--url", f"{url}{MOUNT}", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["passed"] is True


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the collector, about its WebSocket library
@pytest.mark.parametrize(
    "grader", [RewardWellFormedGrader(), ObservationSchemaGrader(), StateContractGrader()]
)
def test_runtime_graders_pass(url: str, grader: Any) -> None:
    plan = RuntimePlan.model_validate(
        {
            "plan_schema_version": "1",
            "reset": {"episode_id": "fleet", "seed": 3, "options": {"task_id": "failure_heavy"}},
            "actions": [{"action": "scale_up"}, {}, {"target_replicas": 2}, *[{"action": "no_op"}] * 40],
        }
    )
    evidence = collect_runtime_evidence(f"{url}{MOUNT}", plan, episode_timeout_s=30)
    assert evidence.failure_reason is None
    manifest = OpenEnvYamlParser().parse(ROOT)
    result = grader.run(SimpleNamespace(manifest=manifest, runtime_evidence=evidence))
    assert result.status.value == "pass", result.evidence


def test_the_client_takes_a_move_by_name(url: str) -> None:
    with InferenceGymClient(url, env="autoscaling") as client:
        session = client.reset("balanced", seed=3)
        up = session.step(action="scale_up", rationale="traffic is rising")
        assert up.observation.replicas_target == session.step("no_op").observation.replicas_target
        assert up.observation.last_action == "scale_up"
        assert session.log[0]["action"] == {"action": "scale_up", "rationale": "traffic is rising"}
        with pytest.raises(InferenceGymError, match="explode"):
            session.step(action="explode")


async def test_another_gpu_is_another_answer(client: httpx.AsyncClient) -> None:
    ready = [
        (await begin(client, MOUNT, seed=3, config=config))["observation"]["replicas_ready"]
        for config in ({}, {"trace_pack": "h100_llama3_8b"})
    ]
    assert ready[0] > ready[1]
    reply = await client.post(f"{MOUNT}/reset", json={"config": {"trace_pack": "/etc/passwd"}})
    assert reply.status_code in (404, 422)
    assert "h100_llama3_8b" in reply.text
