"""Checks of what comes from outside, the same for every environment."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, cast

from pydantic import ValidationError

from inferencegym.errors import InvalidValueError

__all__ = ["SEED_LIMIT", "checked_seed", "checked_snapshot", "checked_whole", "invalid_value"]

SEED_LIMIT = 2**63
"""Seeds lie below this: they fit a signed 64-bit integer in every client language."""


def invalid_value(prefix: str, error: ValidationError) -> InvalidValueError:
    """The first fault that pydantic found, as this project's error; ``prefix`` names the whole."""
    detail = error.errors()[0]
    field = ".".join([prefix, *(str(part) for part in detail["loc"])])
    return InvalidValueError(field, detail.get("input"), detail["msg"].removeprefix("Value error, "))


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
