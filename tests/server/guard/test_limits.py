"""Rate limit, body limits, CORS, metrics and the request log."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator

import httpx
import pytest
import structlog

from tests.server.conftest import begin, client_of, error_of, make_app, play


async def test_the_rate_limit_says_when_to_come_back() -> None:
    async with client_of(make_app(rate_limit="3/minute", limit_loopback=True)) as client:
        codes = [(await client.get("/tasks")).status_code for _ in range(3)]
        reply = await client.get("/tasks")
        assert codes == [200, 200, 200]
        assert reply.status_code == 429
        assert 1 <= int(reply.headers["retry-after"]) <= 60
        assert "3/minute" in error_of(reply)["message"]
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/metrics")).status_code == 200


async def test_the_rate_limit_counts_clients_apart() -> None:
    app = make_app(rate_limit="1/minute")
    codes = []
    for address in ("10.0.0.1", "10.0.0.2", "10.0.0.1"):
        transport = httpx.ASGITransport(app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            codes.append((await client.get("/tasks")).status_code)
    assert codes == [200, 200, 429]


async def test_a_large_rate_is_exact_although_it_is_drawn_in_blocks() -> None:
    async with client_of(make_app(rate_limit="1000/hour", limit_loopback=True)) as client:
        codes = [(await client.get("/toy/tasks")).status_code for _ in range(1003)]
    assert codes == [200] * 1000 + [429] * 3


async def test_the_default_rate_lets_an_episode_pass() -> None:
    async with client_of(make_app(rate_limit="60000/minute", limit_loopback=True)) as client:
        assert len(await play(client, "", await begin(client), 200)) == 200


async def chunks(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b" " * 65536


@pytest.mark.parametrize(
    ("path", "count", "status"), [("/reset", 3, 200), ("/reset", 40, 413), ("/grader", 200, 413)]
)
async def test_a_body_without_a_length_is_measured(
    client: httpx.AsyncClient, path: str, count: int, status: int
) -> None:
    reply = await client.post(path, content=chunks(count), headers={"content-type": "application/json"})
    assert reply.status_code == status
    if status == 413:
        assert error_of(reply)["code"] == "body_too_large"


async def test_a_large_body_over_a_socket_gets_its_answer(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        reply = await client.post("/step", content=b" " * 3_000_000)
        assert reply.status_code == 413
        assert (await client.get("/health")).status_code == 200


async def test_a_large_log_is_accepted_by_the_grader_only(client: httpx.AsyncClient) -> None:
    session = await begin(client)
    log = await play(client, "", session, 200)
    log[0]["padding"] = "x" * 2_000_000
    body = json.dumps({"task_id": "task1", "episode_log": log})
    headers = {"content-type": "application/json"}
    assert (await client.post("/grader", content=body, headers=headers)).status_code == 200
    assert (await client.post("/step", content=body, headers=headers)).status_code == 413


def test_a_client_that_hangs_up_in_its_body_is_no_fault_of_the_server(
    url: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"POST /reset HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{}")
        connection.shutdown(socket.SHUT_WR)
        connection.recv(4096)
    assert b"error" not in logged(capfdbinary)
    assert httpx.get(f"{url}/health", trust_env=False).status_code == 200


async def test_browsers_of_other_origins(client: httpx.AsyncClient) -> None:
    origin = {"origin": "https://example.org"}
    reply = await client.get("/tasks", headers=origin)
    assert reply.headers["access-control-allow-origin"] == "*"
    preflight = await client.options(
        "/step",
        headers=origin
        | {"access-control-request-method": "POST", "access-control-request-headers": "content-type"},
    )
    assert preflight.status_code == 200
    error = await client.post("/step", content=b"{", headers=origin)
    assert error.status_code == 422
    assert error.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-origin" not in (await client.get("/tasks")).headers


async def test_origins_can_be_named_or_refused() -> None:
    async with client_of(make_app(cors_origins=["https://good.example"])) as client:
        good = await client.get("/tasks", headers={"origin": "https://good.example"})
        bad = await client.get("/tasks", headers={"origin": "https://bad.example"})
        assert good.headers["access-control-allow-origin"] == "https://good.example"
        assert "access-control-allow-origin" not in bad.headers
    async with client_of(make_app(cors_origins=[])) as client:
        reply = await client.get("/tasks", headers={"origin": "https://good.example"})
        assert "access-control-allow-origin" not in reply.headers


async def test_metrics_count_by_route_and_never_by_a_clients_own_text() -> None:
    async with client_of(make_app()) as client:
        session = await begin(client, "/toy")
        await play(client, "/toy", session, 3)
        await client.get("/secret/path")
        await client.request("FROB", "/toy/step")
        text = (await client.get("/metrics")).text
    assert 'inferencegym_requests_total{method="POST",route="/toy/step",status="200"} 3.0' in text
    assert 'inferencegym_requests_total{method="GET",route="unmatched",status="404"} 1.0' in text
    assert 'method="OTHER"' in text
    assert "secret" not in text
    assert "FROB" not in text
    assert "inferencegym_sessions_active 1.0" in text
    async with client_of(make_app(metrics=False)) as client:
        assert (await client.get("/metrics")).status_code == 404


def logged(capture: pytest.CaptureFixture[bytes]) -> bytes:
    """What was written to standard error, once the log's thread has written all."""
    assert structlog.get_config()["logger_factory"]().flush()
    return capture.readouterr().err


async def test_every_request_is_one_json_line_of_the_log(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    async with client_of(make_app(log_level="INFO")) as client:
        await client.get("/tasks")
        await client.post("/step", content=b"{")
    lines = [json.loads(line) for line in logged(capfdbinary).splitlines()]
    seen = [(line["method"], line["path"], line["status"]) for line in lines if line["event"] == "request"]
    assert seen == [("GET", "/tasks", 200), ("POST", "/step", 422)]
    assert all(line["ms"] >= 0 for line in lines)
    make_app()  # back to a quiet log for the tests that follow


async def test_an_unforeseen_failure_is_logged_and_answered_in_the_format(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    from tests.server import toy_env

    app = make_app()
    async with client_of(app) as client:
        session = await begin(client, "/toy")
        await play(client, "/toy", session, 1)

        def broken(*_: object) -> None:
            raise RuntimeError("secret detail")

        monkeypatch.setattr(toy_env.ToyEpisode, "step", broken)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as other:
            reply = await other.post("/toy/step", json={"session_id": session["session_id"], "action": {}})
    assert reply.status_code == 500
    assert error_of(reply)["code"] == "internal_error"
    assert "secret" not in reply.text
    assert b"secret detail" in logged(capfdbinary)
