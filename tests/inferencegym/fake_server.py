"""A server in a function: answers as the HTTP API does, for tests of the client alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx

OBSERVATION: dict[str, Any] = {
    "queue_depth": 3,
    "mean_prompt_len": 96.0,
    "arrival_rate": 10.0,
    "kv_cache_occupancy": 0.25,
    "ttft_p50_ms": 40.0,
    "tpot_p50_ms": 12.5,
    "slo_violation_rate": 0.0,
    "gpu_memory_used_gb": 33.0,
    "spec_accept_rate": 0.0,
    "priority_distribution": {"interactive": 1.0, "batch": 0.0, "best_effort": 0.0},
    "timestep": 0,
    "cost_so_far": 0.0,
}

Step = httpx.Response | Exception | None
"""What happens to a request: a canned response, a failed transport, or (None) the fake's own answer."""


def page(status: int) -> httpx.Response:
    """An HTML page, as a proxy shows instead of the server behind it."""
    return httpx.Response(status, html="<html>building</html>")


def error(status: int, code: str, message: str, hint: str = "", **headers: str) -> httpx.Response:
    """The API's error body."""
    body = {"error": {"code": code, "message": message, "hint": hint}}
    return httpx.Response(status, json=body, headers=headers)


class FakeServer:
    """Counts steps of any number of sessions; ``script`` decides the fate of the first requests."""

    def __init__(self, *script: Step, episode_length: int = 3) -> None:
        self.script = list(script)
        self.requests: list[httpx.Request] = []
        self.steps: dict[str, int] = {}
        self.episode_length = episode_length

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        fate = self.script.pop(0) if self.script else None
        if isinstance(fate, Exception):
            raise fate
        return fate or self._answer(request)

    async def as_async(self, request: httpx.Request) -> httpx.Response:
        """The same for an asynchronous transport."""
        return self(request)

    @property
    def bodies(self) -> list[Any]:
        """JSON bodies of the requests so far (None where there is none)."""
        return [json.loads(request.content) if request.content else None for request in self.requests]

    def _answer(self, request: httpx.Request) -> httpx.Response:
        body: dict[str, Any] = json.loads(request.content) if request.content else {}
        if request.method == "DELETE":
            return self._delete(request.url.path.rsplit("/", 1)[-1])
        return httpx.Response(200, json=self._routes()[request.url.path.rsplit("/", 1)[-1]](request, body))

    def _routes(self) -> dict[str, Callable[[httpx.Request, dict[str, Any]], Any]]:
        return {
            "health": lambda *_: {"status": "healthy", "active_sessions": 2, "uptime_s": 1.5, "new": 1},
            "tasks": lambda *_: {"tasks": [_TASK]},
            "info": lambda *_: {"id": "InferenceGym/Serving-v0"},
            "baseline": lambda *_: {"scores": {"task1": 0.35}, "breakdowns": {}},
            "reset": lambda _, body: self._reset(body),
            "step": lambda _, body: self._step(body),
            "state": lambda request, _: self._state(request.url.params["session_id"]),
            "grader": lambda _, body: _grade(body),
        }

    def _delete(self, session_id: str) -> httpx.Response:
        if self.steps.pop(session_id, None) is None:
            return error(404, "session_not_found", f"session_id: {session_id!r} is unknown.")
        return httpx.Response(200, json={"session_id": session_id, "deleted": True})

    def _reset(self, body: dict[str, Any]) -> dict[str, Any]:
        session_id = f"s{len(self.steps)}"
        self.steps[session_id] = 0
        return {
            "session_id": session_id,
            "observation": OBSERVATION,
            "reward": None,
            "done": False,
            "episode_length": self.episode_length,
            "task_id": body.get("task_id", "task1"),
            "seed": body.get("seed", 42),
            "episode_id": body.get("episode_id", "e"),
        }

    def _step(self, body: dict[str, Any]) -> dict[str, Any]:
        self.steps[body["session_id"]] += 1
        count = self.steps[body["session_id"]]
        done = count >= self.episode_length
        return {
            "observation": {**OBSERVATION, "timestep": count},
            "reward": 0.25,
            "done": done,
            "terminated": False,
            "truncated": done,
            "info": {"timestep": count, "metrics": {"tokens_per_sec": 100.0 * count}, "masked_actions": []},
        }

    def _state(self, session_id: str) -> dict[str, Any]:
        return {
            "session_id": session_id,
            "episode_id": "e",
            "task_id": "task1",
            "seed": 42,
            "step_count": self.steps[session_id],
            "cumulative_reward": 0.25 * self.steps[session_id],
            "done": False,
            "workload_phase": "steady",
        }


_TASK = {
    "id": "task1",
    "name": "Static Uniform",
    "difficulty": "easy",
    "description": "d",
    "active_actions": ["kv_budget", "batch_size"],
    "episode_length": 200,
}


def _grade(body: dict[str, Any]) -> dict[str, Any]:
    verified = "episode_log" not in body
    return {
        "score": 0.5,
        "breakdown": {"throughput": 0.5},
        "feedback": "fair",
        "verified": verified,
        "steps": 3,
    }
