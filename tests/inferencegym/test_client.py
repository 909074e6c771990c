"""The two HTTP clients against a fake server: requests sent, replies typed, sessions kept."""

from __future__ import annotations

import asyncio
import inspect
import time
from dataclasses import replace
from typing import Any

import httpx
import pytest

from inferencegym import (
    AsyncInferenceGymClient,
    InferenceGymClient,
    InferenceGymEnv,
    QuantTier,
    RewardConfig,
    ServeAction,
    ServeObservation,
)
from inferencegym import registry as registry_module
from inferencegym.async_client import AsyncSession
from inferencegym.errors import (
    InferenceGymError,
    InvalidValueError,
    ServerUnavailableError,
    UnknownNameError,
)
from inferencegym.models.serving import EpisodeState
from inferencegym.session import Session, action_body
from tests.inferencegym.fake_server import FakeServer, page


@pytest.fixture(autouse=True)
def no_url_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INFERENCEGYM_URL", raising=False)


def client_of(fake: FakeServer, **options: Any) -> InferenceGymClient[ServeObservation]:
    return InferenceGymClient("http://localhost:1", transport=httpx.MockTransport(fake), **options)


def test_reads_are_typed() -> None:
    with client_of(FakeServer()) as client:
        assert client.health().active_sessions == 2
        task = client.tasks()[0]
        assert (task.id, task.difficulty, task.active_actions) == (
            "task1",
            "easy",
            ("kv_budget", "batch_size"),
        )
        assert client.info()["id"] == "InferenceGym/Serving-v0"
        assert client.baseline().scores == {"task1": 0.35}


def test_an_episode_from_reset_to_grade() -> None:
    fake = FakeServer()
    with client_of(fake) as client:
        session = client.reset("task1", seed=7, episode_id="mine", config=RewardConfig(alpha=0.5))
        assert isinstance(session.observation, ServeObservation)
        while not session.done:
            result = session.step(batch_size=64)
        assert result.observation.timestep == 3
        assert result.truncated
        assert not result.terminated
        assert result.metrics["tokens_per_sec"] == 300.0
        assert session.total_reward == pytest.approx(0.75)
        state = session.state()
        assert isinstance(state, EpisodeState)
        assert state.step_count == 3
        assert session.grade().verified
        assert not client.grade_log("task1", session.log).verified
    assert fake.bodies[0] == {"seed": 7, "task_id": "task1", "episode_id": "mine", "config": {"alpha": 0.5}}
    assert fake.bodies[1] == {"session_id": "s0", "action": {"batch_size": 64}}
    assert session.log[2] == {
        "action": {"batch_size": 64},
        "reward": 0.25,
        "metrics": {"tokens_per_sec": 300.0},
        "task_id": "task1",
        "timestep": 3,
    }
    assert "done" in repr(session)


def test_a_bare_reset_leaves_the_task_to_the_server() -> None:
    fake = FakeServer()
    client_of(fake).reset()
    assert fake.bodies == [{"seed": 42}]


@pytest.mark.parametrize(
    ("action", "fields", "sent"),
    [
        (None, {}, {}),
        (None, {"kv_budget": 0.5}, {"kv_budget": 0.5}),
        ({"batch_size": 8}, {}, {"batch_size": 8}),
        ({"batch_size": 8}, {"batch_size": 9}, {"batch_size": 9}),
        (ServeAction(quant_tier=QuantTier.INT4), {}, {"quant_tier": 2}),
        (ServeAction(), {"quant_tier": QuantTier.INT8}, {"quant_tier": 1}),
    ],
)
def test_an_action_may_be_given_in_three_ways(
    action: Any, fields: dict[str, Any], sent: dict[str, Any]
) -> None:
    fake = FakeServer()
    client_of(fake).reset().step(action, **fields)
    assert fake.bodies[1]["action"] == sent


@pytest.mark.parametrize("action", [{"kv_budget": float("nan")}, {"kv_budget": float("inf")}, {"x": {1, 2}}])
def test_what_json_cannot_say_is_never_sent(action: dict[str, Any]) -> None:
    fake = FakeServer()
    session = client_of(fake).reset()
    with pytest.raises(InvalidValueError, match="finite numbers"):
        session.step(action)
    assert len(fake.requests) == 1


