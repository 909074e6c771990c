"""The tasks: names, open knobs and weights of the contract."""

from __future__ import annotations

import pytest

from env.serving.tasks import ALL_TASKS, TASKS, RewardWeights, get_task, load_calibration
from grader.serving.scoring import WEIGHTS
from inferencegym.errors import UnknownNameError
from inferencegym.models.serving import ServeAction
from simulator.packs.on_offer import SHIPPED


def test_three_tasks_from_easy_to_hard():
    assert list(TASKS) == ["task1", "task2", "task3"]
    assert [task.difficulty for task in TASKS.values()] == ["easy", "medium", "hard"]
    assert {task.episode_length for task in TASKS.values()} == {200}
    assert all(len(task.description) > 50 for task in TASKS.values())


def test_open_knobs():
    assert set(TASKS["task1"].active_actions) == {"kv_budget", "batch_size"}
    assert set(TASKS["task2"].active_actions) == {"kv_budget", "batch_size", "spec_length"}
    assert set(TASKS["task3"].active_actions) == set(ServeAction.model_fields)


def test_weights():
    assert get_task("task1").weights == RewardWeights(0.40, 0.25, 0.25, 0.10)
    assert get_task("task2").weights == RewardWeights(0.40, 0.25, 0.30, 0.10)
    assert get_task("task3").weights == RewardWeights(0.40, 0.25, 0.35, 0.15)


def test_every_task_is_calibrated():
    for pack in SHIPPED:
        assert load_calibration(pack)["tasks"].keys() == ALL_TASKS.keys()
        assert load_calibration(pack)["score_weights"] == WEIGHTS


def test_unknown_tasks_are_answered_with_near_ones():
    with pytest.raises(UnknownNameError, match="Did you mean task2"):
        get_task("tusk2")
