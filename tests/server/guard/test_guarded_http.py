"""Attacks over real sockets: heads and bodies that are too large or never end, and places held for nothing.

The times are set to a second or less; what is asserted is that an answer comes at all.
"""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send
from websockets.sync.client import connect

from server.guard.connections import Connections
from server.guard.guarded_http import protocols
from server.operations.settings import Settings
from tests.live import ROOT, free_port, wait_for_health
from tests.server.conftest import make_app, serve

DEADLINE_S = 60
"""Far beyond every limit set here."""
SHORT: dict[str, Any] = {"header_timeout_s": 0.6, "body_timeout_s": 0.6}
POST = b"POST /reset HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
GET = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"


@contextmanager
def guarded(app: Any, **settings: Any) -> Generator[tuple[str, Connections]]:
    ledger = Connections(Settings(**settings))
    with serve(app, **protocols(ledger)) as url:
        yield url, ledger


@pytest.fixture(scope="module")
def short() -> Iterator[str]:
    with guarded(make_app(), **SHORT) as (url, _):
        yield url


def open_socket(url: str) -> socket.socket:
    parsed = httpx.URL(url)
    return socket.create_connection((parsed.host, parsed.port or 80), timeout=DEADLINE_S)


def rest_of(sock: socket.socket) -> bytes:
    """All that comes until the server closes."""
    parts: list[bytes] = []
    with suppress(ConnectionResetError):
        while part := sock.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def reply_from(sock: socket.socket) -> bytes:
    """One reply whose body is a JSON object without others in it."""
    answer = b""
    while not answer.endswith(b"}"):
        answer += sock.recv(65_536)
    return answer


