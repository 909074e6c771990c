"""No visitor of the page reads a file of the host: every function of every mount is tried."""

from __future__ import annotations

import json
import re
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live import live_server
from tests.server.conftest import error_of

MOUNTS = ("", "/autoscaling", "/routing", "/market")
DEADLINE_S = 60
SECRET = "a secret of the host"


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("host") / "secret.txt"
    file.write_text(SECRET)
    return file


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the framework keeps files; known, so that a copy is found without being told of it."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def page(cache: Path) -> Iterator[httpx.Client]:
    """A client of a live server with its page."""
    with (
        live_server(GRADIO_TEMP_DIR=str(cache)) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=DEADLINE_S) as client,
    ):
        yield client


def functions(page: httpx.Client, mount: str) -> list[dict[str, Any]]:
    deadline = time.monotonic() + DEADLINE_S
    while "gradio" not in page.get(f"{mount}/web/").text:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return page.get(f"{mount}/web/config").json()["dependencies"]


def call(page: httpx.Client, mount: str, function: int, data: list[Any]) -> str:
    """What a function of the page answers, as the browser calls it; the refusal if it is refused."""
    visitor = secrets.token_hex(6)
    body = {"data": data, "fn_index": function, "session_hash": visitor}
    reply = page.post(f"{mount}/web/gradio_api/queue/join", json=body)
    if reply.status_code != 200:
        return reply.text
    text = ""
    path = f"{mount}/web/gradio_api/queue/data"
    with page.stream("GET", path, params={"session_hash": visitor}) as events:
        for line in events.iter_lines():
            text += line
            if "process_completed" in line:
                break
    return text


def shapes(path: str) -> list[Any]:
    named = {"path": path, "meta": {"_type": "gradio.FileData"}}
    return [
        named,
        {"value": [named]},
        [[{"deep": {"er": named}}]],
        {**named, "url": path, "orig_name": "x.svg", "is_stream": False},
        {"path": path, "meta": {"_type": "another"}},
    ]


@pytest.mark.parametrize("mount", MOUNTS)
def test_no_function_takes_a_file(page: httpx.Client, cache: Path, secret: Path, mount: str):
    found = functions(page, mount)
    assert len(found) > 10
    for function in found:
        for payload in shapes(str(secret)):
            body = {"data": [payload for _ in function["inputs"]] or [payload], "fn_index": function["id"]}
            reply = page.post(f"{mount}/web/gradio_api/queue/join", json={**body, "session_hash": "x"})
            assert reply.status_code == 422
            assert "meta._type" in error_of(reply)["message"]
    assert [file for file in cache.rglob("*") if file.name == secret.name] == []


@pytest.mark.parametrize("mount", MOUNTS)
def test_no_function_makes_a_file_of_text_that_describes_one(
    page: httpx.Client, cache: Path, secret: Path, mount: str
):
    """Text passes the door; a function that parsed it and showed it again would have it copied."""
    text = json.dumps(shapes(str(secret))[0])
    for function in functions(page, mount):
        answer = call(page, mount, function["id"], [text for _ in function["inputs"]])
        assert SECRET not in answer
        for place in re.findall(r'"url": ?"([^"]*file=[^"]*)"', answer):
            assert SECRET not in page.get(place).text
    assert [file for file in cache.rglob("*") if file.name == secret.name] == []


def test_an_endless_file_freezes_nothing(page: httpx.Client):
    functions(page, "")
    for payload in (*shapes("/dev/zero"), json.dumps(shapes("/dev/zero")[0])):
        call(page, "", 0, [payload])
    assert page.get("/health", timeout=10).status_code == 200


@pytest.mark.parametrize("mount", MOUNTS)
def test_the_page_serves_no_file(page: httpx.Client, cache: Path, secret: Path, mount: str):
    functions(page, mount)
    (cache / "left_here.txt").write_text(SECRET)
    (Path(tempfile.gettempdir()) / "gradio").mkdir(exist_ok=True)
    for path in (
        f"gradio_api/file={secret}",
        f"gradio_api/file={cache}/left_here.txt",
        f"gradio_api/file/{secret}",
        "gradio_api/file=http://127.0.0.1:1/",
        f"static/../..{secret}",
        f"static/..%2f..%2f..%2f..%2f..%2f..%2f..{secret}",
        f"assets/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e{secret}",
        f"gradio_api/proxy=http://127.0.0.1:1{secret}",
        "gradio_api/deep_link?session_hash=x",
        "gradio_api/custom_component/a/client/component/../../x",
    ):
        reply = page.get(f"{mount}/web/{path}")
        assert SECRET not in reply.text
        assert reply.status_code in (403, 404), path


