"""The physics of the committed pack: what the specification says a table of measured kernels must show."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from simulator.packs.io import DEFAULT_PACK_PATH, TracePack, read_pack
from simulator.packs.physics import memory_gb, sequences_that_fit
from simulator.packs.schema import BATCH_SIZES, KV_BUDGETS, PROMPT_LENGTHS_TOKENS, SPEC_LENGTHS, VALUE_COLUMNS

FP16, INT8, INT4 = 0, 1, 2
FULL_POOL = KV_BUDGETS.index(1.0)
PROMPT_256 = PROMPT_LENGTHS_TOKENS.index(256)

Grid = npt.NDArray[np.float64]


def batch(size: int) -> int:
    return BATCH_SIZES.index(size)


def drafts(length: int) -> int:
    return SPEC_LENGTHS.index(length)


@pytest.fixture(scope="module")
def pack() -> TracePack:
    return read_pack(DEFAULT_PACK_PATH)


@pytest.fixture(scope="module")
def tpot(pack: TracePack) -> Grid:
    """(batch, spec_length, quant_tier, prompt)."""
    return pack.columns["tpot_ms"][:, FULL_POOL]


@pytest.fixture(scope="module")
def room(pack: TracePack) -> Grid:
    """Sequences that the KV pool holds, (1, kv_budget, 1, quant_tier, prompt)."""
    pool = np.outer(KV_BUDGETS, pack.metadata.kv_pool_tokens)[None, :, None, :, None]
    prompts = np.asarray(PROMPT_LENGTHS_TOKENS, dtype=np.float64)
    output = np.asarray(float(pack.metadata.reference_output_tokens))
    return sequences_that_fit(pool, prompts, output)


@pytest.fixture(scope="module")
def served(pack: TracePack) -> npt.NDArray[np.bool_]:
    return pack.columns["gpu_mem_gb"] <= pack.metadata.memory_limit_gb


def test_every_value_is_finite_and_in_range(pack: TracePack):
    for name in VALUE_COLUMNS:
        assert np.isfinite(pack.columns[name]).all()
        assert (pack.columns[name] >= 0.0).all()
    assert (pack.columns["cost_per_1k"] > 0.0).all()
    assert (pack.columns["cost_per_1k"] <= pack.metadata.cost_cap_cents_per_1k).all()


def test_memory_figures_of_the_40_gib_process(pack: TracePack):
    metadata = pack.metadata
    assert [round(size / 1e9, 2) for size in metadata.weights_bytes] == [16.06, 9.08, 5.59]
    assert metadata.kv_pool_tokens == (153_763, 201_686, 225_648)
    assert metadata.kv_bytes_per_token == 32 * 8 * 128 * 2 * 2
    assert round(metadata.runtime_bytes / 1e9, 2) == 3.76
    assert round(metadata.activation_bytes / 1e9, 2) == 0.74


@pytest.mark.parametrize(
    ("tier", "milliseconds"),
    [
        # Decode of one token at a 256-token context, as the kernel library quotes it for these batches;
        # the pack's contexts are 192 and 384 tokens, so the figures lie between two of its cells.
        (FP16, [11.4, 12.0, 12.8, 13.3, 16.5, 27.5, 46.4]),
        (INT8, [7.9, 8.4, 9.9, 11.2, 15.5, 25.6, 46.3]),
        (INT4, [6.1, 7.5, 8.9, 11.9, 16.1, 27.4, 48.0]),
    ],
)
def test_decode_times_enclose_the_known_ones(tpot: Grid, tier: int, milliseconds: list[float]):
    sizes = [batch(size) for size in (1, 16, 32, 64, 128, 256, 512)]
    rounding_ms = 0.05
    shorter, longer = tpot[sizes, 0, tier, 0], tpot[sizes, 0, tier, PROMPT_256]
    assert (shorter - rounding_ms <= milliseconds).all()
    assert (longer + rounding_ms >= milliseconds).all()


def test_prefill_times(pack: TracePack):
    expected = {64: 12.5, 256: 22.9, 1024: 65.9, 4096: 268.7, 8192: 593.7}
    for prompt, milliseconds in expected.items():
        prefill = pack.prefill_ms[FP16, PROMPT_LENGTHS_TOKENS.index(prompt)]
        assert prefill == pytest.approx(milliseconds, abs=0.06)


def test_int4_wins_small_batches_and_loses_to_int8_from_64(tpot: Grid):
    short = tpot[:, 0, :, PROMPT_256]
    for size in (1, 4, 8, 16, 32):
        assert short[batch(size)].argmin() == INT4
    for size in (64, 128, 256, 512):
        assert short[batch(size), INT8] < short[batch(size), INT4]
    assert short[batch(512), INT4] > short[batch(512), FP16]
    assert short[batch(1), FP16] / short[batch(1), INT4] > 1.7


def test_time_per_token_grows_with_context(tpot: Grid):
    assert (np.diff(tpot, axis=-1) > 0.0).all()


def test_time_per_step_grows_with_batch_beyond_timing_noise(pack: TracePack):
    """Four cells fall by up to 2 %: INT8 at batch 1 runs other kernels than at batch 4."""
    ratio = pack.step_ms[1:] / pack.step_ms[:-1]
    assert (ratio > 0.975).all()
    assert (ratio < 1.0).sum() <= 4
    assert (pack.step_ms[-1] > 2.0 * pack.step_ms[0]).all()


def test_throughput_grows_with_batch_until_memory_binds(pack: TracePack, room: Grid, served: Grid):
    sizes = np.asarray(BATCH_SIZES, dtype=np.float64)[:, None, None, None, None]
    unbound = (sizes <= room) & served
    both = unbound[1:] & unbound[:-1]
    growth = np.diff(pack.columns["tps"], axis=0)
    assert both.sum() > 2000
    assert (growth[both] > 0.0).all()


def test_throughput_is_flat_once_the_pool_is_full(pack: TracePack, room: Grid, served: Grid):
    sizes = np.asarray(BATCH_SIZES, dtype=np.float64)[:, None, None, None, None]
    bound = (sizes > room) & served
    both = bound[1:] & bound[:-1]
    np.testing.assert_allclose(np.diff(pack.columns["tps"], axis=0)[both], 0.0, atol=1e-9)


def test_a_larger_pool_never_serves_less(pack: TracePack, served: Grid):
    both = served[:, 1:] & served[:, :-1]
    # Above the best batch a colocated engine gains nothing from more room: prefill takes the time.
    growth = np.diff(pack.columns["tps"], axis=1) / np.maximum(pack.columns["tps"][:, :-1], 1.0)
    assert (growth[both] > -0.02).all()


def test_throughput_is_the_stated_formula(pack: TracePack):
    """One cell by hand: batch 32 fits in the full pool at 256 + 256 tokens."""
    cell = (batch(32), FULL_POOL, 0, FP16, PROMPT_256)
    per_token_ms = pack.columns["tpot_ms"][cell] + 32 * pack.prefill_ms[FP16, PROMPT_256] / 256
    assert pack.columns["tps"][cell] == pytest.approx(1000 * 32 / per_token_ms, rel=1e-12)


def test_cost_counts_prompt_and_output_tokens(pack: TracePack):
    cell = (batch(32), FULL_POOL, 0, FP16, PROMPT_256)
    processed_per_hour = pack.columns["tps"][cell] * 2 * 3600
    assert pack.columns["cost_per_1k"][cell] == pytest.approx(293.0 / processed_per_hour * 1000, rel=1e-12)


def test_speculation_helps_small_batches_and_hurts_large_ones(tpot: Grid):
    plain = tpot[:, 0]
    assert (tpot[batch(1), drafts(1)] < 0.75 * plain[batch(1)]).all()
    assert (tpot[batch(1), drafts(2)] < 0.75 * plain[batch(1)]).all()
    assert (tpot[batch(1), drafts(4)] < plain[batch(1)]).all()
    short = tpot[..., FP16, PROMPT_256]
    assert short[batch(512), drafts(2)] > short[batch(512), 0]
    assert short[batch(512), drafts(8)] > 3.0 * short[batch(512), 0]
    assert (tpot[:, drafts(8)] > plain).all(), "acceptance decays too fast for eight drafts"
    gain = short[:, 0] / short[:, drafts(2)]
    assert gain[batch(1)] > 1.5 > 1.0 > gain[batch(512)]


def test_the_best_draft_length_shrinks_as_the_batch_grows(tpot: Grid):
    best = tpot[:, :, INT8, PROMPT_256].argmin(axis=1)
    assert best[batch(1)] > best[batch(512)]


def test_out_of_memory_rule(pack: TracePack):
    reserved = pack.columns["gpu_mem_gb"][:, FULL_POOL, 0]
    assert (reserved[batch(32), FP16] >= 39.0).all()
    assert (reserved[batch(32)] < 40.0).all()
    assert (reserved[batch(512)] > 40.0).all()
    assert (pack.columns["gpu_mem_gb"][batch(512), KV_BUDGETS.index(0.75), 0] < 40.0).all()
    fits = [size for size in range(1, 513) if _reserved_gb(pack, size) <= 40.0]
    assert 240 <= max(fits) < 256


def _reserved_gb(pack: TracePack, size: int) -> float:
    metadata = pack.metadata
    return memory_gb(
        metadata.weights_bytes[FP16],
        metadata.fixed_bytes,
        metadata.sampler_bytes_per_row,
        float(size),
        0.0,
        float(metadata.kv_pool_tokens[FP16] * metadata.kv_bytes_per_token),
    )


def test_memory_grows_with_batch_pool_and_drafts_and_shrinks_with_quantisation(pack: TracePack):
    reserved = pack.columns["gpu_mem_gb"]
    for axis in (0, 1, 2):
        assert (np.diff(reserved, axis=axis) > 0.0).all()
    assert (np.diff(reserved[:, :-1], axis=3) < 0.0).all()


def test_nothing_is_served_out_of_memory(pack: TracePack, served: Grid):
    tps, cost = pack.columns["tps"], pack.columns["cost_per_1k"]
    assert (tps[~served] == 0.0).all()
    assert (tps[served] > 0.0).all()
    assert (cost[~served] == pack.metadata.cost_cap_cents_per_1k).all()


def test_latency_columns_do_not_depend_on_the_pool(pack: TracePack):
    for name in ("ttft_p50_ms", "ttft_p99_ms", "tpot_ms"):
        assert (np.ptp(pack.columns[name], axis=1) == 0.0).all()


def test_ttft_is_prefill_plus_a_share_of_the_step_in_flight(pack: TracePack):
    p50, p99 = pack.columns["ttft_p50_ms"][:, 0], pack.columns["ttft_p99_ms"][:, 0]
    np.testing.assert_allclose(p99 - p50, 0.49 * pack.step_ms, rtol=1e-9)
    prefill = p50 - 0.5 * pack.step_ms
    np.testing.assert_allclose(prefill, np.broadcast_to(pack.prefill_ms, prefill.shape), rtol=1e-9)
    assert (p99 > p50).all()
