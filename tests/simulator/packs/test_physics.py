"""The formulas by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.packs import physics
from simulator.packs.schema import PROMPT_LENGTHS_TOKENS
from tests.simulator.properties import bounded


@bounded()
@given(st.floats(0.0, 20_000.0))
def test_prompt_bucket_is_digitize(tokens: float):
    assert physics.prompt_bucket(tokens) == np.digitize(tokens, physics.PROMPT_BUCKET_EDGES)


def test_prompt_buckets_of_the_table_s_lengths():
    below = [physics.prompt_bucket(length - 1) for length in PROMPT_LENGTHS_TOKENS]
    assert below == [0, 1, 2, 3, 4, 5, 6, 7]


def test_acceptance_falls_with_draft_length_and_prompt_length():
    assert physics.acceptance_rate(0.8, 0, 0) == 0.8
    assert physics.acceptance_rate(0.8, 0, 4) == pytest.approx(0.8 / 1.6)
    assert physics.acceptance_rate(0.8, 7, 4) == pytest.approx(0.79 * 0.8 / 1.6)


@bounded()
@given(st.floats(0.0, 0.95), st.sampled_from([0, 1, 2, 4, 8]))
def test_expected_tokens_are_the_sum_of_the_chances_to_get_that_far(acceptance: float, spec_length: int):
    expected = sum(acceptance**accepted for accepted in range(spec_length + 1))
    assert physics.tokens_per_verify_step(acceptance, spec_length) == pytest.approx(expected)


def test_memory_is_the_sum_of_its_parts():
    gib = physics.memory_gb(2.0**34, 2.0**30, 2.0**20, 64, 3, 2.0**31)
    assert gib == 16 + 1 + 64 * 4 / 1024 + 2


def test_half_the_output_is_there_on_average():
    assert physics.sequences_that_fit(10_000.0, 800.0, 400.0) == 10.0


def test_stall_per_token():
    assert physics.prefill_stall_ms(32.0, 20.0, 640.0) == 1.0


def test_cost_per_1k_tokens():
    # 360 cents an hour are 0.1 cents a second.
    assert physics.cost_cents_per_1k(360.0, 1.0, 10_000.0, 0.15) == pytest.approx(0.01)
    assert physics.cost_cents_per_1k(360.0, 2.0, 10_000.0, 0.15) == pytest.approx(0.02)


@bounded()
@given(st.floats(0.0, 1e6), st.sampled_from([1.0, 2.0]))
def test_cost_is_capped_and_the_same_for_numbers_and_arrays(tokens_per_s: float, gpus: float):
    alone = physics.cost_cents_per_1k(293.0, gpus, tokens_per_s, 0.15)
    arrays = physics.cost_cents_per_1k(293.0, np.array([gpus]), np.array([tokens_per_s]), 0.15)
    assert 0.0 < alone <= 0.15
    assert arrays[0] == alone
