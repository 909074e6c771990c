"""Model-predictive control: it knows what it has seen, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from agents.registry import get_agent
from agents.serving.model_predictive import SHADOW_SEED, ModelPredictive, shadow_library
from env.serving.episode import make_env
from env.serving.tasks import TASKS, get_task
from inferencegym.models.serving import ServeAction, ServeObservation
from simulator.serving.traffic.workload import BURST, WorkloadGenerator


def episode(task_id: str, seed: int, steps: int = 200) -> tuple[list[ServeObservation], list[ServeAction]]:
    env, agent = make_env(task_id, seed), get_agent("serving", "mpc", task_id, 7)
    seen, actions = [env.reset()], []
    agent.reset()
    for _ in range(steps):
        actions.append(agent.act(seen[-1]))
        seen.append(env.step(actions[-1])[0])
    return seen, actions


@pytest.mark.parametrize("task_id", TASKS)
def test_it_plays_a_whole_episode_within_memory(task_id: str) -> None:
    env = make_env(task_id)
    _, actions = episode(task_id, 3000)
    limit_gb = 36.0 if task_id == "task2" else 40.0
    assert max(env.reserved_memory_gb(action) for action in actions) <= limit_gb
    assert len(actions) == 200


def test_its_actions_follow_from_its_observations_alone() -> None:
    seen, actions = episode("task3", 3001, 80)
    agent = ModelPredictive("task3", 7)  # no environment anywhere near it
    assert [agent.act(observation) for observation in seen[:80]] == actions


def test_the_same_past_gives_the_same_action_whatever_comes_next() -> None:
    seen, actions = episode("task3", 3002, 40)
    other, _ = episode("task3", 3003, 41)
    agent = ModelPredictive("task3", 7)
    assert [agent.act(observation) for observation in seen[:40]] == actions
    agent.act(other[40])  # another future cannot change what was done


def test_reset_starts_over() -> None:
    agent = ModelPredictive("task2", 7)
    seen, actions = episode("task2", 3004, 30)
    for _ in range(2):
        assert [agent.act(observation) for observation in seen[:30]] == actions
        agent.reset()


@pytest.mark.parametrize("task_id", TASKS)
def test_shadows_are_other_episodes_with_bursts_at_every_possible_second(task_id: str) -> None:
    library = shadow_library(task_id)
    task = get_task(task_id)
    low, high = task.workload.arrivals.first_burst_s
    assert min(seed for seed, _ in library) >= SHADOW_SEED
    generator = WorkloadGenerator(task.workload, task.info.episode_length)
    seed, onset = library[0]
    bursts = np.flatnonzero(generator.episode(np.random.default_rng(seed)).phase_index == BURST)
    if not task.workload.arrivals.burst_s:
        assert not len(bursts)
        return
    assert onset == bursts[0]
    assert {onset for _, onset in library} >= set(range(low + 1, high))
