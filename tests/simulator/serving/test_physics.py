"""What the event engine must show as physics: closed forms, crossovers, and the price of every mechanism."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from simulator.packs.physics import acceptance_rate, prefill_stall_ms, tokens_per_verify_step
from simulator.packs.schema import SPEC_LENGTHS
from simulator.serving import kernel
from simulator.serving.engine import Knobs
from tests.simulator.engines import (
    BEST_EFFORT,
    FP16,
    INT4,
    INT8,
    INTERACTIVE,
    PACK,
    by_hand,
    drawn,
    engine_of,
    long_run,
    makespan_s,
    prefill_s,
    served,
    step_ms,
    workload,
)

PROMPT, OUTPUT = 256, 300


def saturated_tokens_per_s(knobs: Knobs, prompt: int = 96, output: int = 1000, seconds: int = 60) -> float:
    """Mean tokens/s from the tenth second on with more requests than can be served."""
    traffic = by_hand(np.linspace(0.0, seconds, 40 * seconds, endpoint=False), prompt, output, seconds)
    return float(np.mean([result.tokens_per_s for result in served(traffic, knobs)[10:]]))


@pytest.mark.parametrize("rate_rps", [2.0, 6.0, 12.0, 16.0])
@pytest.mark.parametrize("disaggregated", [False, True])
def test_steady_state_agrees_with_the_closed_form(rate_rps: float, disaggregated: bool):
    """TPOT = decode step + running x prefill / output; the second term is gone with prefill elsewhere.

    16 requests/s are nine tenths of what the colocated engine can serve. The form is evaluated at the mean
    number of sequences; steps are concave in it and the number fluctuates, which leaves 1-2 %.
    """
    knobs = Knobs(batch_size=250, prefill_disagg=disaggregated)
    run = long_run(workload(rate_rps), knobs, steps=800)
    form_ms = step_ms(run.running, PROMPT + OUTPUT / 2)
    if not disaggregated:
        form_ms += prefill_stall_ms(run.running, 1000.0 * prefill_s(PROMPT), float(OUTPUT))
    assert run.tpot_ms == pytest.approx(form_ms, rel=0.025)


@pytest.mark.parametrize("rate_rps", [2.0, 6.0, 12.0])
@pytest.mark.parametrize("spec_length", [0, 2])
def test_little_s_law(rate_rps: float, spec_length: int):
    """Sequences running = arrivals/s x time in decode; the prefill brings the first token of each."""
    run = long_run(workload(rate_rps), Knobs(0.9, spec_length, batch_size=200), steps=800)
    expected = run.arrivals_per_s * (OUTPUT - 1) * run.tpot_ms / 1000.0
    assert run.running == pytest.approx(expected, rel=0.02)
    assert run.tokens_per_s == pytest.approx(run.arrivals_per_s * OUTPUT, rel=0.02)
    assert run.processed_tokens_per_s == pytest.approx(run.arrivals_per_s * (OUTPUT + PROMPT), rel=0.02)


def test_sixty_four_long_sequences_take_two_waves():
    """A 40 GB A100 took 1.90 times as long for 64 x (2,048 + 2,048) tokens as for 32 (vLLM, published).

    The pool of 153,763 tokens holds 37 of them at full length. Without a KV limit it would be 1.4.
    """
    assert PACK.kv_pool_tokens[FP16] == 153_763
    knobs = Knobs(batch_size=64)
    short_s, no_evictions = makespan_s(by_hand([0.0] * 32, 2048, 2048), knobs)
    long_s, evictions = makespan_s(by_hand([0.0] * 64, 2048, 2048), knobs)
    assert no_evictions == 0
    assert evictions >= 64 - 37 - 1
    assert 1.8 < long_s / short_s < 2.15


def test_two_small_batches_are_no_two_waves():
    knobs = Knobs(batch_size=64)
    half_s, _ = makespan_s(by_hand([0.0] * 32, 256, 256), knobs)
    full_s, evictions = makespan_s(by_hand([0.0] * 64, 256, 256), knobs)
    assert evictions == 0
    assert full_s / half_s < 1.75  # prefills double, decode steps hardly grow


def test_throughput_rises_strictly_with_the_batch_until_memory_binds():
    room = PACK.kv_pool_tokens[FP16] / (96 + 1000 / 2)
    sizes = [1, 2, 4, 8, 16, 32, 64, 96, 128, 160, 192, 224]
    tokens = [saturated_tokens_per_s(Knobs(batch_size=size)) for size in sizes]
    assert sizes[-1] < room
    assert all(after > before for before, after in pairwise(tokens))
    assert tokens[-1] > 70.0 * tokens[0]
    bound = [saturated_tokens_per_s(Knobs(kv_budget=0.5, batch_size=size)) for size in (160, 200, 240)]
    assert max(bound) < 1.06 * min(bound)
    assert max(bound) < 0.9 * tokens[-1]


def test_speculation_helps_small_batches_and_hurts_large_ones():
    def gain(batch: int, spec_length: int) -> float:
        plain, drafted = (
            saturated_tokens_per_s(Knobs(0.6, length, batch), prompt=64, output=400)
            for length in (0, spec_length)
        )
        return drafted / plain

    gains = {batch: gain(batch, 2) for batch in (1, 8, 32, 128, 224)}
    assert gains[1] > 1.4
    assert gains[224] < 0.95
    assert list(gains.values()) == sorted(gains.values(), reverse=True)
    assert gain(224, 4) < gains[224]


@pytest.mark.parametrize("spec_length", [1, 2, 4, 8])
def test_a_drafting_sequence_gains_what_the_formula_says(spec_length: int):
    """One sequence alone: its pace is tokens per verify step over the step, at the workload's acceptance."""
    result = served(by_hand([0.0], 256, 5000, steps=1), Knobs(spec_length=spec_length))[0]
    acceptance = acceptance_rate(0.80, 3, spec_length)  # 256 tokens are in bucket 3
    per_step = tokens_per_verify_step(acceptance, spec_length)
    step = step_ms(1, 256, SPEC_LENGTHS.index(spec_length))
    assert result.accept_rate == pytest.approx(acceptance)
    assert result.tpot_ms == pytest.approx(step / per_step)


