"""Checked access to the values of a benchmark result: every refusal names file, line or key, and column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, NoReturn

from inferencegym.errors import InvalidValueError

__all__ = ["MAX_TOKENS", "Record"]

MAX_TOKENS = 1_000_000.0
"""Longest prompt or output taken for real, tokens."""

_MAX_NUMBER = 1e12


@dataclass(frozen=True, slots=True)
class Record:
    """Named values at one place of a file: a row of a table, an object of a JSON document."""

    place: str
    """Such as ``bench.json: result 2``."""
    noun: Literal["key", "column"]
    values: Mapping[str, Any]

    def has(self, name: str) -> bool:
        """Is there anything under that name? Null and empty cells are nothing."""
        value = self.values.get(name)
        return value is not None and not (isinstance(value, str) and not value.strip())

    def number(self, name: str, *, low: float = 0.0, high: float = _MAX_NUMBER, above: bool = True) -> float:
        """A finite number above ``low`` (or from it on), up to ``high``."""
        if not self.has(name):
            raise InvalidValueError(self.at(name), self.values.get(name), "a number; it is missing")
        value = self._parsed(self.values[name])
        if value is None or not (low < value <= high or (value == low and not above)):
            bound = f"above {low:g}" if above else f"from {low:g} on"
            limit = "" if high == _MAX_NUMBER else f", up to {high:g}"
            self.refuse(name, f"a number {bound}{limit}")
        return value

    def optional(self, name: str, *, low: float = 0.0, above: bool = True) -> float | None:
        """As :meth:`number`, or None where there is nothing."""
        return self.number(name, low=low, above=above) if self.has(name) else None

    def tokens(self, name: str) -> float:
        """A length in tokens."""
        return self.number(name, low=1.0, high=MAX_TOKENS, above=False)

    def ordered(self, smaller: str, larger: str) -> None:
        """Refuse ``larger`` where both are there and it is less than ``smaller``."""
        if self.has(smaller) and self.has(larger):
            least = self.number(smaller, above=False)
            if self.number(larger, above=False) < least:
                self.refuse(larger, f"a number not below {smaller}, {least:g}")

    def refuse(self, name: str, allowed: str) -> NoReturn:
        """Raise for the value under that name."""
        raise InvalidValueError(self.at(name), self.values.get(name), allowed)

    def at(self, name: str) -> str:
        """File, place and name, for messages."""
        return f"{self.place}, {self.noun} {name}"

    def _parsed(self, value: Any) -> float | None:
        """A number, or None. Text counts in tables alone, with commas between thousands as GenAI-Perf has."""
        if isinstance(value, str) and self.noun == "column" and "_" not in value:
            value = value.strip().replace(",", "")
        elif isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:
            number = float(value)
        except (ValueError, OverflowError):
            return None
        return number if isfinite(number) else None
