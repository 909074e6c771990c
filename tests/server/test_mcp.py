"""JSON-RPC at /mcp: what OpenEnv demands, and errors that JSON-RPC knows."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.server.test_ws import socket, talk

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602


def call(method: str, params: Any = None, id: Any = 1) -> dict[str, Any]:  # noqa: A002 (JSON-RPC's word)
    return {"jsonrpc": "2.0", "method": method, "params": params or {}, "id": id}


BAD = [
    ("empty object", b"{}", INVALID_REQUEST),
    ("no body", b"", PARSE_ERROR),
    ("not json", b"{", PARSE_ERROR),
    ("list", b"[]", PARSE_ERROR),
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
