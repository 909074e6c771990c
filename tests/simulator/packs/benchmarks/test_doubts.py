"""Drafts by the names that the tools give them, and errors in the forms that they count them in."""

from __future__ import annotations

from typing import Any

import pytest

from inferencegym.errors import InvalidValueError
from simulator.packs.benchmarks.doubts import apart, reported_errors, speculation
from simulator.packs.benchmarks.record import Record


@pytest.mark.parametrize(
    "values",
    [
        {"accept_length": 2.9},
        {"accept_length": "2.9"},
        {"acceptance_length": 1.4},
        {"avg_spec_accept_length": 3.1},
        {"acc_length": 2.0},
        {"accept_length": float("nan")},
        {"spec_decode_acceptance_rate": 61.0},
        {"spec_decode_num_drafts": 10},
        {"spec_decode_acceptance_length": {"unit": "ratio", "avg": 2.4, "p50": 2.3}},
        {"pooled_spec_decode_acceptance_histogram": {"0": 12, "1": 5}},
        {"total_draft_tokens": {"unit": "tokens", "avg": 800}},
        {"draft_acceptance_rate": 0.4},
        {"num_speculative_tokens": 3},
        {"Acceptance Length": "2.5"},
        {"server_info": {"speculative_algorithm": "EAGLE3"}},
        {"server_info": {"internal_states": [{"a": 1}, {"avg_spec_accept_length": 2.2}]}},
        {"speculative_config": {"method": "ngram"}},
        {"num_draft_tokens": 4},
        {"server_info": {"num_draft_tokens": 4}},
        {"server_info": {"internal_states": [{"spec_num_draft_tokens": 3}]}},
        {"server_info": {"speculative_num_draft_tokens": 4}},
        {"speculative_decoding": True},
        {"speculative_decoding": {"enabled": True}},
    ],
)
def test_drafts_are_found_by_any_name(values: dict[str, Any]) -> None:
    assert speculation(values)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"accept_length": None},
        {"accept_length": 1.0},
        {"accept_length": "n/a"},
        {"spec_decode_num_drafts": 0},
        {"spec_decode_draft_tokens": {"unit": "tokens", "avg": 0.0}},
        {"pooled_spec_decode_acceptance_histogram": None},
        {"speculative_config": None},
        {"speculative_tokens": 0},
        {"num_draft_tokens": 0},
        {"speculative_decoding": {"enabled": False, "method": None}},
        {"server_info": {"speculative_algorithm": None, "speculative_num_draft_tokens": 64}},
        {"server_info": {"speculative_algorithm": None, "speculative_num_steps": 5}},
        {"server_info": {"speculative_accept_threshold_acc": 1.0, "internal_states": [{}]}},
        {"max_length": 4096, "total_output_tokens": 900, "input_lens": [3, 4], "itls": [[0.1, 0.2]]},
    ],
)
def test_settings_without_drafts_are_none(values: dict[str, Any]) -> None:
    assert speculation(values) == ""


def test_the_field_and_its_value_are_named() -> None:
    assert speculation({"a": 1, "accept_length": 2.9}) == "accept_length 2.9"
    assert len(speculation({"speculative_config": {"model": "x" * 500}})) < 80


@pytest.mark.parametrize(
    ("summary", "errors"),
    [
        (None, 0.0),
        ([], 0.0),
        (7, 7.0),
        ([{"error_details": {"code": 500}, "count": 3}, {"count": 4}], 7.0),
        ([{"message": "no count"}, "timeout", ""], 2.0),
        ({"timeout": 5, "refused": 2}, 7.0),
    ],
)
def test_errors_are_counted_in_any_form(summary: Any, errors: float) -> None:
    assert reported_errors(Record("r", "key", {"error_summary": summary})) == errors


@pytest.mark.parametrize(
    "summary", [-1, "many", [{"count": -2}], [{"count": float("nan")}], {"timeout": "x"}]
)
def test_a_count_that_is_none_is_refused(summary: Any) -> None:
    with pytest.raises(InvalidValueError, match="error_summary"):
        reported_errors(Record("r", "key", {"error_summary": summary}))


def test_counts_may_differ_by_a_tenth() -> None:
    assert not apart(2048.0, 2041.0)
    assert not apart(0.0, 0.0)
    assert apart(2048.0, 1024.0)
    assert apart(1024.0, 2048.0)
