"""Five ways to the baseline's score, one number: /baseline, the CLI, REST, WebSocket and in-process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from agents.serving.agents import AGENTS
from env.serving.episode import make_env
from env.serving.tasks import TASKS
from grader.serving.grader import GRADER
from inferencegym import InferenceGymClient, InferenceGymEnv, ServeAction
from tests.live import ROOT, live_server

# The bands that the tasks were calibrated to.
BANDS = {"task1": (0.30, 0.40), "task2": (0.22, 0.35), "task3": (0.18, 0.30)}


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    with live_server() as url:
        yield url


def in_process(task_id: str) -> float:
    env, agent = make_env(task_id, 0), AGENTS["baseline"](task_id, 0)
    observation, log = env.reset(), []
    agent.reset()
    while not env.done:
        observation, reward, _, info = env.step(agent.act(observation))
        log.append({"action": info["action"], "reward": reward, "metrics": info["metrics"]})
    assert len(log) == 200
    return GRADER.grade_log(task_id, log).score


def over_rest(url: str, task_id: str) -> float:
    with InferenceGymClient(url) as client:
        session = client.reset(task_id, seed=0)
        while not session.done:
            session.step(ServeAction())
        grade = session.grade()
    assert grade.verified
    assert grade.steps == 200
    return grade.score


def over_websocket(url: str, task_id: str) -> float:
    """The wire carries metrics in ``info``; the log made of them is graded."""
    log = []
    with InferenceGymEnv(url).sync() as env:
        result = env.reset(task_id=task_id, seed=0)
        while not result.done:
            result = env.step(ServeAction())
            info = result.metadata["info"]
            log.append({"action": info["action"], "reward": result.reward, "metrics": info["metrics"]})
    reply = httpx.post(f"{url}/grader", json={"task_id": task_id, "episode_log": log}).json()
    assert reply["verified"] is False
    return reply["score"]


def over_cli(task_id: str) -> float:
    command = [
        "-m",
        "inferencegym.cli",
        "run",
        "--task",
        task_id,
        "--agent",
        "baseline",
        "--seed",
        "0",
        "--json",
    ]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["score"]


@pytest.mark.parametrize("task_id", list(TASKS))
def test_five_ways_give_one_number(server_url: str, task_id: str) -> None:
    baseline = [httpx.get(f"{server_url}/baseline").json()["scores"][task_id] for _ in range(2)]
    scores = [
        *baseline,
        in_process(task_id),
        over_rest(server_url, task_id),
        over_websocket(server_url, task_id),
        over_cli(task_id),
    ]
    assert len(set(scores)) == 1, scores
    low, high = BANDS[task_id]
    assert low <= scores[0] <= high
