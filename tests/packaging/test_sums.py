"""Floats are summed one way on every Python: the builtin ``sum`` compensates since 3.12."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.kernels.sums import ordered_sum
from tests.live import ROOT

MARK = "# whole numbers"
FILES = [path for layer in ("simulator", "env", "grader") for path in sorted((ROOT / layer).rglob("*.py"))]


def builtin_sums(source: str) -> list[int]:
    """Lines that call the builtin ``sum`` without saying that whole numbers are summed."""
    lines = source.splitlines()
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    sums = [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "sum"]
    return [number for number in sums if MARK not in lines[number - 1]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_builtin_sum_of_floats(path: Path) -> None:
    assert builtin_sums(path.read_text()) == []


def test_the_rule_finds_one() -> None:
    assert builtin_sums("x = sum(values)\ny = sum(counts)  # whole numbers\nz = array.sum()\n") == [1]


@given(st.lists(st.floats(-1e6, 1e6)))
def test_the_sum_runs_from_first_to_last(values: list[float]) -> None:
    total = 0.0
    for value in values:
        total = total + value
    assert ordered_sum(iter(values)) == total
    assert ordered_sum([1e16, 1.0, 1.0]) == 1e16
