"""Models as programs build them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from env.serving.episode import make_env
from inferencegym.errors import InvalidValueError
from inferencegym.models.serving import PriorityDistribution, ServeAction, ServeObservation
from inferencegym.registry import EnvSpec, all_specs


def test_an_observation_takes_its_shares_as_a_list() -> None:
    fields = make_env("task3").reset().model_dump()
    given = ServeObservation(**{**fields, "priority_distribution": [0.2, 0.5, 0.3]})
    assert given.priority_distribution == PriorityDistribution(interactive=0.2, batch=0.5, best_effort=0.3)
    assert ServeObservation.model_validate_json(given.model_dump_json()) == given


@pytest.mark.parametrize(
    "shares", [[], [1.0], [0.2, 0.5, 0.3, 0.0], [0.2, 0.5, 0.5], ["a", 0, 1], [2.0, -1.0, 0.0]]
)
def test_shares_that_are_none_are_refused(shares: list[Any]) -> None:
    with pytest.raises(ValidationError):
        PriorityDistribution.model_validate(shares)


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_an_action_validates_itself_and_its_class_what_it_is_given(spec: EnvSpec) -> None:
    model = spec.part("action_model")
    action = model()
    assert action.validate() is action
    assert model.validate({}) == action
    assert "validate" not in model.model_fields
    assert "validate" not in model.model_json_schema()["properties"]


def test_an_action_made_without_a_check_is_refused_by_its_own() -> None:
    action = ServeAction.model_construct(batch_size=0)
    with pytest.raises(InvalidValueError, match=r"action\.batch_size: 0 .* a whole number from 1 to 512"):
        action.validate()
    with pytest.raises(ValidationError):
        ServeAction.validate({"batch_size": 0})
