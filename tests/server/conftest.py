"""The server with two environments: Serving at / and the toy at /toy, in this process and over a socket."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from inferencegym import registry
from server.app import create_app
from server.operations.settings import Settings
from tests.server.toy_env import SPEC as TOY

QUIET: dict[str, Any] = {"log_level": "ERROR", "rate_limit": "off"}


def make_app(**settings: Any) -> FastAPI:
    """An application with both environments; the registry is left as it was."""
    registry.register(TOY)
    try:
        return create_app(Settings(**{**QUIET, **settings}))
    finally:
        registry.unregister(TOY.id)


def client_of(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


@pytest.fixture(scope="session")
def app() -> FastAPI:
    return make_app()


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as open_client:
        yield open_client


@contextmanager
def serve(app: FastAPI, **options: Any) -> Iterator[str]:
    """Serve an application from a thread, the way main() does; yields its address."""
    config = uvicorn.Config(
        app,
        port=0,
        ws_per_message_deflate=False,
        log_config=None,
        access_log=False,
        **{"http": "httptools", **options},
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.started
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.fixture(scope="session")
def url(app: FastAPI) -> Iterator[str]:
    with serve(app, ws_max_size=1024 * 1024) as address:
        yield address


@pytest.fixture(params=["", "/toy"], ids=["serving", "toy"])
def mount(request: pytest.FixtureRequest) -> str:
    return request.param


Post = Callable[..., Any]


def first_task(mount: str) -> str:
    return "calm" if mount else "task1"


def some_action(mount: str, step: int) -> dict[str, Any]:
    """A valid action, different from step to step."""
    if mount:
        return {"force": ((step % 5) - 2) / 2, "repeat": 1 + step % 3}
    return {"batch_size": 8 + 8 * (step % 20), "kv_budget": 0.3 + (step % 7) / 10}


async def begin(client: httpx.AsyncClient, mount: str = "", **body: Any) -> dict[str, Any]:
    reply = await client.post(f"{mount}/reset", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def play(
    client: httpx.AsyncClient, mount: str, session: dict[str, Any], steps: int
) -> list[dict[str, Any]]:
    """Step a session with :func:`some_action`; returns the replies."""
    replies = []
    for step in range(steps):
        reply = await client.post(
            f"{mount}/step", json={"session_id": session["session_id"], "action": some_action(mount, step)}
        )
        assert reply.status_code == 200, reply.text
        replies.append(reply.json())
    return replies


def error_of(reply: httpx.Response) -> dict[str, str]:
    """The error of a reply, which must have exactly the one format."""
    assert reply.headers["content-type"] == "application/json", reply.text
    body = reply.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "hint"}
    assert all(isinstance(value, str) for value in body["error"].values())
    assert body["error"]["message"]
    assert body["error"]["hint"]
    return body["error"]
