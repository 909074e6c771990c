"""Reference agents by name: legal actions, a memory that resets, and descriptions that hold."""

from __future__ import annotations

from itertools import pairwise

import pytest

from agents.serving.agents import AGENTS
from env.serving.episode import make_env
from env.serving.tasks import load_calibration
from grader.serving.policies import Constant, TwoMode
from inferencegym.errors import UnknownNameError
from inferencegym.models.serving import ServeAction
from inferencegym.registry import SERVING
from tests.grader.episodes import REFERENCE_AGENTS, TASK_IDS


def actions_of(task_id: str, name: str, seed: int, steps: int = 60) -> list[ServeAction]:
    env, agent = make_env(task_id, seed), AGENTS[name](task_id, seed)
    observation = env.reset()
    agent.reset()
    taken = []
    for _ in range(steps):
        taken.append(agent.act(observation))
        observation = env.step(taken[-1])[0]
    return taken


def test_the_registry_finds_them():
    assert SERVING.part("agents") is AGENTS
    assert set(REFERENCE_AGENTS) <= AGENTS.keys()


@pytest.mark.parametrize("task_id", TASK_IDS)
@pytest.mark.parametrize("name", REFERENCE_AGENTS)
def test_actions_are_legal_and_repeat(task_id: str, name: str):
    taken = actions_of(task_id, name, 4)
    assert all(ServeAction.model_validate(action.model_dump()) == action for action in taken)
    assert actions_of(task_id, name, 4) == taken


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_none_but_random_runs_out_of_memory(task_id: str):
    env = make_env(task_id)
    for name in set(REFERENCE_AGENTS) - {"random"}:
        assert all(env.reserved_memory_gb(action) <= 40.0 for action in actions_of(task_id, name, 4))


def test_the_simple_ones():
    assert set(map(repr, actions_of("task3", "baseline", 0))) == {repr(ServeAction())}
    assert actions_of("task3", "zero", 0)[0] == ServeAction(kv_budget=0.1, batch_size=1)
    assert len(set(map(repr, actions_of("task3", "random", 0)))) == 60


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_the_calibrated_ones_are_those_of_the_file(task_id: str):
    stored = load_calibration()["tasks"][task_id]
    static, adaptive = AGENTS["static"](task_id, 0), AGENTS["adaptive"](task_id, 0)
    assert isinstance(static, Constant)
    assert isinstance(adaptive, TwoMode)
    assert static.to_dict() == stored["best_static"]
    assert adaptive.to_dict() == stored["best_adaptive"]


@pytest.mark.parametrize("name", ["reactive", "adaptive"])
@pytest.mark.parametrize("task_id", ["task2", "task3"])
def test_the_reacting_ones_do_react(task_id: str, name: str):
    taken = [repr(action) for action in actions_of(task_id, name, 4, 200)]
    assert len(set(taken)) == 2
    changes = sum(before != after for before, after in pairwise(taken))
    assert 2 <= changes <= 60


@pytest.mark.parametrize("name", ["random", "reactive", "adaptive"])
def test_two_agents_of_a_name_share_nothing(name: str):
    first, second = AGENTS[name]("task3", 1), AGENTS[name]("task3", 1)
    env = make_env("task3", 1)
    observation = env.reset()
    for _ in range(80):
        observation = env.step(first.act(observation))[0]
    fresh = AGENTS[name]("task3", 1)
    start = make_env("task3", 1).reset()
    assert second.act(start) == fresh.act(start)


@pytest.mark.parametrize("name", REFERENCE_AGENTS)
def test_unknown_tasks_are_refused(name: str):
    with pytest.raises(UnknownNameError):
        AGENTS[name]("task9", 0)
