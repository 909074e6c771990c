"""Episodes over OpenEnv's WebSocket, and everything that can be wrong with a message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.server.api.test_rest import begin
from tests.server.conftest import make_app, serve, some_action


@contextmanager
def socket(url: str, path: str = "/ws") -> Iterator[ClientConnection]:
    address = url.replace("http", "ws", 1) + path
    with connect(address, proxy=None, compression=None, close_timeout=2) as connection:
        yield connection


def talk(connection: ClientConnection, message: Any) -> dict[str, Any]:
    connection.send(message if isinstance(message, str | bytes) else json.dumps(message))
    return json.loads(connection.recv(timeout=10))


def step(connection: ClientConnection, action: dict[str, Any]) -> dict[str, Any]:
    return talk(connection, {"type": "step", "data": action})


async def test_the_same_episode_over_both_transports(url: str, client: Any, mount: str) -> None:
    session = await begin(client, mount, seed=9)
    with socket(url, f"{mount}/ws") as connection:
        first = talk(connection, {"type": "reset", "data": {"seed": 9}})["data"]
        own = {name: first["observation"][name] for name in session["observation"]}
        assert own == session["observation"]
        assert (first["reward"], first["done"]) == (None, False)
        assert first["observation"]["info"]["episode_length"] == session["episode_length"]
        for number in range(10):
            action = some_action(mount, number)
            over_ws = step(connection, action)["data"]
            body = {"session_id": session["session_id"], "action": action}
            over_http = (await client.post(f"{mount}/step", json=body)).json()
            for name in ("reward", "done"):
                assert over_ws[name] == over_http[name]
            for name in ("info", "terminated", "truncated"):
                assert over_ws["observation"][name] == over_http[name]
            assert {n: over_ws["observation"][n] for n in over_http["observation"]} == over_http[
                "observation"
            ]


def test_config_and_task_are_taken_at_reset(url: str) -> None:
    with socket(url) as connection:
        talk(
            connection,
            {"type": "reset", "data": {"task_id": "task2", "config": {"alpha": 0}, "episode_id": "e"}},
        )
        terms = step(connection, {})["data"]["observation"]["info"]["reward_terms"]
        assert next(iter(terms.values())) == 0
        state = talk(connection, {"type": "state"})["data"]
        assert (state["task_id"], state["episode_id"], state["step_count"]) == ("task2", "e", 1)


BAD_MESSAGES = [
    ("not json", "{", "JSON"),
    ("list", "[]", "object"),
    ("text", '"reset"', "object"),
    ("null", "null", "object"),
    ("binary", b"\x00\x01", "binary"),
    ("nan", '{"type":"step","data":{"kv_budget":NaN}}', "JSON"),
    ("infinity", '{"type":"step","data":{"kv_budget":Infinity}}', "JSON"),
    ("1e400", '{"type":"step","data":{"kv_budget":1e400}}', "action.kv_budget"),
    ("integer of 5000 digits", '{"type":"step","data":{"batch_size":' + "9" * 5000 + "}}", "JSON"),
    ("huge integer", '{"type":"step","data":{"batch_size":' + "9" * 400 + "}}", "action.batch_size"),
    ("deep nesting", '{"type":"step","data":' + "[" * 5000 + "]" * 5000 + "}", "recursion"),
    ("lone surrogate", '{"type":"\\ud800"}', "JSON"),
    ("no type", "{}", "type"),
    ("unknown type", '{"type":"fly"}', "fly"),
    ("type of a wrong type", '{"type":["step"]}', "type"),
    ("step without data", '{"type":"step"}', "Invalid message"),
    ("step with a list", '{"type":"step","data":[]}', "Invalid message"),
    ("step with an extra key", '{"type":"step","data":{},"x":1}', "Invalid message"),
    ("text for a number", '{"type":"step","data":{"batch_size":"1"}}', "action.batch_size"),
    ("boolean for a number", '{"type":"step","data":{"batch_size":true}}', "from 1 to 512"),
    ("out of range", '{"type":"step","data":{"batch_size":0}}', "from 1 to 512"),
    ("unknown knob", '{"type":"step","data":{"batchsize":1}}', "batch_size"),
    ("reset of an unknown task", '{"type":"reset","data":{"task_id":"task9"}}', "task9"),
    ("reset with a bad seed", '{"type":"reset","data":{"seed":-1}}', "seed"),
    ("reset with a text seed", '{"type":"reset","data":{"seed":"7"}}', "seed"),
    ("reset with an unknown key", '{"type":"reset","data":{"sed":1}}', "seed"),
    ("reset named self", '{"type":"reset","data":{"self":1}}', "self"),
    ("reset with a list", '{"type":"reset","data":[]}', "Invalid message"),
    ("reset with a bad config", '{"type":"reset","data":{"config":{"alpha":2}}}', "config.alpha"),
]


@pytest.mark.parametrize(
    ("message", "says"), [entry[1:] for entry in BAD_MESSAGES], ids=[e[0] for e in BAD_MESSAGES]
)
def test_a_bad_message_gets_an_error_and_changes_nothing(url: str, message: str, says: str) -> None:
    with socket(url) as connection:
        talk(connection, {"type": "reset", "data": {"task_id": "task3", "seed": 1}})
        step(connection, {})
        before = talk(connection, {"type": "state"})
        reply = talk(connection, message)
        assert reply["type"] == "error", reply
        assert says in json.dumps(reply["data"], ensure_ascii=False), reply
        assert talk(connection, {"type": "state"}) == before
        assert step(connection, {})["type"] == "observation"


def test_steps_at_the_wrong_time(url: str) -> None:
    with socket(url, "/toy/ws") as connection:
        assert "reset" in step(connection, {})["data"]["message"]
        assert talk(connection, {"type": "state"})["type"] == "error"
        talk(connection, {"type": "reset"})
        replies = [step(connection, {}) for _ in range(20)]
        assert replies[-1]["data"]["done"] is True
        before = talk(connection, {"type": "state"})
        assert step(connection, {})["type"] == "error"
        assert talk(connection, {"type": "state"}) == before
        assert talk(connection, {"type": "reset"})["data"]["done"] is False


def test_two_sockets_do_not_share_an_episode(url: str) -> None:
    with socket(url, "/toy/ws") as one, socket(url, "/toy/ws") as two:
        for connection in (one, two):
            talk(connection, {"type": "reset", "data": {"seed": 4}})
        alone = step(one, {"force": 1})
        assert step(two, {"force": 1})["data"] == alone["data"]
        step(one, {})
        assert talk(two, {"type": "state"})["data"]["step_count"] == 1


def test_a_message_above_the_limit_ends_the_socket_not_the_server(url: str) -> None:
    with socket(url) as connection:
        connection.send("x" * 3_000_000)
        with pytest.raises(ConnectionClosed):
            connection.recv(timeout=10)
    with socket(url) as connection:
        assert talk(connection, {"type": "reset"})["type"] == "observation"


def test_an_unknown_session_cannot_be_joined(url: str) -> None:
    with socket(url, "/ws?session_id=nope") as connection:
        reply = json.loads(connection.recv(timeout=10))
        assert (reply["type"], reply["data"]["code"]) == ("error", "SESSION_ERROR")


def test_capacity_is_said_and_comes_back() -> None:
    with serve(make_app(max_sockets=2)) as url:
        with socket(url) as one, socket(url) as two:
            for connection in (one, two):
                assert talk(connection, {"type": "reset"})["type"] == "observation"
            with socket(url) as three:
                refused = json.loads(three.recv(timeout=10))
                assert refused["data"]["code"] == "CAPACITY_REACHED"
            talk(two, {"type": "state"})
        with socket(url) as four:
            assert talk(four, {"type": "reset"})["type"] == "observation"


def test_an_idle_socket_is_closed_and_its_place_is_free() -> None:
    with serve(make_app(max_sockets=1, session_idle_timeout_s=0.4)) as url:
        with socket(url) as connection:
            for _ in range(4):
                assert talk(connection, {"type": "reset"})["type"] == "observation"
            goodbye = json.loads(connection.recv(timeout=10))
            assert goodbye["data"]["code"] == "SESSION_ERROR"
            assert "0.4 s" in goodbye["data"]["message"]
            with pytest.raises(ConnectionClosed):
                connection.recv(timeout=10)
        with socket(url) as connection:
            assert talk(connection, {"type": "reset"})["type"] == "observation"


def test_the_rate_limit_holds_for_connecting() -> None:
    with serve(make_app(rate_limit="1/minute", limit_loopback=True)) as url:
        with socket(url) as connection:
            for _ in range(5):
                assert talk(connection, {"type": "reset"})["type"] == "observation"
        with pytest.raises(Exception, match="429"), socket(url):
            pass
