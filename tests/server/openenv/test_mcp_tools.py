"""MCP tools over HTTP and WebSocket: an agent can look, act and be graded, and never start anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from openenv.core.mcp_client import MCPToolClient

from grader.serving.grader import GRADER
from tests.server.openenv.test_ws import socket, talk

TOOLS = {"task", "observe", "set_knobs", "grade"}
INVALID_PARAMS = -32602

Rpc = Callable[..., dict[str, Any]]
Reset = Callable[..., dict[str, Any]]


def call(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, "id": 1}


@contextmanager
def over_http(url: str, mount: str) -> Iterator[tuple[Rpc, Reset]]:
    """POST /mcp with a session id for the agent, /ws with the same id for whoever runs it."""
    with httpx.Client(base_url=url, trust_env=False) as client:

        def rpc(method: str, **params: Any) -> dict[str, Any]:
            reply = client.post(f"{mount}/mcp", json=call(method, **params, session_id=identity))
            assert reply.status_code == 200
            return reply.json()

        made = client.post(f"{mount}/mcp", json=call("openenv/session/create")).json()
        identity = made["result"]["session_id"]
        with socket(url, f"{mount}/ws?session_id={identity}") as runner:
            yield rpc, lambda **data: talk(runner, {"type": "reset", "data": data})
        rpc("openenv/session/close")


@contextmanager
def over_socket(url: str, mount: str) -> Iterator[tuple[Rpc, Reset]]:
    """A WebSocket at /mcp for the agent, joined by one at /ws for whoever runs it."""
    with socket(url, f"{mount}/mcp") as agent:
        identity = talk(agent, call("openenv/session/create"))["result"]["session_id"]
        with socket(url, f"{mount}/ws?session_id={identity}") as runner:
            yield (
                lambda method, **params: talk(agent, call(method, **params)),
                lambda **data: talk(runner, {"type": "reset", "data": data}),
            )


@contextmanager
def inside_ws(url: str, mount: str) -> Iterator[tuple[Rpc, Reset]]:
    """Messages of the kind "mcp" on the very connection that resets."""
    with socket(url, f"{mount}/ws") as both:

        def rpc(method: str, **params: Any) -> dict[str, Any]:
            reply = talk(both, {"type": "mcp", "data": call(method, **params)})
            assert reply["type"] == "mcp"
            return reply["data"]

        yield rpc, lambda **data: talk(both, {"type": "reset", "data": data})


@pytest.fixture(params=[over_http, over_socket, inside_ws], ids=["http", "socket", "inside_ws"])
def transport(request: pytest.FixtureRequest, url: str, mount: str) -> Iterator[tuple[Rpc, Reset]]:
    with request.param(url, mount) as opened:
        yield opened


def use(rpc: Rpc, name: str, **arguments: Any) -> dict[str, Any]:
    """A tool's result, which must have MCP's shape."""
    result = rpc("tools/call", name=name, arguments=arguments)["result"]
    (part,) = result["content"]
    assert part["type"] == "text"
    if not result["isError"]:
        assert json.loads(part["text"]) == result["structuredContent"] == result["data"]
    return result


def test_an_episode_is_played_and_graded(transport: tuple[Rpc, Reset], mount: str) -> None:
    rpc, reset = transport
    first = reset(seed=4)["data"]["observation"]
    task = use(rpc, "task")["data"]
    assert task["steps_left"] == task["episode_length"] == first["info"]["episode_length"]
    assert "Action fields" in task["text"]

    seen = use(rpc, "observe")["data"]
    assert seen["observation"] == {name: first[name] for name in seen["observation"]}
    assert (seen["reward"], seen["done"]) == (None, False)

    field, value = ("force", 0.5) if mount else ("batch_size", 64)
    acted = use(rpc, "set_knobs", **{field: value})["data"]
    assert acted["action"][field] == value
    assert acted["reward"] == pytest.approx(sum(acted["reward_terms"].values()))
    assert acted["steps_left"] == task["episode_length"] - 1
    assert use(rpc, "observe")["data"]["observation"] == acted["observation"]

    for _ in range(acted["steps_left"]):
        acted = use(rpc, "set_knobs")["data"]
    assert (acted["done"], acted["steps_left"]) == (True, 0)
    grade = use(rpc, "grade")["data"]
    assert grade["steps"] == task["episode_length"]
    assert 0.0 <= grade["score"] <= 1.0

    late = use(rpc, "set_knobs")
    assert late["isError"]
    assert late["structuredContent"]["error"]["code"] == "episode_done"
    assert use(rpc, "grade")["data"] == grade


def test_the_tools_are_these_and_their_arguments_typed(transport: tuple[Rpc, Reset], mount: str) -> None:
    rpc, reset = transport
    tools = {tool["name"]: tool for tool in rpc("tools/list")["result"]["tools"]}
    assert set(tools) == TOOLS  # none of them starts an episode
    for tool in tools.values():
        assert tool["description"]
        assert tool["inputSchema"]["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
    fields = tools["set_knobs"]["inputSchema"]["properties"]
    if mount:
        assert set(fields) == {"force", "brake", "mode", "repeat"}
        return
    assert fields["batch_size"]["minimum"] == 1
    assert fields["batch_size"]["maximum"] == 512
    assert fields["spec_length"]["enum"] == [0, 1, 2, 4, 8]
    reset(task_id="task1")
    tools = {tool["name"]: tool for tool in rpc("tools/list")["result"]["tools"]}
    assert set(tools["set_knobs"]["inputSchema"]["properties"]) == {"kv_budget", "batch_size"}


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_without_an_episode_every_tool_says_so(transport: tuple[Rpc, Reset], tool: str) -> None:
    rpc, _ = transport
    result = use(rpc, tool)
    assert result["isError"]
    assert result["structuredContent"]["error"]["code"] == "episode_not_started"
    assert "/ws?session_id=" in result["content"][0]["text"]


@pytest.mark.parametrize("name", ["reset", "step", "state", "close", "set_knob", ""])
def test_there_is_no_other_tool(transport: tuple[Rpc, Reset], name: str) -> None:
    rpc, reset = transport
    reset(seed=1)
    use(rpc, "set_knobs")
    before = use(rpc, "observe")["data"]
    assert "error" in rpc("tools/call", name=name, arguments={"seed": 2})
    for method in ("reset", "openenv/reset", "openenv/session/reset"):
        assert "error" in rpc(method, seed=2)
    assert use(rpc, "observe")["data"] == before
    if name == "set_knob":
        assert "Did you mean set_knobs" in rpc("tools/call", name=name)["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": "64"}, "batch_size"),
        ({"batchsize": 64}, "Did you mean batch_size"),
        ({"kv_budget": None}, "kv_budget"),
        ({"kv_budget": [1]}, "kv_budget"),
        ({"session_id": "x"}, "session_id"),
    ],
)
def test_a_bad_argument_is_named_and_costs_nothing(url: str, arguments: dict[str, Any], named: str) -> None:
    with over_http(url, "") as (rpc, reset):
        reset(seed=1)
        before = use(rpc, "observe")
        refused = use(rpc, "set_knobs", **arguments)
        assert refused["isError"]
        assert named in refused["content"][0]["text"]
        assert use(rpc, "observe") == before


@pytest.mark.parametrize("arguments", [[1], "fast", 3])
def test_arguments_must_be_an_object(url: str, arguments: Any) -> None:
    with over_socket(url, "") as (rpc, reset):
        reset(seed=1)
        for tool in TOOLS:
            result = rpc("tools/call", name=tool, arguments=arguments)["result"]
            assert result["isError"]
            assert "arguments" in result["content"][0]["text"]
        assert not rpc("tools/call", name="observe", arguments=None)["result"]["isError"]


def test_looking_takes_no_arguments(url: str) -> None:
    with over_socket(url, "") as (rpc, reset):
        reset(seed=1)
        for tool in ("task", "observe", "grade"):
            result = use(rpc, tool, seed=2)
            assert result["isError"]
            assert "seed" in result["content"][0]["text"]


def test_locked_knobs_are_named(url: str) -> None:
    with inside_ws(url, "") as (rpc, reset):
        reset(task_id="task1")
        acted = use(rpc, "set_knobs", batch_size=64, quant_tier="INT4")["data"]
        assert acted["action"]["quant_tier"] == 0
        assert "quant_tier" in acted["masked_actions"]


def test_the_grade_is_that_of_the_played_actions(url: str) -> None:
    actions = [{"batch_size": 32 + step, "kv_budget": 0.9} for step in range(12)]
    with over_http(url, "") as (rpc, reset):
        reset(task_id="task3", seed=11)
        for action in actions:
            use(rpc, "set_knobs", **action)
        graded = use(rpc, "grade")["data"]
        assert graded["score"] == GRADER.grade_replay("task3", 11, actions).score
        reset(task_id="task3", seed=11)
        assert use(rpc, "grade")["isError"]  # a new episode has no steps yet


def test_steps_of_both_doors_are_one_episode(url: str) -> None:
    with inside_ws(url, "") as (rpc, reset), socket(url) as other:
        assert reset(seed=3)["data"]["reward"] is None
        talk(other, {"type": "reset", "data": {"seed": 3}})
        for step in range(6):
            action = {"batch_size": 50 + step}
            plain = talk(other, {"type": "step", "data": action})["data"]
            tool = use(rpc, "set_knobs", **action)["data"]
            assert tool["reward"] == plain["reward"]


async def test_a_call_without_a_session_says_how_to_get_one(client: httpx.AsyncClient, mount: str) -> None:
    listed = (await client.post(f"{mount}/mcp", json=call("tools/list"))).json()
    assert {tool["name"] for tool in listed["result"]["tools"]} == TOOLS
    reply = (await client.post(f"{mount}/mcp", json=call("tools/call", name="observe"))).json()
    assert "openenv/session/create" in reply["result"]["content"][0]["text"]
    reply = (await client.post(f"{mount}/mcp", json=call("tools/call", name="reset"))).json()
    assert reply["error"]["code"] == INVALID_PARAMS


@pytest.mark.parametrize("name", ["reset", "set_knob", ["task"], {"a": 1}, 7])
def test_a_tool_that_does_not_exist_is_an_invalid_parameter(transport: tuple[Rpc, Reset], name: Any) -> None:
    rpc, _ = transport
    reply = rpc("tools/call", name=name, arguments={})
    assert reply["error"]["code"] == INVALID_PARAMS
    assert reply["id"] == 1
    assert "does not exist" in reply["error"]["message"]
    assert {tool["name"] for tool in rpc("tools/list")["result"]["tools"]} == TOOLS


def test_the_end_is_told_in_words_that_an_agent_can_act_on(url: str) -> None:
    with inside_ws(url, "") as (rpc, reset):
        length = reset(seed=3, task_id="task1")["data"]["observation"]["info"]["episode_length"]
        for _ in range(length):
            last = use(rpc, "set_knobs")
        assert last["data"]["done"]
        refused = use(rpc, "set_knobs")
        assert refused["isError"]
        assert refused["structuredContent"]["error"]["code"] == "episode_done"
        assert "reset()" not in refused["content"][0]["text"]
        assert "grade" in refused["content"][0]["text"]


async def test_openenvs_own_tool_client(url: str, mount: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with MCPToolClient(base_url=f"{url}{mount}") as env:
        await env.reset(seed=5)
        assert {tool.name for tool in await env.list_tools()} == TOOLS
        acted = await env.call_tool("set_knobs")
        assert acted["steps_left"] == (await env.call_tool("task"))["episode_length"] - 1
        assert (await env.state()).step_count == 1
