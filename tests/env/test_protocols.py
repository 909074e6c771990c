"""Tasks by the names that clients write."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from env.protocols import TaskInfo, listed_tasks, task_named
from inferencegym.errors import InvalidValueError, UnknownNameError
from inferencegym.registry import EnvSpec, all_specs, get_spec


def tasks_of(spec: EnvSpec) -> Mapping[str, TaskInfo]:
    return spec.part("tasks")


SERVING = tasks_of(get_spec("serving"))
ROUTING = tasks_of(get_spec("routing"))


@pytest.mark.parametrize(
    ("name", "task_id"),
    [
        *(
            (name, "task1")
            for name in (1, "1", "task1", "task_1", "task-1", "TASK1", "Task 1", "easy", "Easy")
        ),
        *((name, "task2") for name in (2, "2", "task_2", "TASK-2", "medium")),
        *((name, "task3") for name in (3, np.int64(3), "3", "task_3", "hard")),
        ("azure_code", "azure-code"),
    ],
)
def test_serving_takes_the_names_of_its_design(name: str | int, task_id: str) -> None:
    assert task_named(SERVING, name).id == task_id


@pytest.mark.parametrize(
    ("env", "name", "task_id"),
    [
        ("autoscaling", "easy", "balanced"),
        ("autoscaling", "High-Traffic", "high_traffic"),
        ("autoscaling", "hard", "failure_heavy"),
        ("market", "medium", "surge"),
        ("market", "ADVERSARIAL", "adversarial"),
        ("routing", 1, "task_1"),
        ("routing", "task-2", "task_2"),
        ("routing", "TASK3", "task_3"),
        ("routing", "Stream 2", "stream_2"),
    ],
)
def test_the_other_environments_take_the_same_kinds(env: str, name: str | int, task_id: str) -> None:
    assert task_named(tasks_of(get_spec(env)), name).id == task_id


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_no_name_stands_for_two_tasks(spec: EnvSpec) -> None:
    taken: dict[str, str] = {}
    for task in tasks_of(spec).values():
        for name in (task.id, *task.aliases):
            for spelling in (name, name.upper(), name.replace("_", "-"), name.replace("-", "_")):
                assert task_named(tasks_of(spec), spelling) is task
                key = spelling.lower().replace("-", "_")
                assert taken.setdefault(key, task.id) == task.id


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_a_difficulty_names_a_task_where_only_one_has_it(spec: EnvSpec) -> None:
    listed = listed_tasks(tasks_of(spec)).values()
    for difficulty in ("easy", "medium", "hard"):
        found = [task.id for task in listed if task.difficulty == difficulty]
        if len(found) == 1:
            assert task_named(tasks_of(spec), difficulty).id == found[0]
        else:
            with pytest.raises(UnknownNameError):
                task_named(tasks_of(spec), difficulty)


@pytest.mark.parametrize("name", [True, False, 1.0, 1.5, [], None, {"id": 1}, b"task1"])
def test_what_is_no_name_is_refused_with_what_is_allowed(name: object) -> None:
    with pytest.raises(InvalidValueError, match=r"task_id: .* is not allowed; allowed: a task's id or alias"):
        task_named(SERVING, name)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", [0, 4, -1, pytest.param(10**5000, id="huge"), "", "-1", " task1", "task 11"])
def test_an_unknown_name_is_told_the_ids(name: str | int) -> None:
    with pytest.raises(UnknownNameError, match="does not exist") as caught:
        task_named(SERVING, name)
    assert "task1" in caught.value.hint


def test_near_an_alias_means_its_task() -> None:
    with pytest.raises(UnknownNameError) as caught:
        task_named(ROUTING, "suport_desk")
    assert caught.value.hint.startswith("Did you mean stream_1")
    with pytest.raises(UnknownNameError) as caught:
        task_named(SERVING, "tsk_1")
    assert caught.value.hint.startswith("Did you mean task1")
