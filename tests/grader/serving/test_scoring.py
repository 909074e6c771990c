"""The formulas of the grades."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env.serving.tasks import ALL_TASKS
from grader.serving.scoring import COST_BUDGET, WEIGHTS, Anchors, StepFigures, score_steps
from tests.simulator.properties import bounded

ANCHORS = Anchors(1000.0, 3000.0)
STEP = StepFigures(
    tokens_per_s=2000.0,
    ttft_p50_ms=150.0,
    memory_gb=41.0,
    cost_per_1k=0.0125,
    slo_violation_rate=0.25,
    batch_size=64,
    kv_budget=0.5,
)

figures = st.builds(
    StepFigures,
    tokens_per_s=st.floats(0.0, 1e9),
    ttft_p50_ms=st.floats(0.0, 1e6),
    memory_gb=st.floats(0.0, 80.0),
    cost_per_1k=st.floats(0.0, 1e9),
    slo_violation_rate=st.floats(0.0, 1.0),
    batch_size=st.integers(1, 512),
    kv_budget=st.floats(0.1, 1.0),
    oom=st.booleans(),
)


def test_weights_sum_to_one():
    assert WEIGHTS.keys() == ALL_TASKS.keys()
    assert {round(sum(weights.values()), 12) for weights in WEIGHTS.values()} == {1.0}


def test_task_1_is_throughput_between_its_anchors():
    assert score_steps("task1", [STEP] * 200, 200, ANCHORS) == (0.5, {"throughput": 0.5, "completed": 1.0})
    for tokens, expected in ((500.0, 0.0), (1000.0, 0.0), (3000.0, 1.0), (9000.0, 1.0)):
        assert score_steps("task1", [replace(STEP, tokens_per_s=tokens)] * 200, 200, ANCHORS)[0] == expected


def test_task_2_is_half_ttft_and_half_memory():
    score, parts = score_steps("task2", [STEP] * 200, 200, ANCHORS)
    assert parts == {"ttft": pytest.approx(0.5), "memory": pytest.approx(0.5), "completed": 1.0}
    assert score == pytest.approx(0.5)


def test_memory_counts_its_peak():
    steps = [replace(STEP, memory_gb=30.0)] * 199
    assert score_steps("task2", [*steps, STEP], 200, ANCHORS)[1]["memory"] == pytest.approx(0.5)
    for peak, expected in ((36.0, 1.0), (46.0, 0.0), (80.0, 0.0)):
        found = score_steps("task2", [*steps, replace(STEP, memory_gb=peak)], 200, ANCHORS)[1]["memory"]
        assert found == pytest.approx(expected)


def test_memory_that_ran_out_once_scores_nothing():
    """An OOM reports the GPU's 40 GB, which the formula alone would pay with 0.6."""
    steps = [replace(STEP, memory_gb=30.0)] * 199
    full = score_steps("task2", [*steps, replace(STEP, memory_gb=40.0)], 200, ANCHORS)[1]["memory"]
    lost = score_steps("task2", [*steps, replace(STEP, memory_gb=40.0, oom=True)], 200, ANCHORS)
    assert full == pytest.approx(0.6)
    assert lost[1]["memory"] == 0.0
    assert lost[0] == pytest.approx(0.5 * lost[1]["ttft"])


def test_task_3_weighs_four_parts():
    score, parts = score_steps("task3", [STEP] * 200, 200, ANCHORS)
    assert parts == {
        "throughput": pytest.approx(0.5),
        "slo_compliance": pytest.approx(0.75),
        "cost": pytest.approx(1.0 - 200 * 0.0125 / COST_BUDGET),
        "stability": 1.0,
        "completed": 1.0,
    }
    assert score == pytest.approx(0.4 * 0.5 + 0.3 * 0.75 + 0.2 * 0.5 + 0.1)


def test_stability_counts_changes_of_changes():
    """Batch 64, 320, 64, 320, …: changes of +256 and -256, a deviation of half the scale's 512."""
    swing = [replace(STEP, batch_size=64 + 256 * (k % 2)) for k in range(200)]
    assert score_steps("task3", swing, 200, ANCHORS)[1]["stability"] == pytest.approx(0.0, abs=1e-4)
    ramp = [replace(STEP, batch_size=1 + 2 * k) for k in range(200)]
    assert score_steps("task3", ramp, 200, ANCHORS)[1]["stability"] == 1.0
    kv = [replace(STEP, kv_budget=0.5 + 0.125 * (k % 2)) for k in range(200)]
    assert score_steps("task3", kv, 200, ANCHORS)[1]["stability"] == pytest.approx(0.75, abs=1e-4)


@pytest.mark.parametrize("task_id", WEIGHTS)
@pytest.mark.parametrize("played", [1, 50, 199])
def test_an_unfinished_episode_scores_its_share(task_id: str, played: int):
    full = score_steps(task_id, [STEP] * 200, 200, ANCHORS)
    part = score_steps(task_id, [STEP] * played, 200, ANCHORS)
    assert part[1]["completed"] == played / 200
    if "cost" in WEIGHTS[task_id]:  # cost is a total, so a part of the episode has spent less
        assert part[0] <= played / 200
    else:
        assert part[0] == pytest.approx(full[0] * played / 200)


def test_memory_and_cost_are_measured_against_what_the_anchors_say():
    h100 = replace(ANCHORS, memory_scale=2.0, cost_budget=10.0)
    steps = [replace(STEP, memory_gb=82.0)] * 200
    assert score_steps("task2", steps, 200, h100)[1]["memory"] == pytest.approx(0.5)
    assert score_steps("task2", steps, 200, ANCHORS)[1]["memory"] == 0.0
    assert score_steps("azure-code", steps, 200, h100)[1]["cost"] == pytest.approx(0.75)
    assert score_steps("azure-code", steps, 200, ANCHORS)[1]["cost"] == pytest.approx(0.5)


def test_no_steps_no_score():
    assert score_steps("task1", [], 200, ANCHORS)[0] == 0.0


@bounded()
@given(st.sampled_from(list(WEIGHTS)), st.lists(figures, max_size=30), st.integers(1, 40))
def test_scores_of_anything_are_in_range(task_id: str, steps: list[StepFigures], length: int):
    score, parts = score_steps(task_id, steps, length, ANCHORS)
    assert 0.0 <= score <= 1.0
    assert all(0.0 <= part <= 1.0 for part in parts.values())
    assert parts.keys() == WEIGHTS[task_id].keys() | {"completed"}
