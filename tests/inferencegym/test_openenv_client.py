"""The OpenEnv client against a small WebSocket peer: typing, errors, and never an episode it has lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as serve_websocket
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from inferencegym import InferenceGymEnv, RewardConfig, ServeAction, ServeObservation
from inferencegym.errors import (
    EpisodeNotStartedError,
    InvalidValueError,
    ServerUnavailableError,
    SessionNotFoundError,
)
from inferencegym.models.serving import EpisodeState
from inferencegym.openenv_client import EnvServerError
from tests.inferencegym.fake_server import OBSERVATION
from tests.live import free_port

# Frames of an openenv server, as its /ws sends them.
STATE = {
    "session_id": "ws",
    "episode_id": "mine",
    "task_id": "task1",
    "seed": 5,
    "step_count": 1,
    "cumulative_reward": 0.5,
    "done": False,
    "workload_phase": "steady",
    "extra_of_a_newer_server": 1,
}


class Peer:
    """Answers reset, step and state; a step may be told to hang, to drop the line or to fail."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.connections = 0
        self.mishap = ""
        self.url = ""

    async def __call__(self, socket: ServerConnection) -> None:
        self.connections += 1
        async for frame in socket:
            message = json.loads(frame)
            self.received.append(message)
            if message["type"] == "close":
                return
            if message["type"] == "step" and self.mishap == "hang":
                await socket.wait_closed()
                return
            if message["type"] == "step" and self.mishap == "drop":
                await socket.close()
                return
            await socket.send(json.dumps(self.answer(message["type"])))

    def answer(self, kind: str) -> dict[str, Any]:
        if kind == "step" and self.mishap == "refuse":
            data = {"message": "The episode ended after 200 steps.", "code": "EXECUTION_ERROR"}
            return {"type": "error", "data": data}
        if kind == "step" and self.mishap == "validate":
            fault = {"loc": ["batch_size"], "msg": "Input should be at most 512", "input": 9999}
            data = {"message": "Invalid message", "code": "VALIDATION_ERROR", "errors": [fault]}
            return {"type": "error", "data": data}
        if kind == "state":
            return {"type": "state", "data": STATE}
        observation = {**OBSERVATION, "metadata": {"note": 1}, "terminated": False, "truncated": False}
        reward = 0.5 if kind == "step" else None
        return {"type": "observation", "data": {"observation": observation, "reward": reward, "done": False}}


@asynccontextmanager
async def peer_and_client(**options: Any) -> AsyncIterator[tuple[Peer, InferenceGymEnv]]:
    peer = Peer()
    async with serve_websocket(peer, "127.0.0.1", 0) as server:
        peer.url = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        async with InferenceGymEnv(peer.url, **options) as env:
            yield peer, env


async def test_an_episode_is_typed_end_to_end() -> None:
    async with peer_and_client() as (peer, env):
        first = await env.reset(task_id="task1", seed=5, episode_id="mine", config=RewardConfig(beta=0.1))
        assert isinstance(first.observation, ServeObservation)
        assert first.reward is None
        result = await env.step(ServeAction(batch_size=64))
        assert result.reward == 0.5
        assert result.metadata == {"note": 1, "terminated": False, "truncated": False}
        state = await env.state()
        assert isinstance(state, EpisodeState)
        assert (state.episode_id, state.seed) == ("mine", 5)
    assert peer.received[0]["data"] == {
        "task_id": "task1",
        "seed": 5,
        "episode_id": "mine",
        "config": {"beta": 0.1},
    }
    assert peer.received[1] == {"type": "step", "data": {"batch_size": 64}}


# --- a server that is not there (yet) ----------------------------------------------------------------------


def test_without_a_server_it_waits_and_says_so() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    for wake_timeout_s in (0.0, 0.3):
        env = InferenceGymEnv(url, wake_timeout_s=wake_timeout_s)
        with pytest.raises(ServerUnavailableError) as caught, env.sync():
            pass
        assert caught.value.hint.startswith("Gave up after 0 s. Start one")
        assert url.removeprefix("http") in caught.value.message


async def test_it_waits_for_a_server_that_is_starting() -> None:
    peer, port = Peer(), free_port()
    env = InferenceGymEnv(f"http://127.0.0.1:{port}", wake_timeout_s=30.0)
    connecting = asyncio.create_task(_reset(env))
    await asyncio.sleep(0.1)
    assert not connecting.done()
    async with serve_websocket(peer, "127.0.0.1", port):
        assert (await connecting).reward is None
        await env.close()
    assert peer.received[0]["type"] == "reset"


