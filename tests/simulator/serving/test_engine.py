"""What a second of an engine reports, and snapshots of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.serving.engine import EngineModel, Knobs, ServingEngine, _percentile
from simulator.serving.traffic.config import get_workload
from tests.simulator.engines import (
    PACK,
    TABLE,
    by_hand,
    drawn,
    engine_of,
    prefill_s,
    served,
    step_ms,
    workload,
)
from tests.simulator.properties import bounded

MODEL = EngineModel(TABLE, workload())


def test_memory_grows_with_batch_pool_and_drafts_and_shrinks_with_the_tier():
    sizes = [MODEL.memory_gb(Knobs(batch_size=size)) for size in (1, 32, 256, 512)]
    pools = [MODEL.memory_gb(Knobs(kv_budget=share)) for share in (0.1, 0.5, 1.0)]
    drafts = [MODEL.memory_gb(Knobs(0.5, length)) for length in (0, 1, 2, 4, 8)]
    for values in (sizes, pools, drafts):
        assert all(after > before for before, after in pairwise(values))
    # The pool takes nine tenths of what the weights leave, so a full pool costs less with fewer weights.
    tiers = [MODEL.memory_gb(Knobs(0.5, quant_tier=tier)) for tier in (0, 1, 2)]
    assert tiers[0] > tiers[1] > tiers[2]


def test_the_out_of_memory_rule():
    limit = PACK.memory_limit_gb
    assert limit == 40.0
    assert MODEL.memory_gb(Knobs(batch_size=512)) > limit
    assert MODEL.memory_gb(Knobs(batch_size=32)) < limit
    for knobs, oom in ((Knobs(batch_size=512), True), (Knobs(batch_size=32), False)):
        result = engine_of(by_hand([0.1], 64, 10, steps=0)).serve(knobs)
        assert result.oom is oom
        assert result.memory_gb == pytest.approx(min(MODEL.memory_gb(knobs), limit))


@bounded()
@given(st.lists(st.floats(0.0, 1e3), min_size=1, max_size=60), st.floats(0.0, 1.0))
def test_percentiles_are_numpy_s(samples: list[float], share: float):
    ordered = sorted(samples)
    expected = float(np.percentile(ordered, 100.0 * share))
    assert _percentile(ordered, share) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_ttft_percentiles_are_over_the_requests_served():
    """Prefills one after the other, on a GPU of their own: TTFT k times the prefill, plus the transfer."""
    result = engine_of(by_hand([0.0] * 9, 1024, 10, steps=0)).serve(Knobs(prefill_disagg=True))
    waits_s = np.arange(1, 10) * prefill_s(1024) + 1024 * PACK.kv_bytes_per_token / 25e9
    assert result.ttft_p50_ms == pytest.approx(1000.0 * np.percentile(waits_s, 50))
    assert result.ttft_p99_ms == pytest.approx(1000.0 * np.percentile(waits_s, 99))


def test_ttft_of_a_second_that_served_nobody_is_the_wait_so_far():
    """Seven requests wait for the one slot; those that arrived earliest have waited longest."""
    arrivals = [0.0, *(0.1 * k for k in range(1, 8))]
    results = served(by_hand(arrivals, 64, 5000, steps=2), Knobs(batch_size=1))
    assert results[1].ttft_p50_ms == pytest.approx(1000.0 * (2.0 - 0.4))
    assert results[1].ttft_p99_ms == pytest.approx(1000.0 * (2.0 - 0.1))
    assert results[2].ttft_p50_ms == pytest.approx(results[1].ttft_p50_ms + 1000.0)


def test_latencies_of_an_idle_engine_are_the_table_s():
    result = engine_of(by_hand([], 256, 300, steps=0)).serve(Knobs(spec_length=2))
    step = step_ms(1, 256, spec_index=2)
    per_step = 1.0 + result.accept_rate + result.accept_rate**2
    assert result.ttft_p50_ms == result.ttft_p99_ms == pytest.approx(1000.0 * prefill_s(256) + 0.5 * step)
    assert result.tpot_ms == pytest.approx(step / per_step)


def test_violations_are_a_share_of_what_was_due():
    """Prefills of 0.6 s one after the other, an objective of 1.3 s."""
    config = workload(ttft_slo_ms=(1300.0, None, None))
    engine = engine_of(by_hand([0.0] * 5, 8192, 50, steps=3), config)
    first, second = engine.serve(Knobs()), engine.serve(Knobs())
    assert (first.violations, first.violation_rate) == (0, 0.0)
    # Then one in time and one late; the fourth is being prefilled, the fifth waits past its objective.
    assert (second.violations, second.violation_rate) == (2, pytest.approx(2 / 3))


def test_cost_counts_two_gpus_and_all_tokens():
    traffic = by_hand([0.0], 1024, 50, steps=0)
    for disagg, gpus in ((False, 1), (True, 2)):
        result = served(traffic, Knobs(prefill_disagg=disagg))[0]
        cents_per_s = gpus * PACK.cents_per_gpu_hour / 3600.0
        assert result.cost_per_1k == pytest.approx(min(1000.0 * cents_per_s / 1074.0, 0.15))


def test_acceptance_is_zero_without_drafts():
    assert MODEL.accept_rate(Knobs(), 100.0) == 0.0
    assert MODEL.accept_rate(Knobs(spec_length=1), 100.0) == pytest.approx(0.97 * 0.8 / 1.15)


def plan(total: int, seed: int) -> list[Knobs]:
    rng = np.random.default_rng(seed)
    return [
        Knobs(
            float(rng.uniform(0.1, 1.0)),
            int(rng.choice([0, 1, 2, 4, 8])),
            int(rng.integers(1, 513)),
            bool(rng.integers(2)),
            int(rng.integers(3)),
        )
        for _ in range(total)
    ]


@pytest.mark.parametrize("task_id", ["task1", "task2", "task3"])
@pytest.mark.parametrize("cut", [0, 1, 57])
def test_a_snapshot_goes_on_the_same_whatever_happened_since(task_id: str, cut: int):
    config = get_workload(task_id)
    knobs = plan(120, cut)
    engine = engine_of(drawn(config), config)
    for one in knobs[:cut]:
        engine.serve(one)
    kept = engine.snapshot()
    first = [engine.serve(one) for one in knobs[cut:]]
    assert (engine.snapshot() == kept) is False
    for _ in range(2):
        engine.restore(kept)
        assert [engine.serve(one) for one in knobs[cut:]] == first
    other = engine_of(drawn(config), config)
    other.restore(kept)
    assert [other.serve(one) for one in knobs[cut:]] == first


def test_a_snapshot_covers_everything_that_changes():
    """Whatever attribute a second changes is in the snapshot, but for the results of that second."""
    config = get_workload("task3")
    engine = engine_of(drawn(config), config)

    def image(of: ServingEngine) -> dict[str, Any]:
        return {name: repr(value) for name, value in vars(of).items() if name not in ("model", "traffic")}

    before = image(engine)
    for one in plan(80, 5):
        engine.serve(one)
    changed = {name for name, value in image(engine).items() if value != before[name]}
    assert changed - engine.snapshot().keys() <= {"_out", "_ttft"}
