"""What graders of all environments make of logs."""

from __future__ import annotations

from typing import Any

import pytest

from inferencegym.errors import InvalidValueError, MissingValueError
from inferencegym.registry import EnvSpec, all_specs

SPECS = pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)


@SPECS
@pytest.mark.parametrize("verified", [False, True])
def test_an_empty_log_scores_nothing_and_is_never_verified(spec: EnvSpec, verified: bool) -> None:
    for task_id in spec.part("tasks"):
        grade = spec.part("grader").grade_log(task_id, [], verified=verified)
        assert (grade.score, grade.steps, grade.verified) == (0.0, 0, False)
        assert grade.feedback == "Empty episode log."
        assert set(grade.breakdown.values()) == {0.0}
        assert grade.passed in (None, False)


@SPECS
def test_an_empty_log_has_the_parts_of_a_full_one(spec: EnvSpec) -> None:
    grader = spec.part("grader")
    for task_id in spec.part("tasks"):
        played = grader.grade_replay(task_id, 0, [{}])
        empty = grader.grade_log(task_id, [])
        assert list(empty.breakdown) == list(played.breakdown)
        assert (empty.passed is None) == (played.passed is None)


@SPECS
@pytest.mark.parametrize("log", ["", None, 0, {}, b""])
def test_what_is_no_list_is_no_empty_log(spec: EnvSpec, log: Any) -> None:
    with pytest.raises(InvalidValueError, match="episode_log"):
        spec.part("grader").grade_log(next(iter(spec.part("tasks"))), log)


@SPECS
def test_what_is_missing_is_named_with_what_is_expected(spec: EnvSpec) -> None:
    task_id = next(iter(spec.part("tasks")))
    for log in ([{}], [{"action": {}, "metrics": {}}]):
        with pytest.raises(
            MissingValueError, match=r"^episode_log\[0\]\.metrics.*: missing; expected "
        ) as caught:
            spec.part("grader").grade_log(task_id, log)
        assert "None" not in str(caught.value)
