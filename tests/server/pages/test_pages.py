"""The landing page, the page at /web, and the documents about the API."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from inferencegym.registry import all_specs
from tests.server.conftest import client_of, make_app

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


async def test_a_browser_is_sent_to_the_page(client: httpx.AsyncClient, mount: str) -> None:
    answer = await client.get(f"{mount}/", headers=HTML)
    assert (answer.status_code, answer.headers["location"]) == (307, f"{mount}/web/")
    for path in ("web", "ui", "ui/"):
        answer = await client.get(f"{mount}/{path}", headers=HTML)
        assert (answer.status_code, answer.headers["location"]) == (307, f"{mount}/web/")


@pytest.mark.parametrize("mount", ["", "/toy"])
async def test_without_the_page_a_browser_gets_a_short_one_whose_links_work(mount: str) -> None:
    async with client_of(make_app(web=False)) as client:
        page = await client.get(f"{mount}/", headers=HTML)
        assert page.headers["content-type"].startswith("text/html")
        assert "InferenceGym" in page.text
        links = re.findall(r'href="([^"]+)"', page.text)
        assert f"{mount}/docs" in links
        assert f"{mount}/web" not in links
        assert (await client.get(f"{mount}/ui")).status_code == 404
        for link in links:
            assert (await client.get(link, headers=HTML)).status_code == 200, link


async def test_a_program_gets_json(client: httpx.AsyncClient, mount: str) -> None:
    body = (await client.get(f"{mount}/", headers={"accept": "*/*"})).json()
    assert (body["docs"], body["web"]) == (f"{mount}/docs", f"{mount}/web")
    assert body["tasks"]


async def test_the_landing_page_lists_the_other_environments(client: httpx.AsyncClient) -> None:
    mounts = {spec.id: spec.mount or "/" for spec in all_specs()} | {"InferenceGym/Toy-v0": "/toy"}
    for env_id, mount in mounts.items():
        others = (await client.get(f"{mount.rstrip('/')}/")).json()["other_environments"]
        assert others == {other: place for other, place in mounts.items() if other != env_id}


async def test_what_the_page_loads_is_there(client: httpx.AsyncClient, mount: str) -> None:
    for name in ("plotly.min.js", "charts.js", "player.js", "dashboard.css", "icon.svg"):
        assert (await client.get(f"{mount}/web-assets/{name}")).status_code == 200, name
    assert (await client.get(f"{mount}/favicon.ico")).headers["content-type"].startswith("image/")


@pytest.mark.parametrize("path", ["reset", "step", "state", "gradio_api/upload"])
async def test_nobody_plays_a_common_episode_or_leaves_files_behind(
    client: httpx.AsyncClient, mount: str, path: str
) -> None:
    assert (await client.post(f"{mount}/web/{path}")).status_code == 404


async def test_the_page_leaves_the_task_api_its_paths(client: httpx.AsyncClient, mount: str) -> None:
    answer = await client.get(f"{mount}/web/splits")
    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == "unknown environment 'web'."


async def test_web_can_be_switched_off() -> None:
    async with client_of(make_app(web=False)) as client:
        for path in ("/web", "/web/", "/web/gradio_api/info", "/web-assets/player.js"):
            assert (await client.get(path)).status_code == 404, path
        assert 'href="/web"' not in (await client.get("/", headers=HTML)).text
        assert "web" not in (await client.get("/")).json()


def operations(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(path, method) for path, methods in document["paths"].items() for method in methods]


async def test_the_openapi_document_has_every_endpoint_once(client: httpx.AsyncClient, mount: str) -> None:
    document = (await client.get(f"{mount}/openapi.json")).json()
    paths = document["paths"]
    assert set(paths) >= {
        *("/reset", "/step", "/state", "/grader", "/baseline", "/info", "/tasks", "/health"),
        *("/schema", "/metadata", "/mcp", "/list_environments"),
    }
    ids = [paths[path][method]["operationId"] for path, method in operations(document)]
    assert len(ids) == len(set(ids))
    assert document["info"]["version"]
    if mount:
        assert document["servers"] == [{"url": "/toy"}]


async def test_every_documented_error_has_the_one_format(client: httpx.AsyncClient, mount: str) -> None:
    document = (await client.get(f"{mount}/openapi.json")).json()
    for path, method in operations(document):
        for status, response in document["paths"][path][method]["responses"].items():
            if (path, status) == ("/mcp", "404"):
                continue  # a JSON-RPC client reads JSON-RPC errors only
            if not status.startswith("2"):
                schema = response["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorReply"}, (path, status)
    assert not {"HTTPValidationError", "ValidationError"} & set(document["components"]["schemas"])


async def test_a_path_is_served_by_one_route_only(client: httpx.AsyncClient) -> None:
    app = make_app()
    seen = [
        (getattr(route, "path", ""), method)
        for route in app.routes
        for method in (getattr(route, "methods", None) or ["WEBSOCKET"])
    ]
    assert len(seen) == len(set(seen))


async def test_the_api_page_needs_no_other_host(client: httpx.AsyncClient, mount: str) -> None:
    page = await client.get(f"{mount}/docs")
    assert page.status_code == 200
    addresses = re.findall(r"""(?:src|href)="([^"]+)\"""", page.text) + re.findall(
        r"url: '([^']+)'", page.text
    )
    assert len(addresses) >= 3
    for address in addresses:
        assert address.startswith(f"{mount}/"), address
        assert (await client.get(address)).status_code == 200, address