def test_quantisation_crosses_over_between_batch_32_and_64():
    """INT4 reads the fewest bytes and unpacks the most: it wins small batches and loses to INT8 from 64."""
    pace = {
        (batch, tier): saturated_tokens_per_s(Knobs(batch_size=batch, quant_tier=tier), seconds=40)
        for batch in (4, 32, 64, 128)
        for tier in (FP16, INT8, INT4)
    }
    for batch in (4, 32):
        assert pace[batch, INT4] > pace[batch, INT8] > pace[batch, FP16]
    for batch in (64, 128):
        assert pace[batch, INT8] > pace[batch, INT4]


def test_quantised_weights_leave_a_larger_pool():
    traffic = by_hand([0.0] * 300, 96, 4000, steps=60)
    evictions = {}
    for tier in (FP16, INT8, INT4):
        results = served(traffic, Knobs(batch_size=220, quant_tier=tier))
        evictions[tier] = sum(result.evictions for result in results)
    assert evictions[FP16] > evictions[INT8] > evictions[INT4]


def test_interactive_requests_do_not_wait_for_a_backlog_of_others():
    """A flood of best effort fills the queue; interactive arrivals wait for one slot, not for the flood."""
    flood = [0.001 * k for k in range(400)]
    trickle = [2.0 + 0.5 * k for k in range(60)]
    arrivals = flood + trickle
    kinds = [BEST_EFFORT] * 400 + [INTERACTIVE] * 60
    config = workload(ttft_slo_ms=(60_000.0, None, None), class_mix=(0.5, 0.0, 0.5))
    engine = engine_of(by_hand(arrivals, 128, 300, priority=kinds, steps=60), config)
    joined_at: dict[int, int] = {}
    for second in range(61):
        engine.serve(Knobs(batch_size=16))
        for item, order in enumerate(engine._order):
            if order != -1:
                joined_at.setdefault(item, second)
    # All sixteen slots were taken together, so the next one is free a lifetime later.
    lifetime_s = 300 * step_ms(16, 128 + 150) / 1000.0 + 17 * prefill_s(128)
    assert max(joined_at[item] - arrivals[item] for item in range(400, 460)) < lifetime_s + 1.0
    assert max(joined_at[item] - arrivals[item] for item in range(400) if item in joined_at) > 30.0


def test_preemption_makes_the_same_work_take_longer():
    traffic = by_hand([0.0] * 24, 2048, 1500, steps=200)
    roomy_s, none = makespan_s(traffic, Knobs(batch_size=24))
    tight_s, evictions = makespan_s(traffic, Knobs(batch_size=24, kv_budget=0.45))
    assert none == 0
    assert evictions >= 4
    assert tight_s > 1.3 * roomy_s


def test_an_eviction_costs_the_prefill_of_the_whole_context():
    """Two equal sequences; the pool shrinks for one second, so the later one is preempted and comes back."""
    half = int(0.1 * PACK.kv_pool_tokens[FP16] / 2)
    traffic = by_hand([0.0, 0.0], half + 200, 1500, steps=60)
    engine = engine_of(traffic)
    for _ in range(4):
        engine.serve(Knobs())
    produced = engine._floats[kernel.CLOCK] - engine._joined[1]
    shrunk = engine.serve(Knobs(kv_budget=0.1))
    assert (shrunk.evictions, shrunk.queue_depth) == (1, 1)
    assert engine._context[1] == pytest.approx(half + 200 + produced)
    before = engine._floats[kernel.CLOCK]
    engine.serve(Knobs())
    ideal = 1000.0 / step_ms(1, half + 200)
    lost_s = 1.0 - (engine._floats[kernel.CLOCK] - before) / ideal
    assert lost_s == pytest.approx(prefill_s(int(half + 200 + produced)), rel=0.1)


def test_waiting_time_is_real():
    """Two seconds of overload make the last of a burst wait for the ones before it."""
    arrivals = [0.001 * k for k in range(64)]
    results = served(by_hand(arrivals, 512, 100, steps=10), Knobs(batch_size=128))
    prefills_s = np.arange(1, 65) * prefill_s(512)
    firsts = [result.ttft_p99_ms for result in results if result.processed_tokens_per_s > 500.0]
    assert max(firsts) > 1000.0 * prefills_s[-1] * 0.9
    assert results[0].ttft_p50_ms < results[1].ttft_p50_ms


def test_the_queue_of_an_overloaded_engine_grows_by_what_it_cannot_serve():
    config = workload(12.0)
    engine = engine_of(drawn(config, 60), config)
    results = [engine.serve(Knobs(batch_size=4)) for _ in range(61)]
    arrived, finished, dropped = engine.counts
    assert results[-1].queue_depth == arrived - finished - dropped - results[-1].running
    assert results[-1].queue_depth > 400
    assert results[-1].ttft_p50_ms > 10_000.0
