"""The engine in machine code against the engine in Python: every number, in any situation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferencegym.models.serving import EngineTiming
from simulator.serving.compiled import CompiledEngine
from simulator.serving.engine import EngineModel, Knobs, ServingEngine
from simulator.serving.rows import RESULT
from simulator.serving.timing import ENGINE_TIMINGS
from simulator.serving.traffic.config import WorkloadConfig, get_workload
from simulator.serving.traffic.workload import EpisodeTraffic
from tests.simulator.engines import BATCH, INTERACTIVE, OUT_OF_MEMORY, TABLE, by_hand, drawn, workload
from tests.simulator.serving.test_kernel import KNOBS, workloads


def pair(
    config: WorkloadConfig, traffic: EpisodeTraffic, timing: EngineTiming = "additive"
) -> tuple[ServingEngine, CompiledEngine]:
    model = EngineModel(TABLE, config, timing)
    return ServingEngine(model, traffic), CompiledEngine(model, traffic)


def assert_equal_second(python: ServingEngine, machine: CompiledEngine, knobs: Knobs) -> None:
    expected, result = python.serve(knobs), machine.serve(knobs)
    assert result == expected
    assert [type(value) for value in result] == [type(value) for value in expected]
    assert machine.second == python.second
    assert machine.running == python.running
    assert machine.counts == python.counts


@pytest.mark.parametrize("timing", ENGINE_TIMINGS)
@given(
    workloads(), st.lists(st.tuples(KNOBS, st.integers(1, 30)), min_size=1, max_size=12), st.integers(0, 99)
)
@settings(deadline=None, max_examples=60)
def test_any_workload_under_any_settings(
    timing: EngineTiming, config: WorkloadConfig, plan: list[tuple[Knobs, int]], seed: int
) -> None:
    python, machine = pair(config, drawn(config, 120, seed), timing)
    for knobs, seconds in plan:
        for _ in range(min(seconds, 121 - python.second)):
            assert_equal_second(python, machine, knobs)


def random_knobs(rng: np.random.Generator) -> Knobs:
    return Knobs(
        float(rng.uniform(0.1, 1.0)),
        int(rng.choice([0, 1, 2, 4, 8])),
        int(rng.integers(1, 513)),
        bool(rng.integers(2)),
        int(rng.integers(3)),
    )


@pytest.mark.parametrize("timing", ENGINE_TIMINGS)
@pytest.mark.parametrize("task_id", ["task1", "task2", "task3"])
def test_random_settings_evict_and_run_out_of_memory(task_id: str, timing: EngineTiming) -> None:
    config, rng = get_workload(task_id), np.random.default_rng(0)
    seen = {"evictions": 0, "oom": 0, "dropped": 0}
    for seed in range(5):
        python, machine = pair(config, drawn(config, seed=seed), timing)
        for _ in range(201):
            knobs = random_knobs(rng)
            assert_equal_second(python, machine, knobs)
            for name in seen:
                seen[name] += int(machine._engines.results[0, RESULT[name]])
    assert min(seen.values()) > 0


def test_no_traffic_at_all() -> None:
    python, machine = pair(workload(), by_hand([], 1.0, 1.0))
    for knobs in (Knobs(), OUT_OF_MEMORY, Knobs(quant_tier=2)):
        assert_equal_second(python, machine, knobs)


def test_equal_finishing_times_leave_in_order_of_admission() -> None:
    traffic = by_hand([0.1] * 40, 64.0, 50.0, priority=[INTERACTIVE, BATCH] * 20)
    python, machine = pair(workload(class_mix=(0.5, 0.5, 0.0)), traffic)
    for _ in range(20):
        assert_equal_second(python, machine, Knobs(batch_size=40, prefill_disagg=True))


def test_a_restored_engine_goes_on_as_before() -> None:
    config = get_workload("task3")
    _, machine = pair(config, drawn(config))
    rng = np.random.default_rng(1)
    for _ in range(80):
        machine.serve(random_knobs(rng))
    kept = machine.snapshot()
    plan = [random_knobs(rng) for _ in range(60)]
    first = [machine.serve(knobs) for knobs in plan]
    for _ in range(2):
        machine.restore(kept)
        assert machine.second == 80
        assert [machine.serve(knobs) for knobs in plan] == first
