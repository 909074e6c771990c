"""Errors between the points of the pack (the library: extra ``traces``, make test-traces)."""

from __future__ import annotations

import pytest

from simulator.packs.building.held_out import HeldOut, load_held_out, main, measure
from simulator.packs.trace_table import load_trace_table

FOUND = load_held_out()


def of(quantity: str, read_by: str) -> list[HeldOut]:
    return [one for one in FOUND if (one.quantity, one.read_by) == (quantity, read_by)]


def test_decode_time_is_within_five_percent_on_average_and_the_reference_everywhere():
    assert len(FOUND) == 18
    assert all(one.mean < 0.05 for one in of("decode step", "fast"))
    assert all(one.largest < 0.05 for one in of("decode step", "reference"))
    assert all(one.points > 80 for one in of("decode step", "reference"))


def test_one_pass_is_what_the_library_takes_for_a_mixed_iteration():
    assert all(one.largest < 0.05 for one in of("mixed iteration", "reference"))
    # Two passes are not: this is what the fast simulator charges.
    assert all(one.bias > 0.20 for one in of("mixed iteration", "fast"))


@pytest.mark.traces
def test_the_committed_errors_are_those_of_the_library():
    assert measure(load_trace_table()) == FOUND


@pytest.mark.traces
def test_the_command_prints_a_line_each(capsys: pytest.CaptureFixture[str]):
    assert main([]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(FOUND)
