"""A codec made from an environment's own schemas, for environments that bring none.

Observation: every number with a finite lower bound becomes a feature, linear when its range is at most
1,000 wide, else on a log scale; without an upper bound it is held at 1,000,000. Nested models are followed;
texts and lists are left out. Action: every number with two bounds, boolean and choice becomes a knob.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from inferencegym.errors import InvalidValueError
from inferencegym.gym.codec import Feature, GymCodec
from inferencegym.gym.knobs import Knob, choice, flag, real, whole
from inferencegym.registry import EnvSpec

__all__ = ["codec_from_schemas"]

_UNBOUNDED = 1e6
_LINEAR_UP_TO = 1000.0
_GRID = 10

Schema = dict[str, Any]


def codec_from_schemas(spec: EnvSpec) -> GymCodec:
    """The codec of an environment whose models say everything.

    Raises:
        InvalidValueError: the observation has no number, or an action field cannot become a knob.
    """
    action_model: type[BaseModel] = spec.part("action_model")
    observation = spec.part("observation_model").model_json_schema()
    features = list(_features(observation, observation.get("$defs", {}), ""))
    if not features:
        raise InvalidValueError("observation_model", spec.observation_model, "a model with numbers in it")
    schema = action_model.model_json_schema()
    definitions = schema.get("$defs", {})
    knobs = [_knob(name, field, definitions) for name, field in schema.get("properties", {}).items()]
    return GymCodec(action_model, features, knobs)


def _resolved(field: Schema, definitions: Schema) -> Schema:
    """The schema behind a reference; of several kinds the first that is not null."""
    for key in ("anyOf", "allOf", "oneOf"):
        if key in field:
            kinds = [kind for kind in field[key] if kind.get("type") != "null"]
            return {**_resolved(kinds[0], definitions), **_default(field)}
    if "$ref" in field:
        return {**definitions[field["$ref"].rpartition("/")[2]], **_default(field)}
    return field


def _default(field: Schema) -> Schema:
    return {"default": field["default"]} if "default" in field else {}


def _features(schema: Schema, definitions: Schema, prefix: str) -> Iterator[Feature]:
    for name, raw in schema.get("properties", {}).items():
        field, path = _resolved(raw, definitions), f"{prefix}{name}"
        if field.get("type") == "object" and "properties" in field:
            yield from _features(field, definitions, f"{path}.")
        elif field.get("type") == "boolean":
            yield Feature(path, path)
        elif field.get("type") in ("number", "integer") and "minimum" in field:
            low, high = float(field["minimum"]), float(field.get("maximum", _UNBOUNDED))
            scale = "linear" if high - low <= _LINEAR_UP_TO else "log"
            yield Feature(path, path, low, high, scale)


def _knob(name: str, raw: Schema, definitions: Schema) -> Knob:
    field = _resolved(raw, definitions)
    if field.get("type") == "boolean":
        return flag(name, default=bool(field.get("default", False)))
    if "enum" in field or "const" in field:
        values = tuple(field.get("enum", [field.get("const")]))
        return choice(name, values, field.get("default", values[0]))
    low, high = field.get("minimum"), field.get("maximum")
    if low is None or high is None or field.get("type") not in ("number", "integer"):
        raise InvalidValueError(
            f"action_model.{name}",
            raw,
            "a boolean, a choice, or a number with two bounds; else write a codec",
        )
    default = field.get("default", low)
    if field["type"] == "number":
        return real(name, float(low), float(high), float(default), _GRID)
    step = max(1, round((high - low) / (_GRID - 1)))
    levels = (*range(low, high, step), high)
    return whole(name, low, high, default, levels, scaled=low > 0 and high / low >= 2 * _GRID)
