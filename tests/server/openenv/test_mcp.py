"""JSON-RPC at /mcp: what OpenEnv demands, and errors that JSON-RPC knows."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from anyio import to_thread
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from tests.server.conftest import make_app, serve
from tests.server.openenv.test_ws import socket, talk

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602


def call(method: str, params: Any = None, id: Any = 1) -> dict[str, Any]:  # noqa: A002 (JSON-RPC's word)
    return {"jsonrpc": "2.0", "method": method, "params": params or {}, "id": id}


BAD = [
    ("empty object", b"{}", INVALID_REQUEST),
    ("no body", b"", PARSE_ERROR),
    ("not json", b"{", PARSE_ERROR),
    ("list", b"[]", INVALID_REQUEST),
    ("batch", json.dumps([call("ping")]).encode(), INVALID_REQUEST),
    ("nan", b'{"jsonrpc":"2.0","method":"x","id":NaN}', PARSE_ERROR),
    ("lone surrogate", b'{"jsonrpc":"2.0","method":"\\ud800"}', PARSE_ERROR),
    ("invalid utf-8", b'{"jsonrpc":"2.0","method":"\xff"}', PARSE_ERROR),
    (
        "deep nesting",
        b'{"jsonrpc":"2.0","method":"x","params":' + b"[" * 5000 + b"]" * 5000 + b"}",
        PARSE_ERROR,
    ),
    ("wrong version", json.dumps(call("tools/list") | {"jsonrpc": "1.0"}).encode(), INVALID_REQUEST),
    ("params of a wrong type", json.dumps(call("tools/list") | {"params": [1]}).encode(), INVALID_REQUEST),
    ("unknown method", json.dumps(call("fly")).encode(), NO_METHOD),
    ("tool without a name", json.dumps(call("tools/call")).encode(), INVALID_PARAMS),
    (
        "tools of an unknown session",
        json.dumps(call("tools/list", {"session_id": "nope"})).encode(),
        INVALID_PARAMS,
    ),
    ("close without a session", json.dumps(call("openenv/session/close")).encode(), INVALID_PARAMS),
    (
        "close of an unknown session",
        json.dumps(call("openenv/session/close", {"session_id": "x"})).encode(),
        INVALID_PARAMS,
    ),
]

# A socket has its own session, so another one is not looked for; and it cannot send an empty message.
ON_SOCKET = [entry for entry in BAD[2:] if entry[0] != "tools of an unknown session"]


@pytest.mark.parametrize(("body", "code"), [entry[1:] for entry in BAD], ids=[entry[0] for entry in BAD])
async def test_a_bad_call_over_http(client: httpx.AsyncClient, mount: str, body: bytes, code: int) -> None:
    reply = await client.post(f"{mount}/mcp", content=body)
    assert reply.status_code == 200
    assert reply.json()["jsonrpc"] == "2.0"
    assert reply.json()["error"]["code"] == code


@pytest.mark.parametrize(
    ("body", "code"), [entry[1:] for entry in ON_SOCKET], ids=[entry[0] for entry in ON_SOCKET]
)
def test_a_bad_call_over_the_websocket_leaves_it_open(url: str, body: bytes, code: int) -> None:
    with socket(url, "/mcp") as connection:
        try:
            message: str | bytes = body.decode()
        except UnicodeDecodeError:
            message = body
        assert talk(connection, message)["error"]["code"] == code
        assert talk(connection, call("fly", id=7)) == {
            "jsonrpc": "2.0",
            "id": 7,
            "error": {"code": NO_METHOD, "message": "Method not found: fly", "data": None},
        }


async def test_a_session_can_be_made_joined_and_closed(client: httpx.AsyncClient, url: str) -> None:
    async with httpx.AsyncClient(base_url=url, trust_env=False) as live:
        made = (await live.post("/toy/mcp", json=call("openenv/session/create"))).json()
        identity = made["result"]["session_id"]
        with socket(url, f"/toy/ws?session_id={identity}") as connection:
            assert talk(connection, {"type": "reset"})["type"] == "observation"
        closed = (
            await live.post("/toy/mcp", json=call("openenv/session/close", {"session_id": identity}))
        ).json()
        assert closed["result"] == {"session_id": identity, "closed": True}


HANDSHAKE = call("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}})


async def test_the_handshake_gives_out_a_session(client: httpx.AsyncClient, mount: str) -> None:
    reply = await client.post(f"{mount}/mcp", json=HANDSHAKE)
    result = reply.json()["result"]
    assert result["protocolVersion"] == "2025-06-18"
    assert result["capabilities"] == {"tools": {}}
    assert set(result["serverInfo"]) == {"name", "title", "version"}
    headers = {"Mcp-Session-Id": reply.headers["mcp-session-id"]}
    begun = call("notifications/initialized")
    del begun["id"]
    noted = await client.post(f"{mount}/mcp", json=begun, headers=headers)
    assert (noted.status_code, noted.content) == (202, b"")
    pinged = await client.post(f"{mount}/mcp", json=call("ping", id="p"), headers=headers)
    assert pinged.json() == {"jsonrpc": "2.0", "id": "p", "result": {}}
    listed = await client.post(f"{mount}/mcp", json=call("tools/list"), headers=headers)
    assert len(listed.json()["result"]["tools"]) == 4


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**70)])
async def test_an_id_of_any_size_comes_back(client: httpx.AsyncClient, number: int) -> None:
    started = await client.post("/mcp", json=call("initialize", {"protocolVersion": "2025-03-26"}, number))
    headers = {"mcp-session-id": started.headers["mcp-session-id"]}
    listed = await client.post("/mcp", json=call("tools/list", id=number), headers=headers)
    refused = await client.post("/mcp", json=call("tools/call", {"name": "fly"}, number), headers=headers)
    replies = [started, listed, refused]
    assert [(reply.status_code, json.loads(reply.content)["id"]) for reply in replies] == [(200, number)] * 3


async def test_an_unknown_version_is_answered_with_a_known_one(client: httpx.AsyncClient) -> None:
    for params in ({"protocolVersion": "1999-01-01"}, {}, [1]):
        reply = await client.post("/mcp", json=call("initialize") | {"params": params})
        assert reply.json()["result"]["protocolVersion"] == "2025-11-25"


async def test_a_session_header_that_is_unknown_says_initialize(client: httpx.AsyncClient) -> None:
    reply = await client.post("/mcp", json=call("tools/list"), headers={"Mcp-Session-Id": "gone"})
    assert reply.status_code == 404
    assert "initialize" in reply.json()["error"]["message"]


async def test_a_tool_without_a_session_says_how_to_get_one(client: httpx.AsyncClient) -> None:
    reply = await client.post("/mcp", json=call("tools/call", {"name": "observe"}))
    (part,) = reply.json()["result"]["content"]
    assert "openenv/session/create" in part["text"]
    assert "Mcp-Session-Id" in part["text"]


def test_the_handshake_over_the_websocket(url: str, mount: str) -> None:
    with socket(url, f"{mount}/mcp") as connection:
        assert talk(connection, HANDSHAKE)["result"]["capabilities"] == {"tools": {}}
        connection.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        assert talk(connection, call("ping", id=3)) == {"jsonrpc": "2.0", "id": 3, "result": {}}
        assert len(talk(connection, call("tools/list"))["result"]["tools"]) == 4


async def test_a_standard_client_plays(url: str, mount: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        opened = streamable_http_client(f"{url}{mount}/mcp", http_client=http)
        async with opened as (reading, writing, session_id), ClientSession(reading, writing) as session:
            await session.initialize()
            await session.send_ping()
            assert {tool.name for tool in (await session.list_tools()).tools} >= {"observe", "set_knobs"}
            assert (await session.call_tool("observe", {})).isError
            with socket(url, f"{mount}/ws?session_id={session_id()}") as runner:
                await to_thread.run_sync(talk, runner, {"type": "reset"})
                assert not (await session.call_tool("set_knobs", {})).isError
                assert not (await session.call_tool("grade", {})).isError


def test_idle_mcp_sessions_and_connections_do_not_lock_each_other_out() -> None:
    with serve(make_app(max_sockets=2)) as url, httpx.Client(base_url=url, trust_env=False) as http:

        def post(method: str, **params: Any) -> dict[str, Any]:
            return http.post("/mcp", json=call(method, params)).json()

        def made() -> str:
            return post("openenv/session/create")["result"]["session_id"]

        first, second = made(), made()
        assert "result" in post("tools/list", session_id=first)
        third = made()
        assert "error" in post("tools/list", session_id=second)
        for _ in range(20):
            first, third = third, made()
        with ExitStack() as stack:
            for _ in range(2):
                player = stack.enter_context(socket(url))
                assert talk(player, {"type": "reset"})["type"] == "observation"
            refused = json.loads(stack.enter_context(socket(url)).recv(timeout=10))
            assert (refused["data"]["active_sessions"], refused["data"]["max_sessions"]) == (2, 2)
            for identity in (first, third):
                player = stack.enter_context(socket(url, f"/ws?session_id={identity}"))
                assert talk(player, {"type": "reset"})["type"] == "observation"
            assert post("openenv/session/create")["error"]["data"]["max_sessions"] == 2
            assert "mcp-session-id" not in http.post("/mcp", json=HANDSHAKE).headers
