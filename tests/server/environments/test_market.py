"""Market-v0 at /market: OpenEnv's judges, one episode over each door, refusals that name the bounds."""

from __future__ import annotations

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

from env.market.episode import make_env
from inferencegym import InferenceGymClient, InferenceGymEnv
from inferencegym.errors import InvalidValueError
from inferencegym.gym.http_env import HTTPGymEnv
from inferencegym.models.market import PriceAction
from tests.live import ROOT
from tests.server.conftest import begin, error_of

MOUNT = "/market"


def test_openenv_validate_passes(url: str) -> None:
    command = [sys.executable, "-m", "openenv.cli", "validate", "--url", f"{url}{MOUNT}", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["passed"] is True


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the collector, about its WebSocket library
def test_openenvs_runtime_graders_pass(url: str) -> None:
    actions = [{}, {"price": 2.0}, {"change": 0.1}, {"change": -0.5}, {"price": 7.0}, *[{}] * 20]
    plan = RuntimePlan.model_validate(
        {
            "plan_schema_version": "1",
            "reset": {"episode_id": "market", "seed": 3, "options": {"task_id": "adversarial"}},
            "actions": actions,
        }
    )
    evidence = collect_runtime_evidence(f"{url}{MOUNT}", plan, episode_timeout_s=60)
    assert evidence.failure_reason is None
    manifest = OpenEnvYamlParser().parse(ROOT)
    for grader in (RewardWellFormedGrader(), ObservationSchemaGrader(), StateContractGrader()):
        result = grader.run(SimpleNamespace(manifest=manifest, runtime_evidence=evidence))
        assert result.status.value == "pass", result.evidence


BOUNDS = "a number from 1.0 to 7.0, the price bounds of scenario steady"


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (b'{"price":NaN}', BOUNDS),
        (b'{"price":-Infinity}', BOUNDS),
        (b'{"price":1e400}', BOUNDS),
        (b'{"price":-2}', BOUNDS),
        (b'{"price":0}', BOUNDS),
        (b'{"price":0.5}', BOUNDS),
        (b'{"price":7.000001}', BOUNDS),
        (b'{"price":"2"}', "action.price"),
        (b'{"price":true}', "action.price"),
        (b'{"price":[2]}', "action.price"),
        (b'{"change":0.51}', "from -0.5 to 0.5"),
        (b'{"change":NaN}', "from -0.5 to 0.5"),
        (b'{"price":2,"change":0.1}', "not both"),
        (b'{"prize":2}', "Did you mean price?"),
    ],
)
async def test_a_refused_price_names_the_bounds(client: httpx.AsyncClient, action: bytes, says: str) -> None:
    session = await begin(client, MOUNT)
    body = b'{"session_id":"' + session["session_id"].encode() + b'","action":' + action + b"}"
    reply = await client.post(f"{MOUNT}/step", content=body, headers={"content-type": "application/json"})
    assert reply.status_code == 422
    error = error_of(reply)
    assert says in f"{error['message']} {error['hint']}"
    state = await client.get(f"{MOUNT}/state", params={"session_id": session["session_id"]})
    assert state.json()["step_count"] == 0


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"scenario": "stedy"}, "steady"),
        ({"gpus": 1000}, "from 8 to 256"),
        ({"arrival_rate": -1}, "config.arrival_rate"),
        ({"arrival_rate": 4e-7}, "from 0.01 to 20.0"),
        ({"revenue": 2}, "config.revenue"),
        ({"revenue": 1e-9, "low_wait_time": 0, "fairness": 0, "market_activity": 0}, "must not all be 0"),
        ({"scenario": "surge", "arrival_rate": 20}, "config.arrival_rate: 20.0"),
    ],
)
async def test_a_refused_config_starts_nothing(
    client: httpx.AsyncClient, config: dict[str, Any], says: str
) -> None:
    reply = await client.post(f"{MOUNT}/reset", json={"config": config})
    assert reply.status_code == 422
    error = error_of(reply)
    assert says in f"{error['message']} {error['hint']}"
    reply = await client.post(
        f"{MOUNT}/grade", json={"task_id": "steady", "seed": 0, "actions": [{}], "config": config}
    )
    assert reply.status_code in (404, 422)  # 404: no such scenario


async def test_the_fewest_customers_can_be_graded(client: httpx.AsyncClient) -> None:
    body = {"task_id": "steady", "seed": 0, "actions": [{}] * 20, "config": {"arrival_rate": 0.01}}
    reply = await client.post(f"{MOUNT}/grade", json=body)
    assert reply.status_code == 200, reply.text
    assert 0.0 <= reply.json()["score"] <= 1.0


async def test_a_dead_market_is_terminated_and_graded_as_ended(client: httpx.AsyncClient) -> None:
    session = await begin(client, MOUNT, task_id="adversarial", seed=1)
    step: dict[str, Any] = {"done": False}
    actions: list[dict[str, float]] = []
    while not step["done"]:
        actions.append({"price": 7.0})
        body = {"session_id": session["session_id"], "action": actions[-1]}
        step = (await client.post(f"{MOUNT}/step", json=body)).json()
    assert (step["terminated"], step["truncated"]) == (True, False)
    after = await client.post(f"{MOUNT}/step", json={"session_id": session["session_id"], "action": {}})
    assert after.status_code == 409
    own = (await client.post(f"{MOUNT}/grader", json={"session_id": session["session_id"]})).json()
    again = {"task_id": "adversarial", "seed": 1, "actions": actions}
    replayed = (await client.post(f"{MOUNT}/grader", json=again)).json()
    assert own == replayed
    assert own["verified"]
    assert "died" in own["feedback"]
    assert "unfinished" not in own["feedback"]


def test_rest_websocket_gymnasium_and_this_process_play_one_episode(url: str) -> None:
    actions = [PriceAction(change=0.05 if step % 3 else -0.1) for step in range(40)]
    env = make_env("surge", 11)
    env.reset()
    expected = [env.step(action)[:2] for action in actions]
    with InferenceGymClient(url, "market") as client:
        session = client.reset("surge", seed=11)
        steps = [session.step(action) for action in actions]
        assert [(step.observation, step.reward) for step in steps] == expected
        assert session.grade().verified
    with InferenceGymEnv(url, "market").sync() as remote:
        remote.reset(task_id="surge", seed=11)
        assert [remote.step(action).reward for action in actions] == [reward for _, reward in expected]
    over_http = HTTPGymEnv(url, "surge", "market", action_mode="dict")
    over_http.reset(seed=11)
    rewards = [over_http.step({"change": [action.change]})[1] for action in actions]
    with pytest.raises(InvalidValueError, match=r"from -0\.2 to 0\.2"):
        over_http.step({"change": [0.3]})
    assert rewards == [reward for _, reward in expected]
    over_http.close()


async def test_baseline_tasks_and_info(client: httpx.AsyncClient) -> None:
    tasks = (await client.get(f"{MOUNT}/tasks")).json()["tasks"]
    assert [task["id"] for task in tasks] == ["steady", "surge", "adversarial"]
    scores = (await client.get(f"{MOUNT}/baseline")).json()["scores"]
    assert scores["steady"] > scores["surge"] > scores["adversarial"] > 0.5
    info = (await client.get(f"{MOUNT}/info")).json()
    assert set(info["scenarios"]) >= {"steady", "surge", "adversarial", "hobby", "research", "launch"}