def error_in(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, error and head of the last reply in an answer, which must have the one format."""
    head, _, body = answer[answer.rindex(b"HTTP/1.1 ") :].partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert b"content-type: application/json" in head
    error = json.loads(body)["error"]
    assert set(error) == {"code", "message", "hint"}
    return int(head.split()[1]), error, head


def send_until_closed(sock: socket.socket, part: bytes, pause_s: float = 0.0) -> None:
    deadline = time.monotonic() + DEADLINE_S
    with suppress(BrokenPipeError, ConnectionResetError):
        while time.monotonic() < deadline:
            sock.sendall(part)
            time.sleep(pause_s)
        raise AssertionError("the server goes on reading")


# --- heads -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nx-big: " + b"a" * 20_000_000,
        b"GET /" + b"a" * 20_000_000,
        b"GET /health HTTP/1.1\r\n" + b"x-many: 1\r\n" * 200 + b"\r\n",
        b"GET /health HTTP/1.1\r\n" + b"".join(b"x-%d: 1\r\n" % n for n in range(100_000)),
        b"GET /health HTTP/1.1\r\nx-big: " + b"a" * 60_000 + b"\r\n\r\n",
        GET[:-2] + b"\r\n" + b"GET /health HTTP/1.1\r\nx-big: " + b"a" * 60_000 + b"\r\n\r\n",
        b"GET /ws HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\nx: " + b"a" * 60_000 + b"\r\n\r\n",
        b"\r\n" * 100_000,
    ],
    ids=[
        "one header",
        "the path",
        "number",
        "number, endless",
        "whole",
        "pipelined",
        "websocket",
        "empty lines",
    ],
)
def test_a_head_that_is_too_large(short: str, head: bytes) -> None:
    with open_socket(short) as sock:
        with suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(head)
        answer = rest_of(sock)
    if answer.count(b"HTTP/1.1 ") == 1 or b"431" in answer:  # pipelined behind a reply, it may just be closed
        assert error_in(answer)[:2][0] == 431
        assert error_in(answer)[1]["code"] == "headers_too_large"


@pytest.mark.parametrize("trickle", [b"", b"a", b"x: y\r\n"], ids=["silent", "a byte", "a header"])
@pytest.mark.parametrize("begun", [b"G", b"GET / HTTP/1.1\r\nhost: x\r\n"], ids=["line", "headers"])
def test_a_head_that_never_ends(short: str, begun: bytes, trickle: bytes) -> None:
    with open_socket(short) as sock:
        sock.sendall(begun)
        if trickle and len(begun) > 1:
            send_until_closed(sock, trickle, 0.05)
            return
        status, error, head = error_in(rest_of(sock))
    assert (status, error["code"]) == (408, "request_timeout")
    assert b"retry-after: " in head


def test_a_connection_without_a_request_is_closed(short: str) -> None:
    with open_socket(short) as sock:
        assert rest_of(sock) == b""


@pytest.mark.parametrize("after", [b"\n", b"\r\n", b"G"])
def test_bytes_after_a_reply_hold_nothing_open(short: str, after: bytes) -> None:
    with open_socket(short) as sock:
        sock.sendall(GET)
        assert b"200" in sock.recv(65_536)
        sock.sendall(after)
        assert error_in(rest_of(sock))[0] == 408


def test_what_is_not_http(short: str) -> None:
    with open_socket(short) as sock:
        sock.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert error_in(rest_of(sock))[:2][0] == 400


# --- bodies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [b"content-length: 1000\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n"],
    ids=["length", "chunked"],
)
@pytest.mark.parametrize("path", [b"/reset", b"/step", b"/grader", b"/mcp", b"/toy/reset"])
def test_a_body_that_never_comes(short: str, path: bytes, head: bytes) -> None:
    before = httpx.get(f"{short}/health").json()["active_sessions"]
    with open_socket(short) as sock:
        sock.sendall(POST.replace(b"/reset", path) + head)
        status, error, _ = error_in(rest_of(sock))
    assert (status, error["code"]) == (408, "request_timeout")
    assert httpx.get(f"{short}/health").json()["active_sessions"] == before


def test_a_byte_now_and_then_is_no_body(short: str) -> None:
    with open_socket(short) as sock:
        sock.sendall(POST + b"content-length: 1000\r\n\r\n")
        send_until_closed(sock, b" ", 0.05)


def test_chunk_extensions_and_trailers_have_a_limit(short: str) -> None:
    for endless in (b"1;" + b"x" * 5_000_000, b"1\r\n \r\n0\r\n" + b"trailer: x\r\n" * 1_000_000):
        with open_socket(short) as sock:
            with suppress(BrokenPipeError, ConnectionResetError):
                sock.sendall(POST + b"transfer-encoding: chunked\r\n\r\n" + endless)
            assert b"HTTP/1.1 431 " in rest_of(sock)


def test_a_body_that_nobody_reads_is_cut_off(short: str) -> None:
    with open_socket(short) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000000\r\n\r\n")
        send_until_closed(sock, b"x" * 100_000, 0.01)


def test_slow_bodies_hold_neither_a_session_nor_a_grading(short: str) -> None:
    with httpx.Client(base_url=short, timeout=DEADLINE_S) as client, ExitStack() as slow:
        session = client.post("/reset", json={}).json()["session_id"]
        begun = b'{"session_id": "%s"' % session.encode()
        for path in (b"/step", b"/grader", b"/step", b"/grader"):
            sock = slow.enter_context(open_socket(short))
            sock.sendall(POST.replace(b"/reset", path) + b"content-length: 1000\r\n\r\n" + begun)
        for _ in range(20):
            assert client.post("/step", json={"session_id": session, "action": {}}).status_code == 200
        assert client.post("/grader", json={"session_id": session}).status_code == 200


# --- who must not notice -----------------------------------------------------------------------------------


async def _patient(scope: Scope, receive: Receive, send: Send) -> None:
    """Takes its time to answer, and more time while it answers."""
    if scope["type"] == "lifespan":
        return
    body = b""
    more = True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await asyncio.sleep(1.5)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(3):
        await send({"type": "http.response.body", "body": b"data\n", "more_body": True})
        await asyncio.sleep(0.7)
    await send({"type": "http.response.body", "body": b"%d" % len(body)})


def test_replies_may_take_any_time() -> None:
    with guarded(_patient, **SHORT) as (url, _), httpx.Client(base_url=url, timeout=DEADLINE_S) as client:
        for _ in range(2):
            assert client.get("/").text == "data\n" * 3 + "0"
        assert client.post("/", content=b"x" * 3_000_000).text == "data\n" * 3 + "3000000"


def test_a_body_that_comes_on_has_its_time() -> None:
    # 1.5 s for a limit of 0.6: a slow line, not a stuck one.
    with guarded(_patient, **SHORT) as (url, _), open_socket(url) as sock:
        part = b"x" * 20_000
        sock.sendall(b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 300000\r\n\r\n")
        for _ in range(15):
            sock.sendall(part)
            time.sleep(0.1)
        assert b"300000" in rest_of(sock)


def test_two_hundred_keep_alive_connections_play_on() -> None:
    with guarded(make_app(), header_timeout_s=3.0, body_timeout_s=3.0) as (url, ledger), ExitStack() as held:
        sockets = [held.enter_context(open_socket(url)) for _ in range(200)]
        for pause_s in (4.0, 0.0):  # longer than the times for head and body
            for sock in sockets:
                sock.sendall(GET)
                assert b" 200 OK" in reply_from(sock)
            time.sleep(pause_s)
        assert len(ledger) == 200
        assert not ledger.refused


def test_a_websocket_may_be_silent(short: str) -> None:
    with connect(short.replace("http", "ws") + "/ws") as socket_open:
        socket_open.send(json.dumps({"type": "reset", "data": {}}))
        assert "observation" in str(socket_open.recv())
        time.sleep(1.5)
        socket_open.send(json.dumps({"type": "state"}))
        assert "step_count" in str(socket_open.recv())


def test_places_come_back() -> None:
    with guarded(make_app(), **SHORT) as (url, ledger):
        for _ in range(3):
            httpx.get(f"{url}/health")
            with connect(url.replace("http", "ws") + "/ws"):
                assert len(ledger) >= 1
        deadline = time.monotonic() + DEADLINE_S
        while len(ledger) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(ledger) == 0


# --- places ------------------------------------------------------------------------------------------------


def test_who_holds_places_for_nothing_loses_them() -> None:
    with guarded(make_app(), max_connections=20) as (url, ledger), ExitStack() as held:
        for _ in range(60):
            held.enter_context(open_socket(url)).sendall(b"GET / HT")
        assert httpx.get(f"{url}/health").status_code == 200
        assert ledger.refused["made_room"] >= 41


def test_when_all_places_are_in_use_the_next_client_is_told() -> None:
    with guarded(make_app(), max_connections=5) as (url, _), ExitStack() as held:
        for _ in range(5):
            client = held.enter_context(httpx.Client(base_url=url))
            assert client.get("/health").status_code == 200
        reply = httpx.get(f"{url}/health")
        assert reply.status_code == 503
        assert reply.json()["error"]["code"] == "server_full"
        assert reply.headers["retry-after"] == "1"


def test_few_file_handles_are_not_used_up() -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))

    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-c", "from server.app import main; main()"],
        cwd=ROOT,
        env={"PORT": str(port), "PATH": "/usr/bin:/bin", "INFERENCEGYM_LOG_LEVEL": "ERROR"},
        preexec_fn=few,  # noqa: PLW1509 (nothing else runs in the child)
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for_health(url, process)
        with ExitStack() as held:
            for _ in range(400):
                with suppress(ConnectionResetError, BrokenPipeError):
                    held.enter_context(open_socket(url)).sendall(b"GET / HT")
            assert httpx.get(f"{url}/health", timeout=DEADLINE_S).status_code == 200
            text = httpx.get(f"{url}/metrics", timeout=DEADLINE_S).text
        assert 'inferencegym_connections_refused_total{reason="made_room"}' in text
    finally:
        process.terminate()
        process.wait(30)


def test_some_requests_may_come_before_the_replies_to_others(short: str) -> None:
    with open_socket(short) as sock:
        sock.sendall(GET * 50 + GET.replace(b"host: x", b"host: x\r\nconnection: close"))
        assert rest_of(sock).count(b"HTTP/1.1 200") == 51


def test_a_client_that_sends_on_without_reading_fills_no_memory() -> None:
    with guarded(make_app()) as (url, ledger), open_socket(url) as sock:
        sock.settimeout(10)
        sent = 0
        with suppress(TimeoutError, ConnectionError):
            while sent < 20_000_000:
                sent += sock.send(GET * 100)
        assert sent < 20_000_000
        assert ledger.refused["pipelined"] == 1
        assert httpx.get(f"{url}/health", trust_env=False, timeout=DEADLINE_S).status_code == 200
