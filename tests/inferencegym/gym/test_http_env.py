"""The same environment over a server."""

from __future__ import annotations

import math
from typing import Any

import httpx
import numpy as np
import pytest

from inferencegym.errors import (
    EpisodeNotStartedError,
    InferenceGymError,
    InvalidValueError,
    ServerUnavailableError,
    UnknownNameError,
)
from inferencegym.gym import HTTPGymEnv
from tests.inferencegym.fake_server import FakeServer
from tests.inferencegym.gym.tools import make
from tests.live import free_port


@pytest.mark.parametrize(("task_id", "mode"), [("task1", "flat"), ("task3", "multidiscrete")])
def test_it_plays_what_the_local_one_plays(server_url: str, task_id: str, mode: str) -> None:
    remote, local = HTTPGymEnv(server_url, task_id, action_mode=mode), make(task_id=task_id, action_mode=mode)
    assert remote.observation_space == local.observation_space
    assert remote.action_space == local.action_space
    local.action_space.seed(4)
    for seed in (11, None):
        ours, here = remote.reset(seed=seed), local.reset(seed=seed)
        assert np.array_equal(ours[0], here[0])
        assert ours[1]["seed"] == here[1]["seed"]
        for _ in range(12):
            action = local.action_space.sample()
            ours, here = remote.step(action), local.step(action)
            assert np.array_equal(ours[0], here[0])
            assert ours[1:4] == here[1:4]
            assert ours[4]["metrics"] == here[4]["metrics"]
            assert ours[4]["action_mask"].tolist() == here[4]["action_mask"].tolist()
    remote.close()


def test_it_passes_settings_and_errors_on(server_url: str) -> None:
    env = HTTPGymEnv(server_url, config={"alpha": 0.0}, render_mode="ansi")
    env.reset(seed=0)
    assert env.step(env.action_space.sample())[4]["reward_terms"]["throughput"] == 0.0
    assert "step 1 of 200" in env.render()
    env.close()
    with pytest.raises(UnknownNameError, match="task1"):
        HTTPGymEnv(server_url, "task11")
    wrong = HTTPGymEnv(server_url, config={"alpha": 3.0})
    with pytest.raises(InvalidValueError, match="alpha"):
        wrong.reset(seed=0)
    wrong.close()


def test_the_end_of_an_episode_is_a_truncation() -> None:
    env = HTTPGymEnv("http://fake", transport=httpx.MockTransport(FakeServer(episode_length=2)))
    assert env.task.id == "task1"
    with pytest.raises(EpisodeNotStartedError):
        env.step(env.action_space.sample())
    env.reset(seed=1)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(2)]
    assert ends == [(False, False), (False, True)]
    env.close()


def test_a_misspelt_keyword_is_not_swallowed() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean wake_timeout_s"):
        HTTPGymEnv(f"http://127.0.0.1:{free_port()}", wake_timeot_s=0.0)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["wake_timeout_s", "timeout_s"])
@pytest.mark.parametrize("value", ["x", math.nan, math.inf, -1, None, True, [1.0]])
def test_seconds_are_checked_before_anything_is_asked(name: str, value: Any) -> None:
    with pytest.raises(InvalidValueError, match=f"^{name}"):
        HTTPGymEnv(f"http://127.0.0.1:{free_port()}", **{name: value})


@pytest.mark.parametrize(
    "settings",
    [*({"config": value} for value in ("x", 5, [], [("alpha", 1)], True)), {"headers": "x"}, {"on_wait": 3},
     {"base_url": 5}],
)  # fmt: skip
def test_other_settings_are_checked_too(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(settings))):
        HTTPGymEnv(**{"base_url": f"http://127.0.0.1:{free_port()}", **settings})


def test_a_closed_one_says_so(server_url: str) -> None:
    env = HTTPGymEnv(server_url)
    env.close()
    env.close()
    with pytest.raises(InferenceGymError, match="closed"):
        env.reset(seed=1)


def test_an_address_with_a_path_too_many_is_told(server_url: str) -> None:
    with pytest.raises(ServerUnavailableError, match="Check the URL"):
        HTTPGymEnv(f"{server_url}/reset")
    with pytest.raises(ServerUnavailableError, match="Check the URL"):
        HTTPGymEnv(f"{server_url}/api/v1")


def test_no_server_is_a_clear_error() -> None:
    with pytest.raises(ServerUnavailableError, match="make serve"):
        HTTPGymEnv(f"http://127.0.0.1:{free_port()}", wake_timeout_s=0.0)
