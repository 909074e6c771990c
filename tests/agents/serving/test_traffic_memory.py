"""What is read out of observations about traffic."""

from __future__ import annotations

import numpy as np
import pytest

from agents.serving.traffic_memory import FEATURES, RATE, TrafficMemory, observation_row
from env.serving.episode import make_env
from env.serving.tasks import get_task
from simulator.serving.traffic.workload import BURST, WorkloadGenerator


def watch(task_id: str, seed: int) -> tuple[TrafficMemory, np.ndarray, list[int]]:
    """Features of a whole episode, and the onset known after each second."""
    env, memory = make_env(task_id, seed), TrafficMemory(task_id)
    observation, rows, onsets = env.reset(), [], []
    while True:
        rows.append(memory.features(observation_row(observation), observation.timestep)[0])
        onsets.append(int(memory.onset[0]))
        if env.done:
            return memory, np.array(rows), onsets
        observation = env.step({"batch_size": 128, "kv_budget": 0.8})[0]


@pytest.mark.parametrize("task_id", ["task1", "task2", "task3"])
@pytest.mark.parametrize("seed", [3000, 3001, 3002])
def test_features_are_finite_and_small(task_id: str, seed: int) -> None:
    _, rows, _ = watch(task_id, seed)
    assert rows.shape == (201, len(FEATURES))
    assert np.isfinite(rows).all()
    assert np.abs(rows).max() < 4.0
    assert (rows[:, 0] == 1.0).all()


@pytest.mark.parametrize("task_id", ["task2", "task3"])
@pytest.mark.parametrize("seed", [3000, 3001, 3002, 3003])
def test_the_first_surge_is_seen_in_its_first_seconds(task_id: str, seed: int) -> None:
    task = get_task(task_id)
    generator = WorkloadGenerator(task.workload, task.info.episode_length)
    begin = int(np.flatnonzero(generator.episode(np.random.default_rng(seed)).phase_index == BURST)[0])
    _, _, onsets = watch(task_id, seed)
    assert max(onsets[:begin]) == -1
    assert onsets[begin + 1] - begin in (0, 1)


def test_a_task_without_bursts_never_sees_one() -> None:
    _, rows, onsets = watch("task1", 3005)
    assert set(onsets) == {-1}
    assert not rows[:, [FEATURES.index(n) for n in ("burst_soon", "burst_left", "since_burst")]].any()


def test_a_moving_average_gives_back_its_last_value() -> None:
    memory, level = TrafficMemory("task2"), 25.0
    row = np.array([[0.0, 200.0, level, 0.0, 50.0, 30.0, 0.0]])
    memory.features(row, 0)
    counts = [30.0, 18.0, 80.0]
    for second, count in enumerate(counts, start=1):
        level += 2 / 11 * (count - level)
        row = row.copy()
        row[0, RATE] = level
        surge = memory.features(row, second)[0, FEATURES.index("surge")]
        assert surge == pytest.approx(0.5 * np.log(count / 25.0))


def test_reset_forgets() -> None:
    memory, _, _ = watch("task3", 3001)
    assert memory.onset[0] >= 0
    memory.reset()
    assert memory.onset[0] == -1
