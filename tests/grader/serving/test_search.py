"""Candidates of the calibration: legal, within memory, and the same every time."""

from __future__ import annotations

import pytest

from env.serving.episode import make_env
from env.serving.tasks import TASKS, get_task
from grader.serving.policies import TwoMode
from grader.serving.search import TwoModeSearch, grid_settings, neighbours
from inferencegym.models.serving import ServeAction
from tests.grader.episodes import TASK_IDS

GPU_GB = 40.0


def memory_limit_gb(task_id: str) -> float:
    """Task 3 has a limit of its own; in task 2 the grade itself prices memory."""
    return 38.0 if task_id == "task3" else GPU_GB


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_grid_settings_vary_open_knobs_and_fit(task_id: str):
    env, settings = make_env(task_id), grid_settings(task_id)
    assert 100 < len(settings) == len({action.model_dump_json() for action in settings})
    assert max(env.reserved_memory_gb(action) for action in settings) <= memory_limit_gb(task_id)
    default = ServeAction()
    for name in ServeAction.model_fields:
        values = {getattr(action, name) for action in settings}
        if name in TASKS[task_id].active_actions:
            assert len(values) > 1
        else:
            assert values == {getattr(default, name)}


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_neighbours_are_near_and_fit(task_id: str):
    env, base = make_env(task_id), ServeAction(batch_size=100, kv_budget=0.8)
    found = neighbours(task_id, base.model_dump(mode="json"))
    assert base in found
    assert len(found) > 5
    for action in found:
        assert 90 <= action.batch_size <= 110
        assert abs(action.kv_budget - 0.8) < 0.031
        assert env.reserved_memory_gb(action) <= memory_limit_gb(task_id)


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_two_mode_candidates_are_legal_fit_and_repeat(task_id: str):
    env, best = make_env(task_id), [ServeAction(batch_size=100, kv_budget=0.8)]

    def candidates() -> list[TwoMode]:
        search = TwoModeSearch(task_id, best)
        parents = search.random(20)
        return [*parents, *search.mutations(parents, 3)]

    found = candidates()
    assert candidates() == found
    assert len(found) > 50
    rate_rps = get_task(task_id).workload.arrivals.rate_rps
    masked = get_task(task_id).masked_actions
    for policy in found:
        assert policy.rate_on_rps >= 1.05 * rate_rps - 0.01
        assert policy.queue_on >= 1
        assert policy.queue_off >= 0
        for action in (policy.quiet, policy.busy):
            assert env.reserved_memory_gb(action) <= memory_limit_gb(task_id)
            assert all(getattr(action, name) == getattr(ServeAction(), name) for name in masked)
