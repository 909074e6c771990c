"""Routing-v0 at its mount: OpenEnv's own checks, hostile requests, clients, every way to one grade."""

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

from grader.routing.grader import GRADER
from inferencegym import InferenceGymClient, InferenceGymEnv
from inferencegym.models.routing import RoutingAction, RoutingObservation, Strategy
from inferencegym.registry import ROUTING, all_specs
from tests.env.routing.episodes import TASK_IDS, random_actions
from tests.live import ROOT
from tests.server.conftest import begin, error_of

MOUNT = ROUTING.mount


def plan(task_id: str) -> RuntimePlan:
    actions = [action.model_dump(mode="json") for action in random_actions(3, 12)]
    length = {"task_1": 1, "task_2": 3, "task_3": 5}.get(task_id, 12)
    return RuntimePlan.model_validate(
        {
            "plan_schema_version": "1",
            "reset": {"episode_id": "routing", "seed": 3, "options": {"task_id": task_id}},
            "actions": [{"strategy": "USE_CACHE"}, *actions][:length],
        }
    )


def test_validate_url_passes(url: str) -> None:
    command = [sys.executable, "-m", "openenv.cli", "validate", "--url", f"{url}{MOUNT}", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["passed"] is True


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the collector, about its WebSocket library
@pytest.mark.parametrize("task_id", ["task_3", "stream_3"])
@pytest.mark.parametrize(
    "grader", [RewardWellFormedGrader(), ObservationSchemaGrader(), StateContractGrader()]
)
def test_runtime_graders_pass(url: str, grader: Any, task_id: str) -> None:
    """With the range of rewards that this environment declares; a stream stays in the manifest's own."""
    manifest: Any = OpenEnvYamlParser().parse(ROOT)
    if task_id == "task_3":
        reward = manifest.reward.model_copy(update={"range": ROUTING.reward_range})
        manifest = manifest.model_copy(update={"reward": reward})
    asked = plan(task_id)
    evidence = collect_runtime_evidence(f"{url}{MOUNT}", asked, episode_timeout_s=30)
    assert evidence.failure_reason is None
    assert len(evidence.exchanges) == 2 + 2 * len(asked.actions)
    result = grader.run(SimpleNamespace(manifest=manifest, runtime_evidence=evidence))
    assert result.status.value == "pass", result.evidence


async def test_the_declared_range_of_rewards_is_served(client: httpx.AsyncClient) -> None:
    meta = (await client.get(f"{MOUNT}/tasks/meta")).json()
    assert meta["reward_range"] == [-2.0, 1.5]
    assert [task["id"] for task in meta["tasks"]] == TASK_IDS


@pytest.mark.parametrize(
    ("name", "task_id"), [("task_1", "task_1"), ("overuse", "task_2"), ("real_3", "stream_3")]
)
async def test_tasks_by_id_and_alias(client: httpx.AsyncClient, name: str, task_id: str) -> None:
    detail = (await client.get(f"{MOUNT}/tasks/{name}")).json()
    assert detail["id"] == task_id
    assert 0.0 < detail["facts"]["success_score"] < 1.0
    assert (await begin(client, MOUNT, task_id=name))["task_id"] == task_id


async def test_unknown_tasks_are_not_found_with_near_matches(client: httpx.AsyncClient) -> None:
    reply = await client.get(f"{MOUNT}/tasks/stream_4")
    assert reply.status_code == 404
    assert "stream_1" in error_of(reply)["hint"]


@pytest.mark.parametrize(
    "action",
    [
        {"strategy": "SLEEP"},
        {"strategy": 4},
        {"strategy": ["NONE"]},
        {"model_choice": "HUGE"},
        {"model_choice": 1.0},
        {"exit_flag": "yes"},
        {"exit_flag": 1},
        {"reward": 99},
        "NONE",
        None,
    ],
)
async def test_wrong_actions_are_refused_and_change_nothing(client: httpx.AsyncClient, action: Any) -> None:
    session = (await begin(client, MOUNT, task_id="stream_1"))["session_id"]
    before = (await client.get(f"{MOUNT}/state?session_id={session}")).json()
    reply = await client.post(f"{MOUNT}/step", json={"session_id": session, "action": action})
    assert reply.status_code == 422
    error_of(reply)
    assert (await client.get(f"{MOUNT}/state?session_id={session}")).json() == before


async def test_a_claimed_reward_changes_nothing(client: httpx.AsyncClient) -> None:
    session = (await begin(client, MOUNT, task_id="stream_2", seed=9))["session_id"]
    log = []
    actions = [action.model_dump(mode="json") for action in random_actions(1, 40)]
    for action in actions:
        reply = await client.post(f"{MOUNT}/step", json={"session_id": session, "action": action})
        log.append(reply.json())
    own = (await client.post(f"{MOUNT}/grade", json={"session_id": session})).json()
    forged = [
        {**entry, "reward": 1.0, "info": {**entry["info"], "reward_terms": {"score": 1.0}}} for entry in log
    ]
    claimed = (await client.post(f"{MOUNT}/grade", json={"task_id": "mixed", "episode_log": forged})).json()
    assert (claimed["score"], claimed["verified"]) == (own["score"], False)
    body = {"task_id": "mixed", "seed": 9, "actions": actions}
    replayed = (await client.post(f"{MOUNT}/grader/replay", json=body)).json()
    assert replayed == own
    assert replayed["score"] == GRADER.grade_replay("stream_2", 9, actions).score


async def test_the_baseline_is_graded_on_every_task(client: httpx.AsyncClient) -> None:
    reply = (await client.get(f"{MOUNT}/baseline")).json()
    assert list(reply["scores"]) == TASK_IDS
    assert all(0.0 < score < 1.0 for score in reply["scores"].values())


def test_the_typed_client_plays_a_region(url: str) -> None:
    with InferenceGymClient(url, env="routing") as client:
        session = client.reset("rough", seed=3, config={"region": "Mumbai", "start_hour": 7})
        assert isinstance(session.observation, RoutingObservation)
        assert session.observation.region == "Mumbai"
        assert 7.0 <= session.observation.hour < 8.0
        while not session.done:
            session.step(strategy="CALL_KB" if session.observation.kb_available else "NONE")
        grade = session.grade()
    assert grade.verified
    assert grade.figures["co2_g"] > 0.0


def test_the_openenv_client_plays(url: str) -> None:
    with InferenceGymEnv(url, env="routing").sync() as env:
        result: Any = env.reset(task_id="task_3", seed=2, episode_id="mine")
        total = 0.0
        while not result.done:
            cached = result.observation.query_id in result.observation.cache_contents
            strategy = Strategy.USE_CACHE if cached else Strategy.NONE
            result = env.step(RoutingAction(strategy=strategy))  # type: ignore[arg-type]
            total += result.reward
            assert set(result.metadata["info"]["reward_terms"]) >= {"score", "carbon_penalty"}
        state: Any = env.state()
    assert (state.episode_id, state.step_count, state.done) == ("mine", 5, True)
    assert state.cumulative_reward == pytest.approx(total)


async def test_mcp_offers_the_tools(client: httpx.AsyncClient) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    reply = (await client.post(f"{MOUNT}/mcp", json=body)).json()
    tools = {tool["name"]: tool for tool in reply["result"]["tools"]}
    assert set(tools) == {"task", "observe", "set_knobs", "grade"}
    assert set(tools["set_knobs"]["inputSchema"]["properties"]) == set(RoutingAction.model_fields)


@pytest.mark.parametrize("mount", [spec.mount for spec in all_specs()])
async def test_every_door_publishes_the_same_action(client: httpx.AsyncClient, mount: str) -> None:
    """/schema, /info and the tools: the fields that POST /step takes, with defaults that it takes."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    tools = (await client.post(f"{mount}/mcp", json=body)).json()["result"]["tools"]
    told = [
        (await client.get(f"{mount}/schema")).json()["action"],
        (await client.get(f"{mount}/info")).json()["action_schema"],
        next(tool["inputSchema"] for tool in tools if tool["name"] == "set_knobs"),
    ]
    fields = [
        {name: field["default"] for name, field in schema["properties"].items() if "default" in field}
        for schema in told
    ]
    assert fields[0] == fields[1] == fields[2]
    assert {frozenset(schema["properties"]) for schema in told} == {frozenset(told[1]["properties"])}
    session = (await begin(client, mount))["session_id"]
    reply = await client.post(f"{mount}/step", json={"session_id": session, "action": fields[0]})
    assert reply.status_code == 200


@pytest.mark.parametrize("start_hour", ["3", True, 3.5, 24, []])
async def test_a_start_hour_is_a_whole_number(client: httpx.AsyncClient, start_hour: Any) -> None:
    place = {"start_hour": start_hour}
    reply = await client.post(f"{MOUNT}/reset", json={"task_id": "stream_1", "config": place})
    assert reply.status_code == 422
    assert "start_hour" in error_of(reply)["message"]


async def test_a_grade_tells_whether_it_passed(client: httpx.AsyncClient) -> None:
    for actions, passed in (([{"strategy": "EARLY_EXIT"}], True), ([{"strategy": "USE_CACHE"}], False)):
        body = {"task_id": "task_1", "seed": 0, "actions": actions}
        assert (await client.post(f"{MOUNT}/grader/replay", json=body)).json()["passed"] is passed


async def test_sessions_do_not_mix(client: httpx.AsyncClient) -> None:
    """Two episodes stepped at once give what each gives alone."""

    async def lone(seed: int) -> list[Any]:
        session = await begin(client, MOUNT, task_id="stream_3", seed=seed)
        replies = []
        for action in random_actions(seed, 30):
            body = {"session_id": session["session_id"], "action": action.model_dump(mode="json")}
            replies.append((await client.post(f"{MOUNT}/step", json=body)).json())
            await asyncio.sleep(0)
        return replies

    apart = [await lone(1), await lone(2)]
    assert await asyncio.gather(lone(1), lone(2)) == apart
