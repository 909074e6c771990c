"""Sums of floats, the same on every Python: since 3.12 the builtin ``sum`` compensates for rounding."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["ordered_sum"]


def ordered_sum(values: Iterable[float]) -> float:
    """The sum from first to last, each step rounded; 0.0 of nothing."""
    total = 0.0
    for value in values:
        total += value
    return total
