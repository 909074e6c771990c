"""The event loop: bookkeeping under anything, and one test for each corner of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferencegym.models.serving import EngineTiming
from simulator.serving import kernel
from simulator.serving.engine import Knobs
from simulator.serving.timing import ENGINE_TIMINGS
from simulator.serving.traffic.config import WorkloadConfig, get_workload
from tests.simulator.engines import (
    BATCH,
    BEST_EFFORT,
    INTERACTIVE,
    OUT_OF_MEMORY,
    PACK,
    by_hand,
    check_books,
    drawn,
    engine_of,
    ids_waiting,
    prefill_s,
    served,
    step_ms,
    workload,
)
from tests.simulator.properties import bounded

KNOBS = st.builds(
    Knobs,
    kv_budget=st.one_of(st.sampled_from([0.1, 1.0]), st.floats(0.1, 1.0)),
    spec_length=st.sampled_from([0, 1, 2, 4, 8]),
    batch_size=st.one_of(st.sampled_from([1, 2, 255, 512]), st.integers(1, 512)),
    prefill_disagg=st.booleans(),
    quant_tier=st.sampled_from([0, 1, 2]),
)
LENGTHS = st.tuples(st.sampled_from([1, 2, 32, 1000, 8000]), st.sampled_from([0, 10, 1000, 20_000]))


@st.composite
def workloads(draw: st.DrawFn) -> WorkloadConfig:
    """A shipped workload, or one with empty seconds, floods, requests longer than the pool, outputs of 1."""
    if draw(st.booleans()):
        return get_workload(draw(st.sampled_from(["task1", "task2", "task3"])))
    (prompt, prompt_span), (output, output_span) = draw(LENGTHS), draw(LENGTHS)
    changes: dict[str, Any] = {
        "arrivals": {
            "rate_rps": draw(st.sampled_from([1e-9, 0.3, 5.0, 60.0])),
            "burst_rps": draw(st.sampled_from([0.0, 1500.0])),
            "burst_s": draw(st.integers(0, 8)),
            "period_s": 20,
            "first_burst_s": (0, 10),
        },
        "prompts": {"low": prompt, "high": prompt + prompt_span},
        "outputs": {"low": output, "high": output + output_span},
        "class_mix": draw(st.sampled_from([(1.0, 0.0, 0.0), (0.2, 0.5, 0.3), (0.0, 0.0, 1.0)])),
        "ttft_slo_ms": (200.0, 2000.0, None),
    }
    return workload(**changes)


@pytest.mark.parametrize("timing", ENGINE_TIMINGS)
@bounded(60)
@given(
    config=workloads(), plan=st.lists(st.tuples(KNOBS, st.integers(1, 15)), min_size=1, max_size=12), seed=...
)
def test_every_request_is_somewhere_and_every_kv_token_has_an_owner(
    timing: EngineTiming, config: WorkloadConfig, plan: list[tuple[Knobs, int]], seed: int
):
    steps = sum(seconds for _, seconds in plan)
    engine = engine_of(drawn(config, steps, seed % 2**63), config, timing)
    for knobs, seconds in plan:
        for _ in range(seconds):
            result = engine.serve(knobs)
            check_books(engine, result, knobs)
            first_tokens = engine._ttft[: int(engine._out[kernel.OUT_FIRST_TOKENS])]
            assert all(0.0 < ttft <= engine.second + 1.0 for ttft in first_tokens)
            assert result.ttft_p50_ms <= result.ttft_p99_ms
            assert 0.0 <= result.violation_rate <= 1.0
            assert 0.0 <= result.kv_occupancy <= 1.0


def test_an_engine_without_requests_does_nothing():
    for result in served(by_hand([], 256, 300, steps=5), Knobs()):
        assert (result.tokens_per_s, result.running, result.queue_depth, result.arrived) == (0.0, 0, 0, 0)
        assert result.violation_rate == 0.0
        assert result.cost_per_1k == PACK.cost_cap_cents_per_1k


def test_one_request_is_prefilled_then_decoded_at_the_table_s_pace():
    first, second = served(by_hand([0.25], 256, 50, steps=1), Knobs())
    step_s = step_ms(1, 256) / 1000.0
    assert first.ttft_p50_ms == pytest.approx(1000.0 * prefill_s(256))
    # The prefill brings the first of the 50 tokens, the rest fit into the second.
    assert first.tokens_per_s == pytest.approx(50.0)
    assert first.processed_tokens_per_s == pytest.approx(306.0)
    assert first.tpot_ms == pytest.approx(1000.0 * step_s)
    assert (first.finished, second.finished, second.tokens_per_s) == (1, 0, 0.0)


def test_a_request_of_one_output_token_ends_with_its_prefill():
    first, _ = served(by_hand([0.25], 256, 1, steps=1), Knobs())
    assert (first.finished, first.running, first.tokens_per_s) == (1, 0, 1.0)


def test_a_prefill_goes_on_into_the_next_second():
    work_s = prefill_s(8192)
    engine = engine_of(by_hand([0.9], 8192, 100, steps=2))
    first, second = engine.serve(Knobs()), engine.serve(Knobs())
    assert (first.running, first.tokens_per_s) == (1, 0.0)
    assert first.kv_occupancy == pytest.approx(8192 / PACK.kv_pool_tokens[0])
    assert second.ttft_p50_ms == pytest.approx(1000.0 * work_s)
    decoded = (1.9 - (0.9 + work_s) + 0.1) / (step_ms(1, 8192) / 1000.0)
    assert second.tokens_per_s == pytest.approx(1.0 + decoded, rel=1e-6)


def test_decode_waits_for_a_colocated_prefill_and_not_for_one_on_its_own_gpu():
    traffic = by_hand([0.0, 1.1], [64, 8192], [4000, 100], steps=2)
    tokens = [served(traffic, Knobs(prefill_disagg=disagg))[1].tokens_per_s for disagg in (False, True)]
    assert tokens[0] < 0.55 * tokens[1]


def test_a_colocated_prefill_shares_the_gpu_chunk_by_chunk():
    """4,096 tokens are two chunks of 2,048, each with a decode step: what is decoding gains two tokens."""
    engine = engine_of(by_hand([0.0, 1.1], [64, 4096], [4000, 100], steps=2))
    engine.serve(Knobs())
    clock, context = engine._floats[kernel.CLOCK], engine._floats[kernel.KV_TOKENS]
    step_s = step_ms(1, context) / 1000.0
    result = engine.serve(Knobs())
    assert PACK.prefill_chunk_tokens == 2048
    wall_s = prefill_s(4096) + 2 * step_s
    assert result.ttft_p50_ms / 1000.0 == pytest.approx(wall_s + 0.5 * step_s)
    assert engine._joined[1] - clock == pytest.approx(0.1 / step_s + 2.0)


@pytest.mark.parametrize("starts_disaggregated", [False, True])
def test_a_prefill_in_flight_ends_where_it_began(starts_disaggregated: bool):
    """Switching disaggregation half way neither loses the prefill nor starts it again."""
    engine = engine_of(by_hand([0.0, 0.8], [64, 8192], [4000, 100], steps=3))
    engine.serve(Knobs(prefill_disagg=starts_disaggregated))
    end_s = engine._floats[kernel.PRE_END_S]
    switched = Knobs(prefill_disagg=not starts_disaggregated)
    result = engine.serve(switched)
    check_books(engine, result, switched)
    assert 1.0 < end_s < 2.0
    assert result.running == 2
    transfer_s = 0.0 if starts_disaggregated else 8192 * PACK.kv_bytes_per_token / 25e9
    # A colocated arrival that finds sequences decoding waits half an iteration (by_hand's share); the mean
    # prompt of the traffic, 4,128 tokens, is the context of an engine that had none running before.
    iteration_s = 0.0 if starts_disaggregated else 0.5 * step_ms(1, 4128) / 1000.0
    assert result.ttft_p50_ms / 1000.0 == pytest.approx(end_s - 0.8 + transfer_s + iteration_s, rel=1e-9)


def test_decode_is_free_of_a_prefill_as_soon_as_there_is_a_second_gpu():
    """Switching on disaggregation while a colocated prefill is in flight."""
    traffic = by_hand([0.0, 0.95], [64, 8192], [4000, 100], steps=2)
    tokens = []
    for disagg in (False, True):
        engine = engine_of(traffic)
        engine.serve(Knobs())
        assert engine._ints[kernel.PREFILLING] == 1
        tokens.append(engine.serve(Knobs(prefill_disagg=disagg)).tokens_per_s)
    assert tokens[1] > 1.5 * tokens[0]


def test_disaggregation_adds_the_kv_transfer_to_the_first_token():
    alone, apart = (
        served(by_hand([0.0], 4096, 10, steps=1), Knobs(prefill_disagg=disagg))[0] for disagg in (False, True)
    )
    transfer_ms = 1000.0 * 4096 * 131_072 / 25e9
    assert apart.ttft_p50_ms - alone.ttft_p50_ms == pytest.approx(transfer_ms)
    assert apart.cost_per_1k == pytest.approx(2.0 * alone.cost_per_1k)


def test_out_of_memory_sends_everything_back_to_the_start_of_its_prompt():
    engine = engine_of(by_hand([0.0] * 40 + [0.97], [100.0] * 40 + [4096.0], 900, steps=3))
    before = engine.serve(Knobs(batch_size=64))
    assert engine._ints[kernel.PREFILLING] == 40
    result = engine.serve(OUT_OF_MEMORY)
    check_books(engine, result, OUT_OF_MEMORY)
    assert result.oom
    assert (result.running, result.tokens_per_s, result.kv_occupancy) == (0, 0.0, 0.0)
    assert result.queue_depth == before.running + before.queue_depth == 41
    assert result.memory_gb == PACK.memory_limit_gb
    assert result.violation_rate == 1.0
    assert [engine._left[item] for item in ids_waiting(engine)] == [900.0] * 41
    assert {engine._context[item] for item in ids_waiting(engine)} == {100.0, 4096.0}


def test_requests_lost_to_an_oom_finish_later_and_count_one_first_token_each():
    traffic = by_hand([0.0] * 20 + [0.97], [100.0] * 20 + [4096.0], 200, steps=30)
    engine, first_tokens = engine_of(traffic), 0
    for second in range(31):
        engine.serve(OUT_OF_MEMORY if second == 1 else Knobs(batch_size=64))
        first_tokens += int(engine._out[kernel.OUT_FIRST_TOKENS])
    assert engine.counts == (21, 21, 0)
    assert first_tokens == 21


def test_an_oom_counts_five_violations_for_each():
    """Six requests wait past their 500 ms; a seventh is not due yet."""
    traffic = by_hand([0.0] * 6 + [0.9], 100, 50, steps=1)
    result = engine_of(traffic).serve(OUT_OF_MEMORY)
    assert (result.violations, result.violation_rate, result.queue_depth) == (30, 1.0, 7)


def test_running_requests_that_find_the_queue_full_at_an_oom_are_dropped():
    arrivals = [0.0] * 30 + [1.0 + 0.0005 * k for k in range(600)]
    engine = engine_of(by_hand(arrivals, 64, 3000, steps=4))
    engine.serve(Knobs(batch_size=32))
    full = engine.serve(Knobs(batch_size=32))
    assert full.queue_depth == kernel.QUEUE_CAPACITY
    assert full.dropped == 630 - full.running - full.queue_depth
    result = engine.serve(OUT_OF_MEMORY)
    check_books(engine, result, OUT_OF_MEMORY)
    assert (result.queue_depth, result.running, result.dropped) == (512, 0, full.running)


def test_evictions_that_find_the_queue_full_are_dropped():
    arrivals = [0.0] * 30 + [1.0 + 0.0005 * k for k in range(600)]
    engine = engine_of(by_hand(arrivals, 700, 3000, steps=4))
    engine.serve(Knobs(batch_size=20))
    full = engine.serve(Knobs(batch_size=20))
    small = Knobs(batch_size=20, kv_budget=0.1)
    result = engine.serve(small)
    check_books(engine, result, small)
    assert full.queue_depth == kernel.QUEUE_CAPACITY
    assert result.evictions > 0
    assert result.dropped == result.evictions


def test_arrivals_beyond_the_queue_are_rejected_and_count_as_violated():
    result = engine_of(by_hand([0.0] * 700, 8192, 10, steps=1)).serve(Knobs(batch_size=1))
    assert result.dropped == 700 - kernel.QUEUE_CAPACITY
    assert result.queue_depth + result.running + result.finished == kernel.QUEUE_CAPACITY
    assert result.violations == 700 - result.running
    assert result.violation_rate == 1.0


def test_a_request_longer_than_the_pool_is_refused_and_blocks_nobody():
    pool = 0.1 * PACK.kv_pool_tokens[0]
    knobs = Knobs(kv_budget=0.1)
    engine = engine_of(by_hand([0.0, 0.1], [pool, 256.0], 50, steps=3))
    results = [engine.serve(knobs) for _ in range(4)]
    assert engine.counts == (2, 1, 1)
    assert results[0].dropped == 1


def test_a_sequence_that_outgrows_the_whole_pool_is_refused_in_the_end():
    pool = int(0.1 * PACK.kv_pool_tokens[0])
    knobs = Knobs(kv_budget=0.1)
    engine = engine_of(by_hand([0.0], pool - 500, 2000, steps=30))
    evictions = sum(engine.serve(knobs).evictions for _ in range(31))
    assert engine.counts == (1, 0, 1)
    assert evictions == 1


def test_a_smaller_cap_admits_nobody_until_enough_have_finished():
    engine = engine_of(by_hand([0.0] * 60, 64, [100.0 + 40 * k for k in range(60)], steps=40))
    engine.serve(Knobs(batch_size=50))
    running = engine.running
    results = [engine.serve(Knobs(batch_size=10)) for _ in range(20)]
    assert running == 50
    assert sum(result.evictions for result in results) == 0
    waiting = [result.queue_depth for result in results]
    for result, (before, after) in zip(results[1:], pairwise(waiting), strict=True):
        assert after == before or result.running <= 10


def test_a_smaller_pool_preempts_the_latest_first_and_they_come_back_first():
    engine = engine_of(by_hand([0.01 * k for k in range(20)], 1000, 3000, steps=60))
    engine.serve(Knobs(batch_size=64))
    engine.serve(Knobs(batch_size=64))
    assert engine.running == 20
    small = Knobs(batch_size=64, kv_budget=0.1)
    result = engine.serve(small)
    check_books(engine, result, small)
    assert result.evictions >= 5
    survivors = [item for item, order in enumerate(engine._order) if order >= 0]
    assert survivors == list(range(len(survivors)))
    assert next(ids_waiting(engine)) == len(survivors)


def test_classes_are_served_in_order_and_first_come_first_served_within():
    kinds = [BEST_EFFORT, BATCH, INTERACTIVE] * 30
    config = workload(ttft_slo_ms=(500.0, 500.0, 500.0), class_mix=(0.3, 0.3, 0.4))
    engine = engine_of(by_hand([0.0] * 90, 512, 200, priority=kinds, steps=200), config)
    joined: list[int] = []
    for _ in range(201):
        engine.serve(Knobs(batch_size=4))
        running = [item for item, order in enumerate(engine._order) if order >= 0]
        joined += sorted(set(running) - set(joined), key=lambda item: engine._order[item])
        assert len(joined) <= 90
    assert engine.counts == (90, 90, 0)
    kinds_in_order = [kinds[item] for item in joined]
    assert kinds_in_order == sorted(kinds_in_order)
    for kind in range(3):
        of_kind = [item for item in joined if kinds[item] == kind]
        assert of_kind == sorted(of_kind)


def test_each_class_is_held_to_its_own_objective():
    kinds = [INTERACTIVE, BATCH, BEST_EFFORT]
    config = workload(ttft_slo_ms=(200.0, 2000.0, None), class_mix=(0.4, 0.3, 0.3))
    engine = engine_of(by_hand([0.5] * 30, 256, 50, priority=kinds * 10, steps=9), config)
    violations = [engine.serve(OUT_OF_MEMORY).violations for _ in range(9)]
    assert violations == [50] * 2 + [100] * 7


def test_a_request_served_late_is_late_by_its_own_objective():
    """Five prefills of 0.13 s: only the first interactive request keeps 200 ms, all others keep 2 s."""
    config = workload(ttft_slo_ms=(200.0, 2000.0, None), class_mix=(0.4, 0.3, 0.3))
    for kind, late in ((INTERACTIVE, 4), (BATCH, 0), (BEST_EFFORT, 0)):
        engine = engine_of(by_hand([0.0] * 5, 2048, 50, priority=[kind] * 5, steps=0), config)
        result = engine.serve(Knobs())
        assert engine._out[kernel.OUT_FIRST_TOKENS] == 5
        assert result.violations == late


def test_a_change_of_tier_stalls_the_engine_while_the_weights_load():
    traffic = by_hand([0.0] * 8, 64, 5000, steps=4)
    steady = served(traffic, Knobs(quant_tier=1))
    engine = engine_of(traffic)
    engine.serve(Knobs(quant_tier=1))
    engine.serve(Knobs(quant_tier=1))
    changed = engine.serve(Knobs(quant_tier=0))
    stall_s = PACK.weights_bytes[0] / 25e9
    assert 0.6 < stall_s < 0.7
    context = engine_of(traffic)
    for _ in range(2):
        context.serve(Knobs(quant_tier=1))
    pace = 8.0 / (step_ms(8, context._floats[kernel.KV_TOKENS] / 8) / 1000.0)
    assert changed.tokens_per_s == pytest.approx((1.0 - stall_s) * pace, rel=1e-9)
    assert steady[2].tokens_per_s > 2.0 * changed.tokens_per_s


def test_a_change_of_tier_holds_up_a_prefill_in_flight():
    traffic = by_hand([0.9], 4096, 10, steps=2)
    engine = engine_of(traffic)
    engine.serve(Knobs(quant_tier=2))
    result = engine.serve(Knobs(quant_tier=0))
    stall_s = PACK.weights_bytes[0] / 25e9
    assert result.ttft_p50_ms == pytest.approx(1000.0 * (prefill_s(4096, 2) + stall_s))


def test_a_stall_longer_than_its_second_goes_on_in_the_next():
    """Packs of larger models take several seconds to load."""
    traffic = by_hand([0.0] * 8, 64, 5000, steps=8)
    engine = engine_of(traffic)
    engine.serve(Knobs())
    engine._floats[kernel.STALL_S] = 2.25
    tokens = [engine.serve(Knobs()).tokens_per_s for _ in range(4)]
    assert tokens[:2] == [0.0, 0.0]
    assert tokens[2] == pytest.approx(0.75 * tokens[3], rel=0.02)


def test_the_first_action_of_an_engine_loads_nothing():
    result = engine_of(by_hand([0.0], 64, 2000, steps=1)).serve(Knobs(quant_tier=2))
    assert result.tokens_per_s > 100.0


def test_what_is_being_prefilled_is_no_context_of_decode():
    """A document of 8,192 tokens holds KV room while it is prefilled, but decode does not read it."""
    short = by_hand([0.0], 64, 4000, steps=2)
    beside = by_hand([0.0, 0.95], [64, 8192], [4000, 100], steps=2)
    knobs = Knobs(prefill_disagg=True)
    alone, with_document = engine_of(short), engine_of(beside)
    alone.serve(knobs)
    with_document.serve(knobs)
    assert with_document._ints[kernel.PREFILLING] == 1
    assert with_document._mean_context(64.0) == pytest.approx(alone._mean_context(64.0), abs=5)


def test_kv_account_does_not_drift_over_a_long_episode():
    config = workload(12.0, prompts={"low": 32, "high": 600}, outputs={"low": 1, "high": 700})
    knobs = Knobs(batch_size=200, kv_budget=0.35)
    engine = engine_of(drawn(config, 1500), config)
    evictions = 0
    for _ in range(1501):
        result = engine.serve(knobs)
        evictions += result.evictions
    check_books(engine, result, knobs)
    assert evictions > 1000
