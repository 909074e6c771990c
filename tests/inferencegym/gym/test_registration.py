"""The environments of the registry in gymnasium."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import pytest

import inferencegym.gym
from inferencegym.errors import UnknownNameError
from inferencegym.gym.registration import codec_of
from inferencegym.gym.serving.codec import CODEC
from inferencegym.registry import all_specs, get_spec
from tests.inferencegym.gym.tools import SERVING, make, make_vec, toy_registered


def test_every_environment_of_the_registry_is_known() -> None:
    assert {spec.id for spec in all_specs()} <= set(gymnasium.registry)
    inferencegym.gym.register_all()  # a second time changes nothing


def test_an_environment_that_joins_later_needs_no_code() -> None:
    with toy_registered() as spec:
        env = gymnasium.make(spec.id, task_id="windy")
        assert env.reset(seed=1)[0].shape == env.observation_space.shape
        vector = gymnasium.make_vec(spec.id, num_envs=2)
        assert vector.reset(seed=1)[0].shape[0] == 2
        vector.close()


def test_the_module_prefix_imports_and_registers() -> None:
    code = f"import gymnasium; gymnasium.make('inferencegym.gym:{SERVING}', backend='python').reset(seed=0)"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_codecs_are_found_by_name() -> None:
    assert codec_of(get_spec("serving")) is CODEC
    with toy_registered() as spec:
        assert "x" in codec_of(spec).observation_names


@pytest.mark.parametrize("settings", [{"task_id": "task9"}, {"action_mode": "flta"}, {"backend": "c"}])
def test_unknown_names_list_what_there_is(settings: dict[str, str]) -> None:
    with pytest.raises(UnknownNameError, match=r"task1|flat|compiled"):
        make(**settings)


def test_unknown_names_of_the_vector_environment() -> None:
    with pytest.raises(UnknownNameError, match="task3"):
        make_vec(2, task_id="task33")
    with pytest.raises(UnknownNameError, match="multidiscrete"):
        make_vec(2, action_mode="multi-discrete")


def test_every_public_name_can_be_imported() -> None:
    for name in inferencegym.gym.__all__:
        assert getattr(inferencegym.gym, name) is not None
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = inferencegym.gym.nothing_of_that_name
