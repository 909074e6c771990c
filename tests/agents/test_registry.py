"""Agents by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agents.registry import agent_names, get_agent, rule_name
from env.serving.episode import make_env
from inferencegym.errors import InferenceGymError, InvalidValueError, UnknownNameError
from inferencegym.registry import EnvSpec, all_specs


def test_agents_play() -> None:
    for name in agent_names("serving"):
        if name not in ("llm", "ppo"):  # need a key, and a trained policy
            agent = get_agent("InferenceGym/Serving-v0", name, "task2", 3)
            env = make_env("task2", 3)
            agent.reset()
            env.step(agent.act(env.reset()))


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_every_agent_is_made_for_every_task_or_says_what_it_lacks(spec: EnvSpec) -> None:
    lacking: set[str] = set()
    for task_id in spec.part("tasks"):
        for name in agent_names(spec.id):
            try:
                get_agent(spec.id, name, task_id, 1)
            except InferenceGymError:
                lacking.add(name)
    assert lacking <= {"llm", "ppo", "evolved", "static"}


def test_the_rule_is_the_reactive_agent() -> None:
    assert rule_name("serving") == "reactive"


@pytest.mark.parametrize(
    ("env_id", "name", "task_id", "near"),
    [
        ("servin", "random", "task1", "serving"),
        ("serving", "reactiv", "task1", "reactive"),
        ("serving", "random", "tsk1", "task1"),
        ("serving", "llmm", "task1", "llm"),
    ],
)
def test_unknown_names_list_near_matches(env_id: str, name: str, task_id: str, near: str) -> None:
    with pytest.raises(UnknownNameError, match=rf"Did you mean .*{near}"):
        get_agent(env_id, name, task_id)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "7", None, 2**63])
def test_a_seed_that_no_episode_takes_is_named(seed: object) -> None:
    with pytest.raises(InvalidValueError, match="seed"):
        get_agent("serving", "random", "task1", seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [None, 3, ["random"], {}])
def test_a_name_that_is_no_text_is_an_unknown_one(name: object) -> None:
    with pytest.raises(UnknownNameError, match="agent"):
        get_agent("serving", name, "task1")  # type: ignore[arg-type]


@pytest.mark.parametrize("task_id", [None, 9, ["task1"], {}, True])
def test_a_task_that_is_none_is_refused(task_id: object) -> None:
    with pytest.raises((UnknownNameError, InvalidValueError), match="task_id"):
        get_agent("serving", "random", task_id)  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_factories_take_a_task_by_any_name(spec: EnvSpec) -> None:
    for task in spec.part("tasks").values():
        for name, make in spec.part("agents").items():
            if name in ("llm", "oracle"):  # needs a key; plans for seconds
                continue
            try:
                made = make(task.id, 0)
            except InferenceGymError:
                continue  # it has nothing for this task
            for alias in (task.id.upper(), *task.aliases):
                assert type(make(alias, 0)) is type(made), (name, alias)


def test_listing_agents_imports_neither_a_client_nor_a_trainer() -> None:
    heavy = "{'httpx', 'cma', 'torch', 'stable_baselines3', 'gymnasium', 'openenv'}"
    program = (
        "import sys; from agents.registry import agent_names; agent_names('serving');"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
