"""Clients send the token to its server, to nobody else, and show it to nobody."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest

from inferencegym import AsyncInferenceGymClient, InferenceGymClient
from inferencegym.connection import Connection
from inferencegym.errors import InferenceGymError, InvalidValueError, ServerUnavailableError
from inferencegym.token import with_token

TOKEN = "correct-horse-battery-staple"
SENT = f"Bearer {TOKEN}"


def sent_by(token: str | None = None, **options: Any) -> str | None:
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return httpx.Response(200, json={"status": "healthy"})

    with InferenceGymClient(
        "http://lab.example", transport=httpx.MockTransport(answer), token=token, **options
    ) as client:
        client.health()
    return seen[0]


def test_where_the_token_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sent_by() is None
    assert sent_by(TOKEN) == SENT
    monkeypatch.setenv("INFERENCEGYM_TOKEN", TOKEN)
    assert sent_by() == SENT
    assert sent_by("another-one") == "Bearer another-one"
    assert sent_by(headers={"Authorization": "Bearer hf_space"}) == "Bearer hf_space"
    with pytest.raises(InferenceGymError, match="the headers hold an authorization too"):
        sent_by(TOKEN, headers={"Authorization": "Bearer hf_space"})
    monkeypatch.setenv("INFERENCEGYM_TOKEN", "")
    assert sent_by() is None


@pytest.mark.parametrize("token", ["", "with space", "line\nbreak", "\u00e9", "x" * 513, 5, b"x"])
def test_what_no_header_carries_is_refused_and_not_shown(token: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidValueError) as caught:
        with_token({}, token)
    assert caught.value.field == "token"
    assert "not shown" in str(caught.value)
    assert not isinstance(token, str) or not token or token not in str(caught.value)
    if isinstance(token, str) and token:
        monkeypatch.setenv("INFERENCEGYM_TOKEN", token)
        with pytest.raises(InvalidValueError, match="INFERENCEGYM_TOKEN"):
            with_token({}, None)


async def test_it_is_not_shown() -> None:
    link = Connection.create("http://127.0.0.1:9", "serving", {"token": TOKEN, "wake_timeout_s": 0.0})
    assert TOKEN not in repr(link)
    with InferenceGymClient("http://127.0.0.1:9", token=TOKEN, wake_timeout_s=0.0) as client:
        with pytest.raises(ServerUnavailableError) as caught:
            client.health()
        assert TOKEN not in str(caught.value) + repr(client)
    async with AsyncInferenceGymClient("http://127.0.0.1:9", token=TOKEN, wake_timeout_s=0.0) as client:
        with pytest.raises(ServerUnavailableError) as caught:
            await client.health()
        assert TOKEN not in str(caught.value) + repr(client)


class _Elsewhere(BaseHTTPRequestHandler):
    seen: list[str | None]
    location = ""

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("authorization"))
        self.send_response(307 if self.location else 200)
        if self.location:
            self.send_header("location", self.location + self.path)
        self.send_header("content-type", "application/json")
        self.end_headers()
        if not self.location:
            self.wfile.write(b'{"status": "healthy"}')

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def two_servers() -> Iterator[tuple[str, Any, Any]]:
    """Two origins; the first one sends everybody on to the second."""
    kinds = [type("Server", (_Elsewhere,), {"seen": []}) for _ in range(2)]
    servers = [HTTPServer(("127.0.0.1", 0), kind) for kind in kinds]
    addresses = [f"http://127.0.0.1:{server.server_port}" for server in servers]
    kinds[0].location = addresses[1]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield addresses[0], kinds[0], kinds[1]
    for server in servers:
        server.shutdown()
        server.server_close()


def test_another_host_does_not_get_it(two_servers: tuple[str, Any, Any]) -> None:
    address, first, second = two_servers
    with InferenceGymClient(address, token=TOKEN) as client:
        assert client.health().status == "healthy"
    assert (first.seen, second.seen) == ([SENT], [None])
