"""What language agents are told."""

from __future__ import annotations

import pytest

from agents.llm.task_text import action_schema, describe_observation, find_task, open_fields, task_text
from env.serving.episode import make_env
from inferencegym.errors import UnknownNameError
from inferencegym.models.serving import ServeObservation
from inferencegym.registry import SERVING
from tests.server.toy_env import SPEC as TOY


def test_every_field_of_the_observation_is_named_with_its_meaning() -> None:
    text = describe_observation(make_env("task3", 1).reset())
    for name, field in ServeObservation.model_fields.items():
        assert f"{name} = " in text
        assert str(field.description).rstrip(".") in text


@pytest.mark.parametrize("task_id", ["task1", "task2", "task3"])
def test_only_open_fields_are_offered(task_id: str) -> None:
    task = find_task(SERVING, task_id)
    text = task_text(SERVING, task)
    assert task.description in text
    for name in SERVING.part("action_model").model_fields:
        assert (f"- {name} (" in text) == (name in task.active_actions)
    assert tuple(action_schema(SERVING, task)["properties"]) == open_fields(SERVING, task)


def test_unknown_tasks_list_near_matches() -> None:
    with pytest.raises(UnknownNameError, match="task1"):
        find_task(SERVING, "task11")


def test_it_serves_any_environment() -> None:
    text = task_text(TOY, find_task(TOY, "windy"))
    assert "- force (number from -1.0 to 1.0; default 0.0): Displacement." in text
    assert '- mode (one of "walk", "run"; default "walk")' in text
    assert "- brake (true or false; default false)" in text
