"""The clients against the real server: the same episode over HTTP, over /ws and in this process."""

from __future__ import annotations

import asyncio

import pytest

from env.serving.episode import make_env
from inferencegym import (
    AsyncInferenceGymClient,
    InferenceGymClient,
    InferenceGymEnv,
    RewardConfig,
    ServeAction,
)
from inferencegym.errors import (
    EpisodeDoneError,
    InvalidValueError,
    ServerUnavailableError,
    SessionNotFoundError,
    UnknownNameError,
)
from inferencegym.openenv_client import EnvServerError
from tests.live import free_port

ACTIONS = [ServeAction(batch_size=16 + step, kv_budget=0.5) for step in range(8)]


def rewards_here(task_id: str, seed: int) -> list[float]:
    episode = make_env(task_id, seed)
    episode.reset()
    return [episode.step(action)[1] for action in ACTIONS]


def test_http_and_websocket_play_the_episode_of_this_process(server_url: str) -> None:
    with InferenceGymClient(server_url) as client:
        session = client.reset("task2", seed=11)
        over_http = [session.step(action).reward for action in ACTIONS]
        replayed = client.grade_replay("task2", 11, ACTIONS)
        assert replayed.score == session.grade().score
    with InferenceGymEnv(server_url).sync() as env:
        env.reset(task_id="task2", seed=11)
        over_ws = [env.step(action).reward for action in ACTIONS]
    assert over_http == over_ws == rewards_here("task2", 11)


async def test_the_asynchronous_clients_play_it_too(server_url: str) -> None:
    async with AsyncInferenceGymClient(server_url) as client:
        sessions = await asyncio.gather(*(client.reset("task1", seed=seed) for seed in (1, 1, 2)))
        one, same, other = [[(await s.step(a)).reward for a in ACTIONS] for s in sessions]
    assert one == same == rewards_here("task1", 1)
    assert other == rewards_here("task1", 2)
    async with InferenceGymEnv(server_url) as env:
        await env.reset(task_id="task1", seed=2)
        assert [(await env.step(action)).reward for action in ACTIONS] == other


def test_reads_of_the_real_server_are_typed(server_url: str) -> None:
    with InferenceGymClient(server_url) as client:
        assert client.health().status == "healthy"
        assert [task.id for task in client.tasks()] == ["task1", "task2", "task3"]
        assert set(client.baseline().scores) == {"task1", "task2", "task3"}
        assert "action_schema" in client.info()


def test_episode_id_seed_and_state_are_honoured(server_url: str) -> None:
    with InferenceGymClient(server_url) as client:
        session = client.reset("task3", seed=9, episode_id="mine", config=RewardConfig(alpha=0.2))
        session.step()
        state = session.state()
        assert (state.episode_id, state.seed, state.task_id, state.step_count) == ("mine", 9, "task3", 1)
    with InferenceGymEnv(server_url).sync() as env:
        env.reset(task_id="task3", seed=9, episode_id="yours")
        env.step(ServeAction())
        assert (env.state().episode_id, env.state().seed, env.state().step_count) == ("yours", 9, 1)


def test_the_servers_errors_arrive_as_exceptions(server_url: str) -> None:
    with InferenceGymClient(server_url) as client:
        with pytest.raises(UnknownNameError, match="task1"):
            client.reset("task9")
        with pytest.raises(InvalidValueError, match="seed"):
            client.reset(seed=-1)
        session = client.reset("task1")
        with pytest.raises(InvalidValueError, match="kv_budget") as caught:
            session.step(kv_budget=7)
        assert "kv_budget" in caught.value.field
        assert session.log == []
        while not session.done:
            session.step(batch_size=64)
        with pytest.raises(EpisodeDoneError):
            session.step()
        session.session_id = "never given out"
        with pytest.raises(SessionNotFoundError):
            session.step()


def test_the_websockets_errors_arrive_as_exceptions(server_url: str) -> None:
    with InferenceGymEnv(server_url).sync() as env:
        env.reset(task_id="task1")
        with pytest.raises(EnvServerError, match="batch_size: 9999"):
            env.step({"batch_size": 9999})
        with pytest.raises(EnvServerError, match="task9"):
            env.reset(task_id="task9")


def test_no_server_is_a_clear_error_after_a_short_wait() -> None:
    client = InferenceGymClient(f"http://127.0.0.1:{free_port()}", wake_timeout_s=0.3)
    with pytest.raises(ServerUnavailableError, match="inferencegym serve"):
        client.health()
