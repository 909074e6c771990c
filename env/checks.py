"""Checks of what comes from outside, the same for every environment."""

from __future__ import annotations

from numbers import Integral

from pydantic import ValidationError

from inferencegym.errors import InvalidValueError

__all__ = ["SEED_LIMIT", "checked_seed", "invalid_value"]

SEED_LIMIT = 2**63
"""Seeds lie below this: they fit a signed 64-bit integer in every client language."""


def invalid_value(prefix: str, error: ValidationError) -> InvalidValueError:
    """The first fault that pydantic found, as this project's error; ``prefix`` names the whole."""
    detail = error.errors()[0]
    field = ".".join([prefix, *(str(part) for part in detail["loc"])])
    return InvalidValueError(field, detail.get("input"), detail["msg"].removeprefix("Value error, "))


def checked_seed(seed: object) -> int:
    """A seed as a plain int. Raises InvalidValueError."""
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= int(seed) < SEED_LIMIT:
        raise InvalidValueError("seed", seed, f"a whole number from 0 to {SEED_LIMIT - 1}")
    return int(seed)
