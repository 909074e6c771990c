"""Codecs made from schemas alone."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from inferencegym.errors import InvalidValueError
from inferencegym.gym.env import GymEnv
from inferencegym.gym.schema_codec import codec_from_schemas
from inferencegym.registry import EnvSpec, get_spec
from tests.inferencegym.gym.tools import MODES, toy_registered


class FakeSpec:
    """Stands for an EnvSpec with models of this file."""

    observation_model = "here:Seen"

    def __init__(self, action: type[BaseModel], observation: type[BaseModel]) -> None:
        self._parts = {"action_model": action, "observation_model": observation}

    def part(self, name: str) -> Any:
        return self._parts[name]


class Inner(BaseModel):
    depth: int = Field(ge=0)
    label: str = ""


class Seen(BaseModel):
    inner: Inner
    alarm: bool
    rate: float = Field(ge=0.0, le=5000.0)
    note: str = ""


class Do(BaseModel):
    size: int | None = Field(8, ge=1, le=64)
    slow: bool = False


def test_nested_numbers_booleans_and_scales() -> None:
    codec = codec_from_schemas(FakeSpec(Do, Seen))  # type: ignore[arg-type]
    assert codec.observation_names == ("inner.depth", "alarm", "rate")
    assert [feature.scale for feature in codec.features] == ["log", "linear", "log"]
    assert codec.decode("flat", [1.0, 1.0]) == Do(size=64, slow=True)
    assert codec.knobs[0].levels[0] == 1
    assert codec.knobs[0].levels[-1] == 64


class Text(BaseModel):
    text: str


class Free(BaseModel):
    size: int


def test_models_that_say_too_little_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="observation_model"):
        codec_from_schemas(FakeSpec(Do, Text))  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError, match=r"action_model\.size"):
        codec_from_schemas(FakeSpec(Free, Seen))  # type: ignore[arg-type]


def test_the_serving_schemas_alone_would_do() -> None:
    spec: EnvSpec = get_spec("serving")
    codec = codec_from_schemas(spec)
    assert len(codec.features) == 14
    assert codec.knobs[0].name == "kv_budget"
    env = GymEnv("serving", "task1", codec=codec)
    assert env.observation_space.contains(env.reset(seed=0)[0])
    assert env.observation_space.contains(env.step(env.action_space.sample())[0])


@pytest.mark.parametrize("mode", MODES)
def test_a_toy_plays_through(mode: str) -> None:
    with toy_registered() as spec:
        env = GymEnv(spec.id, "windy", mode, config={"wind": 0.1})
        env.action_space.seed(0)
        observation, _ = env.reset(seed=0)
        truncated = False
        while not truncated:
            assert env.observation_space.contains(observation)
            observation, _, terminated, truncated, info = env.step(env.action_space.sample())
            assert not terminated
        assert info["timestep"] == 50
