"""Checks of what comes from outside, the same for every environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import isfinite
from numbers import Integral, Real
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from inferencegym.errors import InvalidValueError, MissingValueError
from inferencegym.schema_text import Schema, describe, schema_at

__all__ = [
    "SEED_LIMIT",
    "check_alike",
    "checked_progress",
    "checked_seed",
    "checked_snapshot",
    "checked_whole",
    "expected",
    "invalid_value",
]

SEED_LIMIT = 2**63
"""Seeds lie below this: they fit a signed 64-bit integer in every client language."""


def expected(model: type[BaseModel], path: Iterable[int | str]) -> str:
    """What a field of a model allows, in words."""
    schema = _schema_of(model)
    return describe(schema_at(schema, path), schema) or "a value"


@lru_cache(maxsize=64)
def _schema_of(model: type[BaseModel]) -> Schema:
    return model.model_json_schema()


def invalid_value(prefix: str, error: ValidationError, model: type[BaseModel]) -> InvalidValueError:
    """The first fault that pydantic found in a ``model``, as this project's error; ``prefix`` names the
    whole."""
    detail = error.errors()[0]
    field = ".".join([prefix, *(str(part) for part in detail["loc"])])
    if detail["type"] == "missing":
        return MissingValueError(field, expected(model, detail["loc"]))
    if detail["type"] == "extra_forbidden":
        return InvalidValueError(field, detail.get("input"), "nothing: there is no such field")
    allowed = detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return InvalidValueError(field, detail.get("input"), allowed)


def checked_seed(seed: object, field: str = "seed") -> int:
    """A seed as a plain int. Raises InvalidValueError."""
    return checked_whole(field, seed, 0, SEED_LIMIT - 1)


def checked_whole(field: str, value: object, low: int, high: int) -> int:
    """A whole number of any integer type as a plain int. Raises InvalidValueError."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        raise InvalidValueError(field, value, f"a whole number from {low} to {high}")
    return int(value)


def checked_snapshot(snapshot: object, parts: Mapping[str, Any]) -> Mapping[str, Any]:
    """A snapshot of an episode that is played under the same settings.

    Args:
        snapshot: what is to be restored.
        parts: what this episode's own snapshot holds, by name; the value is what must be the same, or None
            for what changes as the episode goes on.

    Raises:
        InvalidValueError: no such snapshot, or one made under other settings.
    """
    if not isinstance(snapshot, Mapping) or set(cast("Mapping[Any, Any]", snapshot)) != set(parts):
        raise InvalidValueError("snapshot", cast("object", snapshot), "what snapshot() of this episode gave")
    given = cast("Mapping[str, Any]", snapshot)
    for name, value in parts.items():
        if value is not None and given[name] is not value and given[name] != value:
            raise InvalidValueError(f"snapshot.{name}", given[name], f"that of this episode, {value!r}")
    return given


def checked_progress(snapshot: Mapping[str, Any], longest: int) -> tuple[int, int, float]:
    """Seed, step count (0 to ``longest``) and cumulative reward of a snapshot. Raises InvalidValueError."""
    seed = checked_seed(snapshot["seed"], "snapshot.seed")
    steps = checked_whole("snapshot.step_count", snapshot["step_count"], 0, longest)
    total = snapshot["cumulative_reward"]
    check_alike("snapshot.cumulative_reward", total, 0.0)
    return seed, steps, total


def check_alike(field: str, given: Any, own: Any) -> None:
    """Raises InvalidValueError unless ``given`` is built like ``own``: the same kinds of value, finite
    numbers, lists and tuples of the same length."""
    if isinstance(own, int | float) and not isinstance(own, bool):
        kind = Integral if isinstance(own, int) else Real
        if isinstance(given, bool) or not isinstance(given, kind) or not isfinite(given):
            raise InvalidValueError(field, given, f"a {'whole' if kind is Integral else 'finite'} number")
    elif type(given) is not type(own):
        raise InvalidValueError(field, given, f"a {type(own).__name__}")
    elif isinstance(own, list | tuple):
        parts = cast("list[Any]", own)
        if len(given) != len(parts):
            raise InvalidValueError(field, given, f"{len(parts)} parts")
        for index, (one, other) in enumerate(zip(given, parts, strict=True)):
            check_alike(f"{field}[{index}]", one, other)
