"""Mixed batches: dense times against the pack, and what a prompt takes beside decoding and other prompts."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.packs.schema import BATCH_SIZES, PROMPT_LENGTHS_TOKENS, QUANT_TIERS, SPEC_LENGTHS
from simulator.serving.engine import Knobs
from simulator.serving.iteration_time import IterationTimes, iteration_ms
from simulator.serving.mixed_batch import mixed_prefill
from simulator.serving.timing import engine_rows
from tests.simulator.engines import PACK, TABLE, by_hand, drawn, engine_of, workload

ROWS, ADDITIVE = engine_rows(TABLE, "mixed_batch"), engine_rows(TABLE, "additive")
CHUNK = PACK.prefill_chunk_tokens
PREFILL, PASS = ROWS.prefill_rows_s[0], ROWS.pass_rows_s[0]


def prefill(size: int, follower: int = 0, before: int = 0, decode_rows: int = 0, step_s: float = 0.02):
    return mixed_prefill(
        float(size),
        PREFILL[size],
        float(follower),
        float(before),
        decode_rows,
        0.0,
        step_s,
        float(CHUNK),
        PREFILL,
        PASS,
    )


@pytest.mark.parametrize("tier", QUANT_TIERS)
@pytest.mark.parametrize("spec", range(len(SPEC_LENGTHS)))
def test_steps_are_the_pack_s_at_its_batch_sizes(spec: int, tier: int):
    rows = 1000.0 * np.asarray(ROWS.step_rows_s[spec][tier])
    np.testing.assert_allclose(rows[:, list(BATCH_SIZES)].T, TABLE.step_ms[:, spec, tier], rtol=1e-12)


def test_steps_between_batch_sizes_are_a_staircase_where_the_additive_engine_has_a_line():
    mixed, line = (rows.step_rows_s[0][0][2] for rows in (ROWS, ADDITIVE))
    assert mixed[160] > 1.15 * line[160]
    assert ADDITIVE.pass_rows_s == [[0.0]] * len(QUANT_TIERS)


@pytest.mark.parametrize("tier", QUANT_TIERS)
def test_a_prompt_alone_takes_what_the_pack_says(tier: int):
    rows, lengths = 1000.0 * np.asarray(ROWS.prefill_rows_s[tier]), np.asarray(PROMPT_LENGTHS_TOKENS)
    np.testing.assert_allclose(rows[lengths], TABLE.prefill_ms[tier], rtol=0.03)
    assert (np.diff(rows[1 : CHUNK + 1]) >= 0.0).all()


def test_a_prompt_and_a_decode_step_take_one_mixed_iteration():
    """The reference's time of an iteration with both, for every size of either."""
    tables, context = IterationTimes(TABLE).tables(0, 0), 1000.0
    for sequences in (1, 16, 128, 200):
        step_s = iteration_ms(tables, sequences, context, sequences, 0) / 1000.0
        for size in (64, 500, CHUNK):
            work_s, residual_s, _ = prefill(size, decode_rows=sequences, step_s=step_s)
            attention_ms = tables.chunk_attention_ms[size]
            mixed_ms = iteration_ms(tables, sequences, context, sequences, size) + attention_ms
            # A prompt that fills the pass in part lets decoding go on with its part of the step only.
            wall_s = work_s + min(1.0, size / CHUNK) * step_s + residual_s
            assert wall_s == pytest.approx(mixed_ms / 1000.0, rel=1e-9)


def test_prompts_that_fit_one_pass_share_it():
    first_s, wait_s, joined = prefill(300, follower=400)
    second_s, rest_s, left = prefill(400, before=int(joined))
    assert joined == 300.0
    assert first_s + second_s == pytest.approx(PREFILL[700])
    assert first_s + wait_s == pytest.approx(PREFILL[700])  # the first's token comes with the second's
    assert (rest_s, left) == (0.0, 0.0)
    assert prefill(300)[1:] == (0.0, 0.0)
    # No room: each has passes of its own.
    assert prefill(1900, before=300)[0] == PREFILL[1900]


def test_one_request_alone_is_timed_alike():
    results = [
        engine_of(by_hand([0.25], 256, 50, steps=1), timing=timing).serve(Knobs())
        for timing in ("additive", "mixed_batch")
    ]
    assert results[0].tpot_ms == pytest.approx(results[1].tpot_ms, rel=0.01)
    assert results[1].ttft_p50_ms == pytest.approx(1000.0 * PREFILL[256])


@pytest.mark.parametrize("rate_rps", [6.0, 14.0])
def test_steady_state_is_the_closed_form_less_what_shared_passes_save(rate_rps: float):
    config = workload(rate_rps)
    engine = engine_of(drawn(config, 500), config, "mixed_batch")
    results = [engine.serve(Knobs(batch_size=200)) for _ in range(501)][60:]
    tokens = sum(one.tokens_per_s for one in results)
    tpot_ms = sum(one.tpot_ms * one.tokens_per_s for one in results) / tokens
    running = tpot_ms / 1000.0 * tokens / len(results)
    prompt, output = engine.traffic.prompt.mean(), engine.traffic.output.mean()
    whole, size = round(running), int(prompt)
    bucket = ROWS.context_bucket[int(prompt + output / 2)]
    weight = ROWS.context_weight[int(prompt + output / 2)]
    low, high = ROWS.step_rows_s[0][0][bucket][whole], ROWS.step_rows_s[0][0][bucket + 1][whole]
    saved_s = PASS[size] + PASS[whole] - PASS[size + whole]
    form_s = low + weight * (high - low) + running * (PREFILL[size] - saved_s) / output
    assert tpot_ms == pytest.approx(1000.0 * form_s, rel=0.04)
