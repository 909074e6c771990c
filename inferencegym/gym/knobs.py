"""One field of an action, as numbers of three kinds of action space (see :class:`Knob`)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from math import inf, log
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from inferencegym.errors import InvalidValueError

__all__ = ["Knob", "choice", "flag", "real", "unit_of", "whole"]


def unit_of(entry: float) -> float:
    """A flat entry in [-1, 1] as a share in [0, 1]; what lies beyond is held at the bound."""
    return min(max((entry + 1.0) * 0.5, 0.0), 1.0)


@dataclass(frozen=True)
class Knob:
    """A field of the action model; make one with :func:`real`, :func:`whole`, :func:`choice` or :func:`flag`.

    Attributes:
        levels: values on the grid of mode ``multidiscrete``; of a choice, all its values.
        edges: of a whole number, the shares in [0, 1] at which the flat entry passes to the next one.
    """

    name: str
    kind: Literal["real", "whole", "choice"]
    low: float
    high: float
    levels: tuple[Any, ...]
    default: Any
    edges: tuple[float, ...] = field(default=(), repr=False)

    @property
    def default_level(self) -> int:
        """Level that is nearest to the default."""
        if self.kind == "choice":
            return self.levels.index(self.default)
        return min(range(len(self.levels)), key=lambda level: abs(self.levels[level] - self.default))

    def space(self) -> spaces.Space[Any]:
        """The knob in its own units: Box of shape (1,), or Discrete (a choice by its index)."""
        if self.kind == "real":
            return spaces.Box(self.low, self.high, (1,), np.float32)
        if self.kind == "whole":
            return spaces.Discrete(int(self.high - self.low) + 1, start=int(self.low))
        return spaces.Discrete(len(self.levels))

    def from_space(self, value: Any) -> Any:
        """The field's value for an element of :meth:`space`."""
        if self.kind == "choice":
            return self.from_level(value)
        number = np.asarray(value).item()
        if self.kind == "whole":
            if number not in range(int(self.low), int(self.high) + 1):
                raise InvalidValueError(
                    f"action.{self.name}", number, f"a whole number from {self.low:g} to {self.high:g}"
                )
            return number
        # float32 may have rounded the bound itself outwards.
        if not np.float32(self.low) <= number <= np.float32(self.high):
            raise InvalidValueError(f"action.{self.name}", number, f"a number from {self.low} to {self.high}")
        return min(max(number, self.low), self.high)

    def from_level(self, level: Any) -> Any:
        """The value of a level of the grid."""
        index = level if type(level) is int else np.asarray(level).item()
        if index not in range(len(self.levels)):  # 2.0 is in a range, 2.5 and nan are not
            raise InvalidValueError(f"action.{self.name}", level, f"a level from 0 to {len(self.levels) - 1}")
        return self.levels[int(index)]

    def from_flat(self, entry: float) -> Any:
        """The value for an entry in [-1, 1]; real and whole numbers over their range, choices in order."""
        if not -inf < entry < inf:
            raise InvalidValueError(f"action.{self.name}", entry, "a number in [-1, 1]")
        unit = unit_of(entry)
        if self.kind == "choice":
            return self.levels[min(int(unit * len(self.levels)), len(self.levels) - 1)]
        if self.kind == "whole":
            return int(self.low) + bisect_right(self.edges, unit)
        return min(self.low + unit * (self.high - self.low), self.high)


def real(name: str, low: float, high: float, default: float, levels: int = 10) -> Knob:
    """A real number; its grid has ``levels`` equal steps."""
    grid = tuple(float(value) for value in np.linspace(low, high, levels))
    return Knob(name, "real", low, high, grid, default)


def whole(name: str, low: int, high: int, default: int, levels: tuple[int, ...], *, scaled: bool) -> Knob:
    """A whole number; the flat entry runs over it on a log scale when ``scaled`` (then ``low`` > 0)."""
    if scaled:
        edges = (log((value + 0.5) / low) / log(high / low) for value in range(low, high))
    else:
        edges = ((value + 0.5 - low) / (high - low) for value in range(low, high))
    return Knob(name, "whole", low, high, levels, default, tuple(edges))


def choice(name: str, values: tuple[Any, ...], default: Any) -> Knob:
    """One of a few values, in order."""
    return Knob(name, "choice", 0.0, float(len(values) - 1), values, default)


def flag(name: str, *, default: bool) -> Knob:
    """On or off."""
    return choice(name, (False, True), default)
