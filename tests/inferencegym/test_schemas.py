"""What JSON schemas of all environments say about values is true of the models."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from agents.llm.task_text import action_schema
from inferencegym.registry import EnvSpec, all_specs

MODELS = ("action_model", "config_model", "observation_model", "state_model")


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
@pytest.mark.parametrize("part", MODELS)
def test_published_defaults_are_values_of_their_fields(spec: EnvSpec, part: str) -> None:
    """Who fills in the defaults of a schema sends what the model takes."""
    model: Any = spec.part(part)
    schema = model.model_json_schema()
    for name, field in schema["properties"].items():
        if "default" in field:
            jsonschema.validate(field["default"], {**field, "$defs": schema.get("$defs", {})})
            model.__pydantic_validator__.validate_assignment(model.model_construct(), name, field["default"])


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_an_action_of_published_defaults_is_the_default_action(spec: EnvSpec) -> None:
    fields = action_schema(spec)["properties"]
    filled = {name: field["default"] for name, field in fields.items() if "default" in field}
    model = spec.part("action_model")
    assert model.model_validate(filled) == model()