async def _reset(env: InferenceGymEnv) -> Any:
    return await env.reset(task_id=1)


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (503, 2)])
async def test_who_says_no_is_not_asked_again_and_who_starts_is(status: int, tries: int) -> None:
    asked = []

    def refuse(_socket: ServerConnection, request: Request) -> Response:
        asked.append(request.path)
        return Response(status, "no", Headers())

    async with serve_websocket(Peer(), "127.0.0.1", 0, process_request=refuse) as server:
        url = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        with pytest.raises(ServerUnavailableError):
            await InferenceGymEnv(url, wake_timeout_s=0.4).connect()
    assert len(asked) == tries


@pytest.mark.parametrize("seconds", [-1.0, "5", True, float("nan"), 1e9])
def test_a_wake_time_that_is_none_is_refused(seconds: Any) -> None:
    with pytest.raises(InvalidValueError, match="wake_timeout_s"):
        InferenceGymEnv("http://127.0.0.1:1", wake_timeout_s=seconds)


async def test_none_means_the_default() -> None:
    async with peer_and_client() as (peer, env):
        await env.reset(seed=None, episode_id=None)
    assert peer.received[0]["data"] == {}


async def test_a_step_before_the_first_reset_is_refused_here() -> None:
    async with peer_and_client() as (peer, env):
        with pytest.raises(EpisodeNotStartedError):
            await env.step(ServeAction())
    assert not [message for message in peer.received if message["type"] == "step"]


@pytest.mark.parametrize("mishap", ["hang", "drop"])
async def test_a_lost_episode_is_never_played_on(mishap: str) -> None:
    async with peer_and_client(message_timeout_s=0.2) as (peer, env):
        await env.reset(seed=5)
        peer.mishap = mishap
        with pytest.raises(ServerUnavailableError, match="cannot go on"):
            await env.step(ServeAction())
        peer.mishap = ""
        steps = len(peer.received)
        for _ in range(2):
            with pytest.raises(SessionNotFoundError, match=r"Call reset\(\)"):
                await env.step(ServeAction())
            with pytest.raises(SessionNotFoundError):
                await env.state()
        await env.connect()
        with pytest.raises(SessionNotFoundError):
            await env.step(ServeAction())
        assert len(peer.received) == steps
        assert (await env.reset(seed=5)).observation.queue_depth == 3
        assert (await env.step(ServeAction())).reward == 0.5
        assert peer.connections == 2


async def test_a_deadline_of_the_caller_loses_the_episode_too() -> None:
    async with peer_and_client() as (peer, env):
        await env.reset()
        peer.mishap = "hang"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(env.step(ServeAction()), 0.1)
        peer.mishap = ""
        with pytest.raises(SessionNotFoundError):
            await env.step(ServeAction())


async def test_server_errors_are_of_the_one_tree() -> None:
    async with peer_and_client() as (peer, env):
        await env.reset()
        peer.mishap = "validate"
        with pytest.raises(InvalidValueError, match="batch_size: 9999"):
            await env.step({"batch_size": 9999})
        peer.mishap = "refuse"
        with pytest.raises(EnvServerError, match="ended after 200") as caught:
            await env.step(ServeAction())
        assert caught.value.code == "execution_error"
        assert isinstance(caught.value, RuntimeError)
        peer.mishap = ""
        assert (await env.step(ServeAction())).reward == 0.5  # a refusal loses nothing


async def test_further_sessions_know_their_environment() -> None:
    async with peer_and_client() as (peer, env):
        other = await env.new_session()
        assert isinstance(other, InferenceGymEnv)
        assert other.spec is env.spec
        assert other.base_url == env.base_url == peer.url
        await other.reset()
        assert (await other.step(ServeAction())).reward == 0.5


async def test_the_blocking_form_works_beside_a_running_loop() -> None:
    async with peer_and_client() as (peer, _):

        def play() -> tuple[float | None, int]:
            with InferenceGymEnv(peer.url).sync() as env:
                env.reset(seed=5, episode_id="mine")
                reward = env.step(ServeAction()).reward
                return reward, env.state().step_count

        assert await asyncio.to_thread(play) == (0.5, 1)


def test_the_root_module_offers_the_same_class() -> None:
    import client

    assert client.InferenceGymEnv is InferenceGymEnv