@pytest.mark.parametrize("function", [9999, -1, None, True, "0", 1.5])
def test_a_function_that_does_not_exist_is_refused(page: httpx.Client, function: Any):
    functions(page, "")
    body = {"data": [], "fn_index": function, "session_hash": "x"}
    reply = page.post("/web/gradio_api/queue/join", json=body)
    assert reply.status_code == 422
    assert error_of(reply)["message"].startswith("fn_index: ")


@pytest.mark.parametrize("value", [10**30, None, ["list"], {"a": 1}, True, 1.5, -1])
def test_odd_values_show_nothing_of_the_inside(page: httpx.Client, value: Any):
    """One function after the other, with the value in every place, and without any."""
    for function in functions(page, ""):
        for data in ([value for _ in function["inputs"]], []):
            answer = call(page, "", function["id"], data)
            for inside in (
                "object at 0x",
                "Traceback",
                "NoneType",
                "unhashable",
                "has no attribute",
                "gradio.",
            ):
                assert inside not in answer, (function["api_name"], data)


def test_a_visitor_who_has_left_costs_a_line_of_the_log(tmp_path: Path):
    log = tmp_path / "log"
    with (
        log.open("wb") as stream,
        live_server(stderr=stream, INFERENCEGYM_LOG_LEVEL="INFO") as url,
        httpx.Client(base_url=url, trust_env=False, timeout=DEADLINE_S) as client,
    ):
        functions(client, "")
        before = log.stat().st_size
        with suppress(httpx.RemoteProtocolError):  # cut off in the middle
            client.get("/web/gradio_api/queue/data?session_hash=nobody")
        call(client, "", 0, ["too", "many", "values", "of", "the", "wrong", "kind", "altogether"])
    lines = log.read_bytes()[before:].splitlines()
    assert 0 < len(lines) < 12
    assert all(json.loads(line) for line in lines)


def test_mounts_that_are_first_visited_together_all_have_a_page():
    with live_server() as url, httpx.Client(base_url=url, trust_env=False, timeout=DEADLINE_S) as client:
        for mount in MOUNTS:
            client.get(f"{mount}/web/")
        for mount in MOUNTS:
            assert len(functions(client, mount)) > 10


@pytest.mark.parametrize("mount", MOUNTS)
def test_every_function_is_called_by_the_queue(page: httpx.Client, mount: str):
    """Its browser side calls others by a path that the door keeps closed."""
    past_the_queue = [
        f["api_name"] for f in functions(page, mount) if f["backend_fn"] and f["queue"] is False
    ]
    assert past_the_queue == []


@pytest.mark.parametrize(
    "path", ["upload", "run/predict", "api/predict", "call/predict", "component_server", "process_recording",
             "vibe-edit", "stream/1", "queue/join/../../upload"]
)  # fmt: skip
def test_other_ways_to_call_the_framework_are_closed(page: httpx.Client, path: str):
    functions(page, "")
    reply = page.post(f"/web/gradio_api/{path}", json={"data": [], "fn_index": 0, "session_hash": "x"})
    assert reply.status_code == 404


def test_a_body_that_two_parsers_would_read_differently_is_read_once(page: httpx.Client, secret: Path):
    functions(page, "")
    named = json.dumps({"path": str(secret), "meta": {"_type": "gradio.FileData"}})
    twice = named[:-1] + ', "meta": {}}'
    body = f'{{"data": [{twice}], "fn_index": 0, "session_hash": "x"}}'
    reply = page.post("/web/gradio_api/queue/join", content=body)
    assert reply.status_code in (200, 422)
    for broken in (b"[]", b"{", b"\xff", b'{"data": NaN}', b"[" * 5000):
        assert page.post("/web/gradio_api/queue/join", content=broken).status_code == 422
