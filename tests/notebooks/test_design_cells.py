"""Ten cells as a notebook of the serving design has them, with whole numbers for tasks, from top to bottom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.live import live_server

CELLS = (
    # 1. Is the server up?
    """
health = http.get("/health").json()
assert health["status"] == "healthy"
""",
    # 2. What is there to play?
    """
tasks = http.get("/tasks").json()["tasks"]
assert len(tasks) == 3
assert str(TASK) in tasks[TASK - 1]["aliases"]
""",
    # 3. Start an episode.
    """
reply = http.post("/reset", json={"task_id": TASK, "seed": 42}).raise_for_status().json()
session_id, observation = reply["session_id"], reply["observation"]
assert reply["task_id"] == f"task{TASK}"
assert len(observation) == 12
""",
    # 4. One step.
    """
action = {"kv_budget": 1.0, "spec_length": 0, "batch_size": 32, "prefill_disagg": False, "quant_tier": 0}
step = http.post("/step", json={"session_id": session_id, "action": action}).raise_for_status().json()
assert -1.0 <= step["reward"] <= 1.0
assert step["info"]["timestep"] == 1
""",
    # 5. To the end.
    """
log, actions = [step], [action]
while not step["done"]:
    action = {**action, "batch_size": 64 if step["observation"]["queue_depth"] > 20 else 32}
    step = http.post("/step", json={"session_id": session_id, "action": action}).json()
    log.append(step)
    actions.append(action)
assert len(log) == 200
""",
    # 6. What the server knows of it.
    """
state = http.get("/state", params={"session_id": session_id}).json()
assert (state["task_id"], state["seed"], state["step_count"]) == (f"task{TASK}", 42, 200)
""",
    # 7. Grade the log that we kept, whole and by hand.
    """
by_log = http.post("/grader", json={"task_id": TASK, "episode_log": log}).raise_for_status().json()
assert by_log["verified"] is False
fields = ("ttft_p50_ms", "ttft_p99_ms", "tpot_ms", "tokens_per_sec", "gpu_memory_gb", "cost_per_1k",
          "spec_accept_rate", "eviction_events", "slo_violations")
crafted = [
    {"action": a, "reward": s["reward"], "metrics": {name: s["info"]["metrics"][name] for name in fields}}
    for a, s in zip(actions, log)
]
by_hand = http.post("/grader", json={"task_id": TASK, "episode_log": crafted}).raise_for_status().json()
assert by_hand["score"] <= by_log["score"]
empty = http.post("/grader", json={"task_id": TASK, "episode_log": []}).raise_for_status().json()
assert (empty["score"], empty["feedback"], empty["verified"]) == (0.0, "Empty episode log.", False)
""",
    # 8. Grade the server's own record, and a replay: all three agree.
    """
by_session = http.post("/grader", json={"session_id": session_id}).json()
by_replay = http.post("/grader", json={"task_id": TASK, "seed": 42, "actions": actions}).json()
assert by_session["verified"] is by_replay["verified"] is True
assert by_log["score"] == by_session["score"] == by_replay["score"]
assert TASK != 3 or by_log["breakdown"]["slo"] == by_log["breakdown"]["slo_compliance"]
""",
    # 9. Against the baseline.
    """
baseline = http.get("/baseline").json()
low, high = baseline["expected_range"][f"task{TASK}"]
assert low <= baseline["scores"][f"task{TASK}"] <= high
""",
    # 10. Schemas and provenance.
    """
info = http.get("/info").json()
assert set(info["action_schema"]["properties"]) == set(action)
assert set(info["observation_schema"]["properties"]) == set(observation)
assert info["trace_pack"]["gpu"]
""",
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with live_server() as address:
        yield address


@pytest.mark.parametrize("task", [1, 2, 3])
def test_the_cells_run_from_top_to_bottom(url: str, task: int) -> None:
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
        names: dict[str, Any] = {"http": http, "TASK": task}
        for number, cell in enumerate(CELLS, 1):
            exec(compile(cell, f"cell {number}", "exec"), names)  # noqa: S102 (the cells above)