def test_an_action_of_another_type_is_named() -> None:
    with pytest.raises(InvalidValueError, match="action"):
        client_of(FakeServer()).reset().step([1, 2])  # pyright: ignore[reportArgumentType]


def test_replay_sends_models_and_mappings_alike() -> None:
    fake = FakeServer()
    client_of(fake).grade_replay("task1", 3, [ServeAction(batch_size=4), {"batch_size": 5}], {"alpha": 0.1})
    assert fake.bodies[0] == {
        "task_id": "task1",
        "seed": 3,
        "actions": [{"batch_size": 4}, {"batch_size": 5}],
        "config": {"alpha": 0.1},
    }


def test_the_address_comes_from_argument_variable_or_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert InferenceGymClient().base_url == "http://127.0.0.1:7860"
    monkeypatch.setenv("INFERENCEGYM_URL", "https://example.test/x/")
    assert InferenceGymClient().base_url == "https://example.test/x"
    assert InferenceGymClient("http://localhost:9/").base_url == "http://localhost:9"


@pytest.mark.parametrize("url", ["localhost:7860", "ftp://x", "http://", "http://[::"])
def test_a_wrong_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidValueError, match="base_url"):
        InferenceGymClient(url)


def test_an_unknown_environment_gets_near_matches() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean"):
        InferenceGymClient(env="servng")


def test_another_environment_lives_under_its_mount() -> None:
    spec = replace(registry_module.get_spec("serving"), id="InferenceGym/Other-v0", mount="/other")
    registry_module.register(spec)
    try:
        fake = FakeServer()
        client = InferenceGymClient("http://x/base", env="other", transport=httpx.MockTransport(fake))
        client.reset().state()
    finally:
        registry_module.unregister(spec.id)
    assert [request.url.path for request in fake.requests] == ["/base/other/reset", "/base/other/state"]
    assert fake.requests[1].url.params["session_id"] == "s0"


def test_an_address_may_go_on_with_the_mount() -> None:
    fake = FakeServer()
    for address in ("http://x/market", "http://x/market/", "http://market", "http://x"):
        client = InferenceGymClient(address, env="market", transport=httpx.MockTransport(fake))
        client.health()
    assert [request.url.path for request in fake.requests] == ["/market/health"] * 4
    assert client.base_url == "http://x"


@pytest.mark.parametrize("kind", [InferenceGymClient, AsyncInferenceGymClient, InferenceGymEnv])
@pytest.mark.parametrize("env", ["serving", "market"])
def test_the_mount_of_another_environment_says_how_to_name_it(kind: Any, env: str) -> None:
    with pytest.raises(InvalidValueError, match="env='routing'") as caught:
        kind("http://x/routing/", env=env)
    assert caught.value.field == "base_url"


def test_a_reply_of_another_form_is_told_in_a_line() -> None:
    bad = {"session_id": "s", "task_id": "t", "seed": 0, "episode_length": 1, "observation": {"a": 1, "b": 2}}
    with pytest.raises(ServerUnavailableError, match="faults: ") as caught:
        client_of(FakeServer(httpx.Response(200, json=bad))).reset()
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


