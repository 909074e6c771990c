"""The steady-state simulator: the table's values, batches of calls, jitter, memory, and the event engine."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferencegym.errors import InvalidValueError
from inferencegym.models.serving import (
    MetricsSnapshot,
    PriorityDistribution,
    QuantTier,
    ServeAction,
    WorkloadState,
)
from simulator.packs.physics import prompt_bucket, sequences_that_fit
from simulator.packs.schema import BATCH_SIZES, PROMPT_LENGTHS_TOKENS, SPEC_LENGTHS, VALUE_COLUMNS
from simulator.packs.trace_sim import JITTER_SIGMA, TraceSimulator, shared_simulator
from simulator.reference.fidelity import measure
from simulator.serving.engine import Knobs, ServingEngine
from tests.simulator.engines import PACK, TABLE, long_run, workload
from tests.simulator.properties import bounded

ACTIONS = st.builds(
    ServeAction,
    kv_budget=st.floats(0.1, 1.0),
    spec_length=st.sampled_from(SPEC_LENGTHS),
    batch_size=st.integers(1, 512),
    prefill_disagg=st.booleans(),
    quant_tier=st.sampled_from(QuantTier),
)


def load(rate_rps: float, prompt: float = 256.0, queue: float = 0.0) -> WorkloadState:
    return WorkloadState(
        arrival_rate=rate_rps,
        mean_prompt_len=prompt,
        prompt_len_bucket=prompt_bucket(prompt),
        queue_depth=queue,
        priority_distribution=PriorityDistribution(interactive=1.0, batch=0.0, best_effort=0.0),
    )


LOADS = st.builds(
    load,
    st.one_of(st.just(0.0), st.floats(0.0, 1e4)),
    st.floats(32.0, 8192.0),
    st.one_of(st.just(0.0), st.integers(0, 512)),
)


@pytest.fixture
def quiet() -> TraceSimulator:
    return TraceSimulator(jitter=False)


@bounded(60)
@given(st.lists(st.tuples(ACTIONS, LOADS), min_size=1, max_size=6), st.integers(0, 2**32))
def test_never_raises_and_one_call_for_many_is_many_calls_for_one(
    pairs: list[tuple[ServeAction, WorkloadState]], seed: int
):
    actions, states = map(list, zip(*pairs, strict=True))
    together = TraceSimulator(seed=seed).simulate(actions, states)
    simulator = TraceSimulator(seed=seed)
    apart = [simulator.simulate(action, state) for action, state in pairs]
    assert together == apart
    for metrics in together:
        assert MetricsSnapshot.model_validate(metrics.model_dump()) == metrics
        assert metrics.ttft_p50_ms <= metrics.ttft_p99_ms
        assert metrics.oom == (metrics.gpu_memory_gb == PACK.memory_limit_gb)


@pytest.mark.parametrize("tier", list(QuantTier))
@pytest.mark.parametrize("spec_length", SPEC_LENGTHS)
def test_values_at_grid_points_are_the_table_s(quiet: TraceSimulator, tier: QuantTier, spec_length: int):
    """A waiting queue fills the batch; prefill elsewhere leaves decode alone, as in the table's columns.

    The table's acceptance is that of bucket 0; longer prompts accept less, by the formula.
    """
    spec, columns = SPEC_LENGTHS.index(spec_length), {name: i for i, name in enumerate(VALUE_COLUMNS)}
    reference = PACK.reference_tokens_per_step()[spec]
    for batch in (1, 8, 64):
        for bucket, prompt in enumerate(PROMPT_LENGTHS_TOKENS[:5]):
            action = ServeAction(
                batch_size=batch, spec_length=spec_length, quant_tier=tier, prefill_disagg=True
            )
            at = (BATCH_SIZES.index(batch), 4, spec, int(tier), bucket)
            row = TABLE.values[at]
            metrics = quiet.simulate(action, load(0.0, prompt, queue=1.0))
            acceptance = metrics.spec_accept_rate
            per_step = sum(acceptance**k for k in range(spec_length + 1))
            assert metrics.tpot_ms == pytest.approx(row[columns["tpot_ms"]] * reference / per_step, rel=1e-9)
            assert metrics.gpu_memory_gb == pytest.approx(min(row[columns["gpu_mem_gb"]], 40.0), rel=1e-9)


def test_ttft_of_a_grid_point_is_the_table_s_plus_the_queue(quiet: TraceSimulator):
    """Nobody there, nothing queued: prefill + half or nearly all of an iteration.

    To a millionth: one request in twelve days still meets another one's prefill now and then.
    """
    columns = {name: i for i, name in enumerate(VALUE_COLUMNS)}
    for bucket, prompt in enumerate(PROMPT_LENGTHS_TOKENS):
        row = TABLE.values[0, 4, 0, 0, bucket]
        metrics = quiet.simulate(ServeAction(batch_size=1), load(1e-6, prompt))
        assert metrics.ttft_p50_ms == pytest.approx(row[columns["ttft_p50_ms"]], rel=1e-6)
        assert metrics.ttft_p99_ms == pytest.approx(row[columns["ttft_p99_ms"]], rel=1e-6)


def test_throughput_of_a_full_engine_is_the_table_s(quiet: TraceSimulator):
    """``tps`` of the pack: prefill and decode share the GPU, the pool limits the batch."""
    tps = VALUE_COLUMNS.index("tps")
    for batch in (1, 16, 64, 128):
        for bucket, prompt in enumerate(PROMPT_LENGTHS_TOKENS):
            metrics = quiet.simulate(ServeAction(batch_size=batch), load(0.0, prompt, queue=100.0))
            expected = TABLE.values[BATCH_SIZES.index(batch), 4, 0, 0, bucket, tps]
            assert metrics.tokens_per_sec == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("tier", list(QuantTier))
@pytest.mark.parametrize("prompt", [64.0, 700.0, 6000.0])
def test_throughput_rises_strictly_with_the_batch_until_memory_binds(
    quiet: TraceSimulator, tier: QuantTier, prompt: float
):
    """Strictly over the measured batch sizes. Between them steps are read linearly in log2(batch), which
    above 128, where they bend upward, is up to 0.4 % too slow.
    """
    room = sequences_that_fit(PACK.kv_pool_tokens[tier], prompt, quiet.output_tokens)
    sizes = list(range(1, min(int(room), 240)))
    metrics = quiet.simulate(
        [ServeAction(batch_size=size, quant_tier=tier) for size in sizes],
        [load(0.0, prompt, queue=512.0)] * len(sizes),
    )
    assert not any(one.oom or one.eviction_events for one in metrics)
    tokens = [one.tokens_per_sec for one in metrics]
    measured = [tokens[size - 1] for size in BATCH_SIZES if size <= len(sizes)]
    assert all(after > before for before, after in pairwise(measured))
    assert (tokens > 0.996 * np.maximum.accumulate(tokens)).all()


def test_a_queue_beyond_the_pool_evicts(quiet: TraceSimulator):
    metrics = quiet.simulate(ServeAction(batch_size=200, kv_budget=0.2), load(0.0, 1000.0, queue=500.0))
    fits = sequences_that_fit(0.2 * PACK.kv_pool_tokens[0], 1000.0, 256.0)
    assert metrics.eviction_events == np.ceil(200 - fits)


def test_out_of_memory_is_data(quiet: TraceSimulator):
    lost = quiet.simulate(ServeAction(batch_size=512), load(8.0, queue=32.0))
    assert lost.oom
    assert lost.gpu_memory_gb == 40.0
    assert lost.tokens_per_sec == 0.0
    assert lost.slo_violation_rate == 1.0
    assert lost.slo_violations == 5 * (32 + 8)
    fits = quiet.simulate(ServeAction(batch_size=32), load(8.0, queue=32.0))
    assert not fits.oom
    assert 38.0 < fits.gpu_memory_gb < 40.0


def test_what_is_offered_is_served_below_capacity(quiet: TraceSimulator):
    """Up to the last percent: 18 requests/s of 256 + 256 tokens are just below what the engine can give."""
    for rate in (0.5, 4.0, 12.0, 17.0, 18.0):
        metrics = quiet.simulate(ServeAction(batch_size=250), load(rate))
        assert metrics.tokens_per_sec == pytest.approx(rate * 256.0, rel=1e-9)
    over = quiet.simulate(ServeAction(batch_size=250), load(40.0))
    assert over.tokens_per_sec < 0.7 * 40.0 * 256.0


def test_replicas_share_the_arrivals():
    alone = TraceSimulator(jitter=False).simulate(ServeAction(), load(3.0))
    assert TraceSimulator(jitter=False, replicas=5).simulate(ServeAction(), load(15.0)) == alone


def test_jitter_is_five_percent_on_three_latencies_and_nothing_else(quiet: TraceSimulator):
    many = 4000
    pairs = [ServeAction()] * many, [load(3.0)] * many
    plain = quiet.simulate(ServeAction(), load(3.0))
    noisy = TraceSimulator(seed=1).simulate(*pairs)
    for name in ("ttft_p50_ms", "tpot_ms"):
        ratio = np.array([getattr(one, name) for one in noisy]) / getattr(plain, name)
        # Standard errors over 4,000 draws: 0.0008 of the mean, 1.1 % of the deviation.
        assert ratio.mean() == pytest.approx(1.0, abs=0.004)
        assert ratio.std() == pytest.approx(JITTER_SIGMA, rel=0.05)
    for name in MetricsSnapshot.model_fields.keys() - {"ttft_p50_ms", "ttft_p99_ms", "tpot_ms"}:
        assert {getattr(one, name) for one in noisy} == {getattr(plain, name)}


def test_a_seed_repeats_the_jitter():
    simulator = TraceSimulator(seed=5)
    first = [simulator.simulate(ServeAction(), load(3.0)) for _ in range(5)]
    assert len({one.tpot_ms for one in first}) == 5
    simulator.reset_seed(5)
    assert [simulator.simulate(ServeAction(), load(3.0)) for _ in range(5)] == first
    simulator.reset_seed(6)
    assert simulator.simulate(ServeAction(), load(3.0)) != first[0]


def test_pairs_must_match():
    simulator = shared_simulator()
    with pytest.raises(InvalidValueError, match="one for each action"):
        simulator.simulate([ServeAction()], [load(1.0), load(2.0)])
    with pytest.raises(InvalidValueError, match="one pair, or two sequences"):
        simulator.simulate(ServeAction(), [load(1.0)])  # type: ignore[call-overload]
    assert simulator.simulate([], []) == []


def capacity_rps(action: ServeAction, prompt: float) -> float:
    """Requests/s of an engine that never lacks any."""
    full = TraceSimulator(jitter=False, output_tokens=300).simulate(action, load(0.0, prompt, queue=500.0))
    return full.tokens_per_sec / 300.0


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
@pytest.mark.parametrize(
    ("action", "prompt"),
    [
        (ServeAction(batch_size=200), 256),
        (ServeAction(batch_size=200, quant_tier=QuantTier.INT8, prefill_disagg=True), 256),
        (ServeAction(batch_size=64, spec_length=2), 1024),
    ],
)
def test_operating_point_is_the_long_run_mean_of_the_event_engine(
    share: float, action: ServeAction, prompt: int
):
    """Poisson arrivals at 30, 50 and 70 % of capacity.

    Throughput is what arrives, in both, to within what an episode's end leaves running. TPOT of the event
    engine averages over a number of sequences that fluctuates, the closed form takes it at its mean; as
    prefills cluster and TPOT bends upward in the number, the engine is the slower one, the more so the
    closer to capacity and the longer the prompts: seen here +0.4 % to +4.6 % colocated, +0.4 % at most
    disaggregated. TTFT waits for the iteration in flight or behind other prefills: its median is within
    2 %, its 99th percentile is taken from an exponential wait and up to 25 % too long.
    """
    config = workload(
        share * capacity_rps(action, prompt),
        prompts={"low": prompt, "high": prompt},
        base_acceptance_rate=0.8,
    )
    knobs = Knobs(**action.model_dump())
    run = long_run(config, knobs, steps=900)
    # The same arrivals/s as drawn, so that only the model differs.
    simulator = TraceSimulator(jitter=False, output_tokens=300, base_acceptance_rate=0.8)
    steady = simulator.simulate(action, load(run.arrivals_per_s, prompt))
    assert run.tokens_per_s == pytest.approx(steady.tokens_per_sec, rel=0.005)
    assert -0.005 < run.tpot_ms / steady.tpot_ms - 1.0 < (0.01 if action.prefill_disagg else 0.06)
    assert abs(run.ttft_p50_ms / steady.ttft_p50_ms - 1.0) < 0.025
    measured = measure(ServingEngine, TABLE, config, knobs, 840)
    assert -0.25 < measured.ttft_p99_ms / steady.ttft_p99_ms - 1.0 < 0.02
