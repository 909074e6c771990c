"""Observations are built past pydantic's constructor; they must not be told from properly built ones."""

from __future__ import annotations

import copy
import pickle

import pytest

from env.serving.episode import make_env
from inferencegym.models.serving import PriorityDistribution, ServeAction, ServeObservation


@pytest.fixture
def observation() -> ServeObservation:
    env = make_env("task3", 1)
    env.reset()
    return env.step(ServeAction())[0]


def test_it_equals_the_validated_one(observation: ServeObservation) -> None:
    validated = ServeObservation.model_validate(observation.model_dump())
    assert observation == validated
    assert repr(observation) == repr(validated)
    assert observation.model_dump_json() == validated.model_dump_json()
    assert list(observation.model_dump()) == list(ServeObservation.model_fields)


def test_all_its_fields_count_as_set(observation: ServeObservation) -> None:
    assert observation.model_fields_set == set(ServeObservation.model_fields)
    assert observation.priority_distribution.model_fields_set == set(PriorityDistribution.model_fields)
    assert observation.model_dump(exclude_unset=True) == observation.model_dump()


def test_it_is_copied_and_pickled_like_any_model(observation: ServeObservation) -> None:
    for other in (
        copy.copy(observation),
        copy.deepcopy(observation),
        pickle.loads(pickle.dumps(observation)),
        observation.model_copy(),
    ):
        assert other == observation
        assert other is not observation
    changed = observation.model_copy(update={"timestep": 7})
    assert (changed.timestep, observation.timestep) == (7, 1)


def test_observations_share_nothing(observation: ServeObservation) -> None:
    env = make_env("task1", 2)
    first = env.reset()
    before = first.model_dump_json()
    env.step(ServeAction())
    assert first.model_dump_json() == before
