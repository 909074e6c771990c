"""The reference engine: closed forms for single requests, its books, and every mechanism by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simulator.packs.physics import acceptance_rate, tokens_per_verify_step
from simulator.reference import rows as layout
from simulator.reference.engine import ReferenceEngine, iteration_times
from simulator.reference.rows import BLOCK_TOKENS
from simulator.serving.engine import EngineModel, Knobs, SecondResult
from simulator.serving.iteration_time import iteration_ms
from simulator.serving.kernel import KV_WATERMARK
from simulator.serving.traffic.config import WorkloadConfig
from simulator.serving.traffic.workload import EpisodeTraffic
from tests.simulator.engines import (
    BEST_EFFORT,
    INT4,
    INTERACTIVE,
    OUT_OF_MEMORY,
    PACK,
    TABLE,
    by_hand,
    drawn,
    workload,
)

TIMES = iteration_times(TABLE)
CHUNK = PACK.prefill_chunk_tokens
TRANSFER_S = PACK.kv_bytes_per_token / (PACK.kv_link_gb_per_s * 1e9)


def engine_of(
    traffic: EpisodeTraffic, config: WorkloadConfig | None = None, **options: Any
) -> ReferenceEngine:
    """Plain Python: episodes of seconds are shorter than compiling."""
    options = {"machine_code": False} | options
    return ReferenceEngine(EngineModel(TABLE, config or workload()), traffic, **options)


def run(engine: ReferenceEngine, knobs: Knobs, seconds: int) -> list[SecondResult]:
    return [engine.serve(knobs) for _ in range(seconds)]


def decode_s(context: float, sequences: int = 1, gamma: int = 0, tier: int = 0) -> float:
    tables = TIMES.tables(gamma, tier)
    return iteration_ms(tables, sequences, context, sequences * (gamma + 1), 0) / 1000.0


def prompt_s(begin: int, end: int, sequences: int = 0, context: float = 0.0) -> float:
    """An iteration with the tokens ``begin`` .. ``end`` of one prompt."""
    tables = TIMES.tables(0, 0)
    attention = tables.chunk_attention_ms[end] - tables.chunk_attention_ms[begin]
    return (iteration_ms(tables, sequences, context, sequences, end - begin) + attention) / 1000.0


def check_books(engine: ReferenceEngine, knobs: Knobs, result: SecondResult) -> None:
    """Every request is in one place and every block has one owner."""
    state, ints = engine._state, engine._state.ints
    arrived, finished, dropped = engine.counts
    assert arrived == finished + dropped + result.queue_depth + result.running
    running = [int(state.running[k]) for k in range(ints[layout.RUNNING])]
    assert len(set(running)) == len(running) <= 512
    total = int(engine.model.pool_tokens(knobs)) // BLOCK_TOKENS
    assert sum(int(blocks) for blocks in state.blocks) + ints[layout.FREE] == total
    assert all(state.blocks[item] * BLOCK_TOKENS >= state.cached[item] for item in running)
    assert ints[layout.WAITING] == len(engine._waiting()) + ints[layout.RING_LEN] <= 512
    for item in running:
        assert state.emitted[item] < state.output[item]


@pytest.mark.parametrize("prompt", [96, 700, 2048, 5000])
def test_a_request_alone_takes_its_chunks_and_its_steps(prompt: int):
    engine = engine_of(by_hand([0.25], prompt, 20, steps=4))
    run(engine, Knobs(), 4)
    log = engine.requests
    first = 0.25 + sum(prompt_s(at, min(at + CHUNK, prompt)) for at in range(0, prompt, CHUNK))
    assert log.first_token_s[0] == pytest.approx(first, rel=1e-12)
    steps = sum(decode_s(prompt + k) for k in range(19))
    assert log.finish_s[0] == pytest.approx(first + steps, rel=1e-12)


def test_a_prompt_joins_the_iteration_after_the_one_in_flight():
    """TTFT is the rest of that iteration and one mixed iteration."""
    first_s, arrival_s = prompt_s(0, 100), 0.1
    engine = engine_of(by_hand([0.0, arrival_s], [100, 300], 400, steps=1))
    run(engine, Knobs(), 2)
    ends, context = first_s, 100
    while ends < arrival_s:
        ends += decode_s(context)
        context += 1
    expected = ends + prompt_s(0, 300, 1, context) - arrival_s
    assert engine.requests.first_token_s[1] - arrival_s == pytest.approx(expected, rel=1e-12)


def test_an_iteration_holds_no_more_rows_than_the_budget():
    """40 decoding sequences leave 2,008 rows for a prompt of 6,000 tokens: three chunks, not 2.9."""
    arrivals = [0.0] * 40 + [1.5]
    engine = engine_of(by_hand(arrivals, [64] * 40 + [6000], 300, steps=4))
    run(engine, Knobs(batch_size=64), 1)
    context = float(np.mean(engine._state.cached[:40]))
    run(engine, Knobs(batch_size=64), 3)
    log = engine.requests
    budget = CHUNK - 40
    least = sum(prompt_s(at, min(at + budget, 6000), 40, context) for at in range(0, 6000, budget))
    waited = log.first_token_s[40] - 1.5
    assert least < waited < least * 1.02 + decode_s(context + 100, 40)
    assert len(range(0, 6000, budget)) == 3


def test_several_short_prompts_share_an_iteration():
    engine = engine_of(by_hand([0.0] * 10, 100, 50, steps=1))
    run(engine, Knobs(), 1)
    first = engine.requests.first_token_s
    assert len(set(first)) == 1
    assert first[0] < 0.5 * 10 * prompt_s(0, 100)


def test_the_one_admitted_last_is_preempted_and_computes_again():
    """Two sequences outgrow a small pool: the second goes, the first never waits."""
    knobs = Knobs(kv_budget=0.1, batch_size=4)
    blocks = int(0.1 * PACK.kv_pool_tokens[0]) // BLOCK_TOKENS
    prompt = blocks * BLOCK_TOKENS // 2 - 200
    engine = engine_of(by_hand([0.0, 0.0], prompt, 400, steps=60))
    results: list[SecondResult] = []
    for _ in range(60):
        results.append(engine.serve(knobs))
        check_books(engine, knobs, results[-1])
    log = engine.requests
    assert log.preemptions.tolist() == [0, 1]
    assert log.emitted.tolist() == [400, 400]
    assert sum(result.evictions for result in results) == 1
    # It came back when the first was done, with a prefill of everything it had.
    assert log.finish_s[1] > log.finish_s[0] + prompt_s(0, CHUNK) * prompt / CHUNK


def test_admission_leaves_a_watermark_and_keeps_the_order():
    knobs = Knobs(kv_budget=0.1, batch_size=64)
    blocks = int(0.1 * PACK.kv_pool_tokens[0]) // BLOCK_TOKENS
    each = blocks // 4 * BLOCK_TOKENS  # four would fill the pool to the last block
    engine = engine_of(by_hand([0.0] * 4 + [0.01], [each] * 4 + [64], 300, steps=20))
    engine.serve(knobs)
    engine.serve(knobs)
    assert engine._state.ints[layout.FREE] >= int(blocks * KV_WATERMARK)
    log = engine.requests
    assert log.first_token_s[3] < 0  # does not fit beside the watermark
    assert log.first_token_s[4] < 0  # would fit, and waits behind it


def test_what_no_pool_can_hold_is_refused():
    engine = engine_of(by_hand([0.0, 0.1], [16_000, 64], 10, steps=2))
    result = engine.serve(Knobs(kv_budget=0.1))
    assert result.dropped == 1
    assert result.finished == 1


def test_classes_are_admitted_in_order():
    kinds = [BEST_EFFORT] * 30 + [INTERACTIVE]
    engine = engine_of(by_hand([0.0] * 30 + [0.5], 400, 100, priority=kinds, steps=20))
    run(engine, Knobs(batch_size=8), 20)
    first = engine.requests.first_token_s
    assert (first[:8] < first[30]).all()
    assert (first[8:30] >= first[30]).all()
    assert (first[8:30] > first[30]).sum() >= 18  # some share its iteration


@pytest.mark.parametrize("gamma", [1, 2, 4, 8])
def test_drafts_are_accepted_one_by_one_at_the_rate_of_the_formula(gamma: int):
    engine = engine_of(by_hand([0.0], 300, 100_000, steps=20), rng=np.random.default_rng(5))
    results = run(engine, Knobs(0.9, gamma, batch_size=4), 20)
    accept = acceptance_rate(0.80, 3, gamma)  # 300 tokens are in bucket 3
    verify_steps = int(engine._state.ints[layout.DRAW])
    # Some 1,500 steps of at most 9 tokens: the standard error of the mean is below 2 %.
    per_step = int(engine.requests.emitted[0]) / verify_steps
    assert per_step == pytest.approx(tokens_per_verify_step(accept, gamma), rel=0.06)
    assert results[-1].accept_rate == pytest.approx(accept)


def test_prefill_elsewhere_leaves_decode_alone_and_pays_the_link():
    arrivals = [0.0, 1.0, 1.0]
    engine = engine_of(by_hand(arrivals, [100, 4000, 200], 500, steps=2))
    knobs = Knobs(prefill_disagg=True)
    engine.serve(knobs)
    engine.serve(knobs)
    log = engine.requests
    # The short prompt shares the second iteration, and its KV waits for the link.
    assert log.first_token_s[1] - 1.0 > prompt_s(0, CHUNK) + prompt_s(CHUNK, 4000) + TRANSFER_S * 4000
    assert log.first_token_s[2] == pytest.approx(log.first_token_s[1] + TRANSFER_S * 200)
    alone = engine_of(by_hand(arrivals[:1], 100, 500, steps=2))
    run(alone, knobs, 2)
    assert alone.requests.first_token_s[0] == log.first_token_s[0]


def test_decode_pace_with_prefill_elsewhere_is_the_undisturbed_one():
    config = workload(6.0)
    colocated, apart = (engine_of(drawn(config, 30, 1), config) for _ in range(2))
    mixed = run(colocated, Knobs(batch_size=128), 30)[-1]
    pure = run(apart, Knobs(batch_size=128, prefill_disagg=True), 30)[-1]
    decoding = int(apart._state.ints[layout.RUNNING])
    assert pure.tpot_ms < 0.95 * mixed.tpot_ms
    assert pure.tpot_ms == pytest.approx(1000.0 * decode_s(256 + 150, decoding), rel=0.06)


def test_out_of_memory_loses_the_second_and_the_work():
    engine = engine_of(by_hand([0.0] * 5 + [1.5], 100, 300, steps=8))
    engine.serve(Knobs())
    before = engine.requests.first_token_s.copy()
    lost = engine.serve(OUT_OF_MEMORY)
    check_books(engine, OUT_OF_MEMORY, lost)
    assert lost.oom
    assert lost.tokens_per_s == 0.0
    assert lost.queue_depth == 6
    results = run(engine, Knobs(), 6)
    log = engine.requests
    assert (log.first_token_s[:5] == before[:5]).all()
    assert log.emitted.tolist() == [300] * 6
    assert sum(result.finished for result in results) == 6


def test_another_tier_loads_its_weights_first():
    engine = engine_of(by_hand([0.0], 100, 5000, steps=3))
    engine.serve(Knobs())
    before = int(engine._state.emitted[0])
    engine.serve(Knobs(quant_tier=INT4))
    loading_s = PACK.weights_bytes[INT4] / (PACK.weight_load_gb_per_s * 1e9)
    steps = (1.0 - loading_s) / decode_s(180, tier=INT4)
    assert int(engine._state.emitted[0]) - before == pytest.approx(steps, abs=2.5)


CHANGES = (
    Knobs(0.2, 0, 100),
    Knobs(0.1, 2, 40),
    Knobs(0.5, 0, 60, True),
    Knobs(0.12, 4, 512, True, INT4),
    OUT_OF_MEMORY,
    Knobs(0.3, 0, 4),
)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_books_balance_through_every_change(seed: int):
    """Bursts, tight pools, all knobs changed every second or two."""
    config = workload(14.0, prompts={"low": 32, "high": 3000}, outputs={"low": 1, "high": 400})
    engine, rng = engine_of(drawn(config, 25, seed), config), np.random.default_rng(seed)
    for _ in range(25):
        knobs = CHANGES[int(rng.integers(len(CHANGES)))]
        check_books(engine, knobs, engine.serve(knobs))
    assert engine.requests.preemptions.sum() > 0


def test_snapshots_repeat_the_future():
    config = workload(8.0)
    engine = engine_of(drawn(config, 12, 3), config)
    run(engine, Knobs(0.15, 2), 5)
    kept = engine.snapshot()
    future = run(engine, Knobs(0.15, 2), 5)
    engine.restore(kept)
    assert run(engine, Knobs(0.15, 2), 5) == future
    engine.restore(kept)
    assert run(engine, Knobs(0.2, 1), 5) != future


def test_machine_code_gives_the_same_bits():
    """Every mechanism in one episode; skipped without numba."""
    pytest.importorskip("numba")
    config = workload(12.0, prompts={"low": 32, "high": 3000}, outputs={"low": 1, "high": 400})
    plain, fast = (
        engine_of(drawn(config, 12, 4), config, machine_code=machine_code) for machine_code in (False, True)
    )
    for index in range(12):
        knobs = CHANGES[index % len(CHANGES)]
        assert plain.serve(knobs) == fast.serve(knobs)
    np.testing.assert_array_equal(plain.requests.finish_s, fast.requests.finish_s)
