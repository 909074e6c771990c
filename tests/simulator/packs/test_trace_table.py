"""The table in memory: primitives, dense rows and the interpolator are one thing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import RegularGridInterpolator

from inferencegym.errors import TracePackError
from simulator.packs.io import DEFAULT_PACK_PATH, read_pack
from simulator.packs.schema import (
    BATCH_SIZES,
    GRID_SHAPE,
    KV_BUDGETS,
    PROMPT_LENGTHS_TOKENS,
    QUANT_TIERS,
    SPEC_LENGTHS,
    VALUE_COLUMNS,
)
from simulator.packs.trace_table import MAX_DENSE_TOKENS, TraceTable, load_trace_table, log2_weights
from tests.simulator.engines import TABLE

CASES = [(spec, tier) for spec in range(len(SPEC_LENGTHS)) for tier in QUANT_TIERS]
LOG_BATCH = np.log2(np.asarray(BATCH_SIZES, dtype=np.float64))
LOG_LENGTH = np.log2(np.asarray(PROMPT_LENGTHS_TOKENS, dtype=np.float64))


def test_primitives_are_those_of_the_pack():
    pack = read_pack(DEFAULT_PACK_PATH)
    assert TABLE.values.shape == (*GRID_SHAPE, len(VALUE_COLUMNS))
    np.testing.assert_allclose(TABLE.step_ms, pack.step_ms, rtol=1e-12)
    np.testing.assert_allclose(TABLE.prefill_ms, pack.prefill_ms, rtol=1e-12)


@pytest.mark.parametrize(("spec", "tier"), CASES)
def test_dense_step_rows_equal_scipy(spec: int, tier: int):
    """Every batch size; contexts between, at, below and above the grid's lengths."""
    reference = RegularGridInterpolator(
        (LOG_BATCH, LOG_LENGTH), TABLE.step_ms[:, spec, tier], bounds_error=False, fill_value=None
    )
    shift = 0.5 * TABLE.metadata.reference_output_tokens
    sequences = np.arange(1, BATCH_SIZES[-1] + 1)
    rows = np.asarray(TABLE.step_rows_s[spec][tier])
    for context in (0, 64, 191, 192, 193, 500, 1151, 1152, 5000, 8320, 12_345, MAX_DENSE_TOKENS):
        bucket, weight = TABLE.context_bucket[context], TABLE.context_weight[context]
        low, high = rows[bucket][sequences], rows[bucket + 1][sequences]
        length = np.full(len(sequences), max(context - shift, 64.0))
        expected_ms = reference(np.stack([np.log2(sequences), np.log2(length)], axis=-1))
        np.testing.assert_allclose(1000.0 * (low + weight * (high - low)), expected_ms, rtol=1e-12)


@pytest.mark.parametrize("tier", QUANT_TIERS)
def test_dense_prefill_rows_equal_scipy(tier: int):
    reference = RegularGridInterpolator(
        (LOG_LENGTH,), TABLE.prefill_ms[tier], bounds_error=False, fill_value=None
    )
    tokens = np.arange(MAX_DENSE_TOKENS + 1, dtype=np.float64)
    expected_ms = reference(np.log2(np.maximum(tokens, 64.0))[:, None])
    np.testing.assert_allclose(1000.0 * np.asarray(TABLE.prefill_rows_s[tier]), expected_ms, rtol=1e-12)


@pytest.mark.parametrize(("spec", "tier"), CASES)
def test_interpolator_returns_the_grid_at_its_points(spec: int, tier: int):
    batch, kv, length = np.meshgrid(BATCH_SIZES, KV_BUDGETS, PROMPT_LENGTHS_TOKENS, indexing="ij")
    found = TABLE.interpolate(spec, tier, batch.ravel(), kv.ravel(), length.ravel())
    grid = TABLE.values[:, :, spec, tier].reshape(-1, len(VALUE_COLUMNS))
    np.testing.assert_allclose(found[:, : len(VALUE_COLUMNS)], grid, rtol=1e-12)
    step = np.broadcast_to(TABLE.step_ms[:, None, spec, tier], GRID_SHAPE[:2] + GRID_SHAPE[-1:])
    np.testing.assert_allclose(found[:, -2], step.ravel(), rtol=1e-12)


def test_interpolation_is_linear_in_the_logarithms():
    between = np.sqrt([64.0 * 128.0])
    low, high = TABLE.prefill_ms[0, 0], TABLE.prefill_ms[0, 1]
    assert TABLE.interpolate(0, 0, np.ones(1), np.ones(1), between)[0, -1] == pytest.approx((low + high) / 2)


def test_weights_hold_below_the_grid_and_extrapolate_above():
    left, weight = log2_weights(np.array([0.0, 1.0, 32.0, 512.0, 1024.0]), BATCH_SIZES)
    assert left.tolist() == [0, 0, 4, 7, 7]
    np.testing.assert_allclose(weight, [0.0, 0.0, 0.0, 1.0, 2.0], atol=1e-12)


def test_one_table_a_process():
    assert load_trace_table() is load_trace_table()


def test_a_missing_pack_is_named():
    with pytest.raises(TracePackError, match=r"nowhere\.parquet"):
        TraceTable("nowhere.parquet")
