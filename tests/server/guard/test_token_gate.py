"""With a token nothing but /health is open: over HTTP, WebSocket and MCP, for programs and for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from inferencegym import InferenceGymClient, InferenceGymEnv
from inferencegym.errors import UnauthorizedError
from server.guard.token_gate import COOKIE, WRONG_PER_MINUTE, TokenGate
from tests.server.conftest import client_of, error_of, make_app, serve

TOKEN = "correct-horse-battery-staple"
BEARER = {"authorization": f"Bearer {TOKEN}"}
HTML = {"accept": "text/html,application/xhtml+xml"}
APP = make_app(token=TOKEN)


@pytest.fixture(scope="module")
def locked() -> Iterator[str]:
    with serve(APP) as url:
        yield url


@pytest.fixture
def client(locked: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=locked, timeout=60) as open_client:
        yield open_client


def every_path() -> list[tuple[str, str]]:
    document: dict[str, Any] = APP.openapi()
    known = [(method, path) for path, each in document["paths"].items() for method in each]
    more = [
        "/",
        "/metrics",
        "/openapi.json",
        "/docs",
        "/web",
        "/web/",
        "/web/gradio_api/info",
        "/favicon.ico",
    ]
    more += ["/web-assets/player.js", "/nothing", "/health/x", "/healthx", "/x/health", "/mcp"]
    return [(method, path) for method, path in known if not path.endswith("/health")] + [
        (method, path) for method in ("get", "post", "head", "put") for path in more
    ]


@pytest.mark.parametrize("mount", ["", "/toy"])
@pytest.mark.parametrize(("method", "path"), every_path())
def test_nothing_is_open(client: httpx.Client, method: str, path: str, mount: str) -> None:
    reply = client.request(method, mount + path)
    assert reply.status_code == 401
    assert reply.headers["www-authenticate"].startswith("Bearer")
    if method != "head":
        assert error_of(reply)["code"] == "unauthorized"


@pytest.mark.parametrize("path", ["/health", "/toy/health", "/health/"])
def test_health_is(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == client.head(path).status_code == 200
    assert client.post(path).status_code == 401


@pytest.mark.parametrize(
    "given",
    [
        "", TOKEN, "Bearer", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
        "Bearer \u00e9",
    ],
)  # fmt: skip
async def test_what_is_not_the_token(given: str) -> None:
    async with client_of(make_app(token=TOKEN)) as client:
        reply = await client.get("/tasks", headers={"authorization": given.encode("latin-1")})
    assert reply.status_code == 401
    assert "not that of this server" in error_of(reply)["message"]
    assert TOKEN not in reply.text


def test_with_it_everything_is(client: httpx.Client) -> None:
    for path in ("/tasks", "/metrics", "/openapi.json", "/docs", "/toy/info", "/web-assets/player.js"):
        assert client.get(path, headers=BEARER).status_code == 200
    session = client.post("/reset", json={}, headers=BEARER).json()["session_id"]
    step = {"session_id": session, "action": {}}
    assert client.post("/step", json=step, headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200
    assert client.post("/step", json=step).status_code == 401
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert client.post("/mcp", json=initialize).status_code == 401
    assert client.post("/mcp", json=initialize, headers=BEARER).status_code == 200


@pytest.mark.parametrize("path", ["/ws", "/mcp", "/toy/ws"])
def test_websockets_ask_too(locked: str, path: str) -> None:
    address = locked.replace("http", "ws") + path
    for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": f"{COOKIE}=1.2"}):
        with pytest.raises(InvalidStatus) as caught, connect(address, additional_headers=headers):
            pass
        assert caught.value.response.status_code == 401
        assert json.loads(caught.value.response.body or b"")["error"]["code"] == "unauthorized"
    with connect(address, additional_headers=BEARER):
        pass


def test_a_browser_may_ask_before_it_asks(client: httpx.Client) -> None:
    headers = {
        "origin": "https://lab.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
    }
    reply = client.options("/step", headers=headers)
    assert reply.status_code == 200
    assert "authorization" in reply.headers["access-control-allow-headers"].lower()
    reply = client.post("/step", headers={"origin": "https://lab.example"})
    assert reply.status_code == 401
    assert reply.headers["access-control-allow-origin"] == "*"


# --- people ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["/", "/web", "/web/", "/docs", "/toy/", "/toy/web/"])
def test_a_person_signs_in(locked: str, page: str) -> None:
    with httpx.Client(base_url=locked, timeout=60) as browser:
        reply = browser.get(page, headers=HTML)
        assert reply.status_code == 401
        assert "<form" in reply.text
        assert TOKEN not in reply.text
        reply = browser.post(page, data={"token": TOKEN}, headers=HTML)
        assert (reply.status_code, reply.headers["location"]) == (303, page)
        cookie = reply.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert TOKEN not in cookie
        assert browser.get("/web/gradio_api/upload").status_code == 404  # it is closed to everybody
        assert browser.get("/web-assets/player.js").status_code == 200
        assert browser.get("/toy/web-assets/player.js").status_code == 200
        assert browser.get("/docs", headers=HTML).status_code == 200
        assert browser.get("/openapi.json").status_code == 200


def test_the_cookie_opens_the_page_and_nothing_else(locked: str) -> None:
    with httpx.Client(base_url=locked, timeout=60) as browser:
        browser.post("/web/", data={"token": TOKEN})
        for method, path in every_path():
            bare = path.rstrip("/")
            if path.startswith(("/web/", "/web-assets/")) or (
                method in ("get", "head") and bare in ("", "/web", "/docs", "/openapi.json", "/favicon.ico")
            ):
                continue
            assert browser.request(method, path).status_code == 401, (method, path)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"token=", b"token=wrong", b"other=1", b"token=" + b"x" * 100_000, b"\xff\xfe",
        b"a=1&b=1&c=1&d=1&e=1",
    ],
)  # fmt: skip
async def test_a_wrong_token_is_told(body: bytes) -> None:
    async with client_of(make_app(token=TOKEN)) as browser:
        headers = {"content-type": "application/x-www-form-urlencoded"}
        reply = await browser.post("/web/", content=body, headers=headers)
    assert reply.status_code == 401
    assert 'role="alert"' in reply.text
    assert "set-cookie" not in reply.headers


@pytest.mark.parametrize(
    "value", ["", "x", "1.2", "99999999999.", "-1.0", f"99999999999.{'0' * 64}", "\u0663.x"]
)
async def test_a_made_up_cookie(value: str) -> None:
    async with client_of(APP) as browser:
        cookie = f"{COOKIE}={value}".encode()
        assert (await browser.get("/web/", headers={"cookie": cookie})).status_code == 401


async def test_a_cookie_of_another_token_or_of_yesterday() -> None:
    def gate(token: str) -> Any:
        return TokenGate(APP, token, [""])

    async with client_of(APP) as browser:
        for value in (gate("another-token-altogether")._sealed(10**10), gate(TOKEN)._sealed(10**9)):
            headers = {"cookie": f"{COOKIE}={value}"}
            assert (await browser.get("/docs", headers=headers)).status_code == 401
        headers = {"cookie": f"{COOKIE}={gate(TOKEN)._sealed(10**10)}"}
        assert (await browser.get("/docs", headers=headers)).status_code == 200


@pytest.mark.parametrize("way", ["header", "form"])
async def test_trying_tokens_out_is_stopped(way: str) -> None:
    async def attempt(client: httpx.AsyncClient, token: str) -> httpx.Response:
        if way == "form":
            return await client.post("/web/", data={"token": token})
        return await client.get("/tasks", headers={"authorization": f"Bearer {token}"})

    async with client_of(make_app(token=TOKEN)) as client:
        for number in range(WRONG_PER_MINUTE):
            assert (await attempt(client, f"guess-{number}")).status_code == 401
        reply = await attempt(client, TOKEN)
        assert reply.status_code == 429, "whoever guesses is not told that the last guess was right"
        assert (await client.get("/health")).status_code == 200
    async with client_of(make_app(token=TOKEN)) as client:
        assert (await attempt(client, TOKEN)).status_code in (200, 303)
        for number in range(WRONG_PER_MINUTE + 5):
            client.cookies.clear()
            assert (await attempt(client, f"guess-{number}")).status_code == 401
        assert (await attempt(client, TOKEN)).status_code in (200, 303)


# --- our clients -------------------------------------------------------------------------------------------


def test_our_clients_send_it(locked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with InferenceGymClient(locked) as client, pytest.raises(UnauthorizedError):
        client.tasks()
    with InferenceGymClient(locked, token=TOKEN) as client:
        session = client.reset()
        assert session.step().reward is not None
        assert session.grade().steps == 1
    monkeypatch.setenv("INFERENCEGYM_TOKEN", TOKEN)
    with InferenceGymEnv(locked).sync() as env:
        assert env.reset(task_id="task1", seed=0).observation
