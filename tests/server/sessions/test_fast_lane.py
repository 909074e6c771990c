"""The fast lane is a shortcut only: FastAPI's own routes give the same answers."""

from __future__ import annotations

import httpx
import pytest

from inferencegym.registry import SERVING
from server.bound import BoundEnv
from server.env_app import build_env_app
from server.operations.settings import Settings
from server.services import Services
from tests.server.conftest import client_of

REQUESTS = [
    ("GET", "/tasks", b""),
    ("GET", "/baseline", b""),
    ("GET", "/state", b""),
    ("GET", "/state?session_id=nope", b""),
    ("POST", "/step", b""),
    ("POST", "/step", b'{"session_id":"nope","action":{"batch_size":0}}'),
    ("POST", "/reset", b"["),
    ("POST", "/grader", b'{"task_id":"task1","seed":0,"actions":[{"batch_size":64},{}]}'),
    ("DELETE", "/step", b""),
]


@pytest.mark.parametrize(("method", "path", "body"), REQUESTS)
async def test_both_ways_answer_alike(client: httpx.AsyncClient, method: str, path: str, body: bytes) -> None:
    slow_app, _ = build_env_app(BoundEnv(SERVING), [], Services(Settings()))
    headers = {"content-type": "application/json"}
    async with client_of(slow_app) as slow:
        expected = await slow.request(method, path, content=body, headers=headers)
    reply = await client.request(method, path, content=body, headers=headers)
    assert reply.status_code == expected.status_code
    assert reply.content == expected.content
    assert reply.headers["content-type"] == expected.headers["content-type"]


async def test_a_trailing_slash_is_redirected_for_pages_only(client: httpx.AsyncClient) -> None:
    assert (await client.get("/tasks/")).status_code == 200
    reply = await client.get("/docs/")
    assert reply.status_code == 307
    assert reply.headers["location"].endswith("/docs")
