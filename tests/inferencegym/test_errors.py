"""Errors can be made of any value, and their messages stay short."""

from __future__ import annotations

from typing import Any

import pytest

from inferencegym.errors import InvalidValueError, UnknownNameError


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


VALUES = [10**5000, [10**5000], -(10**5000), Broken(), nested(100_000), "\ud800", "x" * 10_000, b"\xff", None]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_every_value_can_be_refused(value: object) -> None:
    for error in (InvalidValueError("seed", value, "a seed"), UnknownNameError("task", value, ["task1"])):
        assert len(error.message) < 200
        error.message.encode()


def test_a_near_name_is_hinted_at() -> None:
    assert UnknownNameError("task", "tsk1", ["task1", "other"]).hint == "Did you mean task1?"
    assert (
        InvalidValueError("seed", -1, "0 or more").message == "seed: -1 is not allowed; allowed: 0 or more."
    )
