"""Iteration times: the pack's own cells, one pass for decode and prompt, and a roofline known in full."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from simulator.packs.building.build_traces import main as build_main
from simulator.packs.building.roofline_kernels import RooflineKernels
from simulator.packs.schema import BATCH_SIZES, PROMPT_LENGTHS_TOKENS, SPEC_LENGTHS
from simulator.packs.trace_table import TraceTable
from simulator.serving.iteration_time import IterationTables, IterationTimes, iteration_ms
from tests.simulator.engines import PACK, TABLE

TIMES = IterationTimes(TABLE)
TIERS = range(3)


def alone_ms(tables: IterationTables, prompt: int) -> float:
    """A prompt by itself, in chunks."""
    total = 0.0
    for begin in range(0, prompt, PACK.prefill_chunk_tokens):
        end = min(begin + PACK.prefill_chunk_tokens, prompt)
        total += iteration_ms(tables, 0, 0.0, 0, end - begin)
        total += tables.chunk_attention_ms[end] - tables.chunk_attention_ms[begin]
    return total


@pytest.mark.parametrize("tier", TIERS)
def test_steps_at_the_grid_are_the_pack_s(tier: int):
    for spec, gamma in enumerate(SPEC_LENGTHS):
        tables = TIMES.tables(gamma, tier)
        for index, batch in enumerate(BATCH_SIZES):
            for bucket, context in enumerate(tables.contexts_tokens):
                step = iteration_ms(tables, batch, float(context), batch * (gamma + 1), 0)
                assert step == pytest.approx(TABLE.step_ms[index, spec, tier, bucket], rel=1e-12)


@pytest.mark.parametrize("tier", TIERS)
def test_prompts_at_the_grid_take_what_the_pack_says(tier: int):
    """Every further chunk launches its kernels and projects once more.

    Not to the digit, since attention is not let fall: from 64 to 128 tokens FP16 does, by timing noise.
    """
    tables = TIMES.tables(0, tier)
    extra = tables.head_ms + tables.chunk_fixed_ms
    for bucket, prompt in enumerate(PROMPT_LENGTHS_TOKENS):
        chunks = -(-prompt // PACK.prefill_chunk_tokens)
        expected = TABLE.prefill_ms[tier, bucket] + (chunks - 1) * extra
        assert alone_ms(tables, prompt) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("sequences", "prompt"), [(4, 64), (64, 96), (64, 1024), (200, 256), (48, 2000)])
def test_a_mixed_iteration_reads_the_weights_once(tier: int, sequences: int, prompt: int):
    """Longer than its decode step and than its prompt alone, shorter than one after the other.

    What is saved is at most what an empty forward takes, and for a full chunk it is hardly less.
    """
    tables = TIMES.tables(0, tier)
    step = iteration_ms(tables, sequences, 600.0, sequences, 0)
    chunk = iteration_ms(tables, 0, 0.0, 0, prompt)
    mixed = iteration_ms(tables, sequences, 600.0, sequences, prompt)
    assert max(step, chunk) < mixed < step + chunk
    apart = IterationTimes(TABLE, one_pass=False).tables(0, tier)
    assert iteration_ms(apart, sequences, 600.0, sequences, prompt) == pytest.approx(step + chunk)


@pytest.mark.parametrize("tier", TIERS)
def test_more_work_never_takes_less_time(tier: int):
    for gamma in SPEC_LENGTHS:
        tables = TIMES.tables(gamma, tier)
        assert (np.diff(tables.layers_ms) >= 0).all()
        assert (np.diff(tables.chunk_attention_ms) >= 0).all()
        assert (np.diff(tables.decode_ms, axis=0) > 0).all()
    assert len(TIMES.tables(0, tier).layers_ms) > PACK.prefill_chunk_tokens + 512 * 9


def test_a_roofline_is_taken_apart_into_what_it_was_made_of(tmp_path: Path):
    """Its layers and its projection are known; the pack shows steps and prefills alone."""
    path = tmp_path / "roofline.parquet"
    assert (
        build_main(["--source", "roofline", "--build-date", str(date(2026, 1, 1)), "--output", str(path)])
        == 0
    )
    kernels = RooflineKernels.named("a100_sxm", "meta-llama/Meta-Llama-3.1-8B", 40.0)
    rows = np.asarray([16.0, 40.0, 100.0, 150.0, 224.0, 400.0, 600.0, 1000.0, 2048.0])
    for tier in TIERS:
        tables = IterationTimes(TraceTable(path)).tables(0, tier)
        parts = kernels.decode(tier, rows, np.ones(1), np.ones(1))
        # Launches of attention belong to every forward and cannot be told from the rest.
        found = tables.layers_ms[rows.astype(int)]
        np.testing.assert_allclose(found, parts.layers_ms, rtol=0.05)
        between = np.asarray([24.0, 100.0, 160.0, 200.0, 300.0, 400.0])
        step = [iteration_ms(tables, int(n), 700.0, int(n), 0) for n in between]
        np.testing.assert_allclose(
            step, kernels.decode(tier, between, between, np.asarray([700.0])).total_ms, rtol=0.02
        )
