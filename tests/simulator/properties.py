"""Settings of the property tests: the same examples every time, and no test that a busy machine can fail."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

__all__ = ["bounded"]


def bounded(examples: int = 100) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
