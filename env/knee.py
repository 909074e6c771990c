"""The bound of the terms of a reward: linear to a knee, then logarithmic."""

from __future__ import annotations

from math import log1p

__all__ = ["knee"]


def knee(ratio: float, at_knee: float, top: float) -> float:
    """Bound a non-negative ratio to [0, 1]: linear to ``at_knee`` at 1, then logarithmic to 1 at ``top``."""
    if ratio <= 1.0:
        return at_knee * ratio
    return min(1.0, at_knee + (1.0 - at_knee) * log1p(ratio - 1.0) / log1p(top - 1.0))
