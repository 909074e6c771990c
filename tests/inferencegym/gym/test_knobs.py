"""Entries of an action and the values that they stand for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferencegym.errors import InvalidValueError
from inferencegym.gym.knobs import choice, flag, real, whole
from inferencegym.gym.serving.codec import CODEC

KV, SPEC, BATCH, DISAGG, TIER = CODEC.knobs


def test_the_ends_of_the_flat_range_are_the_bounds() -> None:
    assert [knob.from_flat(-1.0) for knob in CODEC.knobs] == [0.1, 0, 1, False, 0]
    assert [knob.from_flat(1.0) for knob in CODEC.knobs] == [1.0, 8, 512, True, 2]
    assert [knob.from_flat(7.0) for knob in CODEC.knobs] == [1.0, 8, 512, True, 2]


@given(st.floats(-1.0, 1.0))
@settings(deadline=None)
def test_batch_size_runs_on_a_log_scale(entry: float) -> None:
    exact = 512.0 ** ((entry + 1.0) / 2.0)
    assert abs(BATCH.from_flat(entry) - exact) <= 0.5 + 1e-6


def test_choices_share_the_range_evenly_and_in_order() -> None:
    assert [SPEC.from_flat(entry) for entry in (-0.9, -0.5, 0.0, 0.5, 0.9)] == [0, 1, 2, 4, 8]
    assert [TIER.from_flat(entry) for entry in (-0.5, 0.0, 0.5)] == [0, 1, 2]
    assert [DISAGG.from_flat(entry) for entry in (-0.01, 0.0)] == [False, True]


def test_a_whole_number_without_a_scale_is_linear() -> None:
    knob = whole("n", 0, 10, 5, (0, 5, 10), scaled=False)
    assert [knob.from_flat(entry) for entry in (-1.0, -0.8, 0.0, 1.0)] == [0, 1, 5, 10]


@pytest.mark.parametrize("entry", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused(entry: float) -> None:
    with pytest.raises(InvalidValueError, match="kv_budget"):
        KV.from_flat(entry)


@pytest.mark.parametrize("level", [-1, 5, 2.5, math.nan])
def test_levels_outside_the_grid_are_refused(level: float) -> None:
    with pytest.raises(InvalidValueError, match="spec_length"):
        SPEC.from_level(level)


def test_levels_come_as_any_kind_of_number() -> None:
    assert [SPEC.from_level(level) for level in (1, 1.0, np.int64(1), np.asarray([1]))] == [1, 1, 1, 1]


def test_float32_may_round_a_bound_outwards() -> None:
    knob = real("x", 0.1, 0.7, default=0.3)
    for end in (0.1, 0.7):
        assert knob.from_space(np.asarray([end], dtype=np.float32)) == pytest.approx(end, abs=1e-7)
        assert 0.1 <= knob.from_space(np.asarray([end], dtype=np.float32)) <= 0.7
    for beyond in (0.8, 0.0, float("nan")):
        with pytest.raises(InvalidValueError, match=r"action\.x.*from 0\.1 to 0\.7"):
            knob.from_space(beyond)


def test_default_levels() -> None:
    assert [knob.levels[knob.default_level] for knob in CODEC.knobs] == [1.0, 0, 32, False, 0]
    assert real("x", 0.0, 1.0, default=0.52, levels=11).default_level == 5
    assert choice("c", ("a", "b"), "b").default_level == 1
    assert flag("f", default=True).default_level == 1