def test_the_blocking_client_waits_for_a_waking_space(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    reasons: list[str] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    fake = FakeServer(page(503), page(200), httpx.ConnectError("no"))
    with client_of(fake, on_wait=lambda why, _: reasons.append(why)) as client:
        assert client.reset().session_id == "s0"
    assert len(pauses) == len(reasons) == 3
    assert "building or waking" in reasons[1]


def silent_until(answers_at: int, waits: list[float]) -> httpx.MockTransport:
    """Takes connections and says nothing before the request of that number."""
    fake = FakeServer()

    def handle(request: httpx.Request) -> httpx.Response:
        waits.append(request.extensions["timeout"]["read"])
        if len(waits) < answers_at:
            raise httpx.ReadTimeout("timed out")
        return fake(request)

    return httpx.MockTransport(handle)


def test_the_wait_for_a_silent_server_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    waits: list[float] = []
    with InferenceGymClient("http://fake", transport=silent_until(3, waits), wake_timeout_s=3.0) as client:
        client.tasks()
        client.tasks()
    assert all(2.0 < wait <= 3.0 for wait in waits[:3])
    assert waits[3:] == [30.0]  # it has answered: from now on it may take its time
    waits.clear()
    with (
        InferenceGymClient("http://fake", transport=silent_until(99, waits), wake_timeout_s=0.0) as client,
        pytest.raises(ServerUnavailableError, match="timed out"),
    ):
        client.reset("task1")
    assert waits == [0.25]
    waits.clear()
    with InferenceGymClient("http://fake", transport=silent_until(1, waits)) as client:
        client.tasks()
    with InferenceGymClient("http://fake", transport=silent_until(1, waits), wake_timeout_s=3.0) as client:
        client.grade_replay("task1", 0, [])  # the server has to work for it
    assert waits == [30.0, 30.0]


async def test_a_closed_client_says_so() -> None:
    client, other = client_of(FakeServer()), AsyncInferenceGymClient("http://fake")
    client.close()
    await other.close()
    with pytest.raises(InferenceGymError, match="closed"):
        client.tasks()
    with pytest.raises(InferenceGymError, match="closed"):
        await other.tasks()


def test_sessions_end_with_their_block_and_with_the_client() -> None:
    fake = FakeServer()
    with client_of(fake) as client:
        with client.reset() as first:
            first.step()
        assert fake.steps == {}
        first.close()  # it has ended: no harm
        client.reset()
        client.reset()
        assert len(fake.steps) == 2
    assert fake.steps == {}
    client.close()


def test_a_client_does_not_wait_for_a_server_that_is_gone_to_say_goodbye() -> None:
    fake = FakeServer(None, None, httpx.ReadTimeout("gone"), httpx.ReadTimeout("gone"))
    with client_of(fake) as client:
        client.reset()
        client.reset()
    assert len(fake.requests) == 3


def test_a_lost_step_is_sent_once() -> None:
    fake = FakeServer(None, httpx.ReadTimeout("late"))
    session = client_of(fake).reset()
    with pytest.raises(ServerUnavailableError, match="step_count"):
        session.step()
    assert len(fake.requests) == 2
    assert session.log == []


async def test_the_asynchronous_client_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferencegym.wire.PAUSE_FIRST_S", 0.0)
    fake = FakeServer(page(503))
    transport = httpx.MockTransport(fake.as_async)
    async with AsyncInferenceGymClient("http://localhost:1", transport=transport) as client:
        assert (await client.health()).status == "healthy"
        assert (await client.tasks())[0].id == "task1"
        assert (await client.info())["id"]
        assert (await client.baseline()).scores
        one, two = await asyncio.gather(client.reset("task1"), client.reset("task1", seed=1))
        await one.step(batch_size=1)
        result = await two.step(ServeAction(batch_size=2))
        assert result.reward == 0.25
        assert (await two.state()).step_count == 1
        assert (await two.grade()).score == 0.5
        assert (await client.grade_log("task1", two.log)).score == 0.5
        assert (await client.grade_replay("task1", 1, [{}])).verified
        await one.close()
        assert list(fake.steps) == ["s1"]
    assert fake.steps == {}


@pytest.mark.parametrize(
    ("blocking", "awaited"), [(InferenceGymClient, AsyncInferenceGymClient), (Session, AsyncSession)]
)
def test_both_kinds_have_the_same_methods_and_parameters(blocking: type, awaited: type) -> None:
    def surface(cls: type) -> dict[str, list[str]]:
        methods = inspect.getmembers(cls, inspect.isfunction)
        return {n: list(inspect.signature(f).parameters) for n, f in methods if not n.startswith("_")}

    assert surface(blocking) == surface(awaited)


def test_a_field_called_action_may_be_given_by_name() -> None:
    names = {"action", "target_replicas", "rationale"}
    wanted = {"action": "scale_up", "rationale": "rush"}
    assert action_body("scale_up", {"rationale": "rush"}, names) == wanted
    assert action_body({"action": "scale_up"}, {"rationale": "rush"}, names) == wanted
    with pytest.raises(InvalidValueError, match="action"):
        action_body("scale_up", {}, {"batch_size"})
    fake = FakeServer()
    with InferenceGymClient(
        "http://localhost:1", env="autoscaling", transport=httpx.MockTransport(fake)
    ) as client:
        assert client._link.calls.action_fields == names
