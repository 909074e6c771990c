"""The sentence that comes with a grade."""

from __future__ import annotations

import pytest

from grader.serving.feedback import feedback_sentence
from grader.serving.scoring import WEIGHTS
from tests.grader.episodes import REFERENCE_AGENTS, TASK_IDS, played


def test_it_compares_with_the_baseline():
    parts = {"throughput": 0.5, "completed": 1.0}
    assert "Score 0.500, above the fixed baseline (0.320)" in feedback_sentence("task1", 0.5, parts, 0.32)
    assert "below the fixed baseline" in feedback_sentence("task1", 0.1, parts, 0.32)
    assert "near the fixed baseline" in feedback_sentence("task1", 0.322, parts, 0.32)


def test_it_names_what_costs_most():
    parts = {"throughput": 0.9, "slo_compliance": 0.2, "cost": 0.0, "stability": 0.0, "completed": 1.0}
    text = feedback_sentence("task3", 0.42, parts, 0.28)
    assert "Most is lost on slo_compliance (0.20)" in text  # 0.24 of the score, cost only 0.20


def test_it_says_when_nothing_is_left():
    assert feedback_sentence("task1", 1.0, {"throughput": 1.0, "completed": 1.0}, 0.3).endswith(
        "Nothing of note is left to gain."
    )


def test_it_says_how_much_was_played():
    text = feedback_sentence("task1", 0.1, {"throughput": 0.4, "completed": 0.25}, 0.3)
    assert "Only 25% of the episode was played" in text


@pytest.mark.parametrize("task_id", TASK_IDS)
@pytest.mark.parametrize("agent", REFERENCE_AGENTS)
def test_every_agent_gets_a_hint_for_its_weakest_part(task_id: str, agent: str):
    grade = played(task_id, agent, 100).grade
    weights = WEIGHTS[task_id]
    weakest = max(weights, key=lambda name: weights[name] * (1.0 - grade.breakdown[name]))
    assert weakest in grade.feedback or "Nothing of note" in grade.feedback
    assert grade.feedback.endswith(".")
    assert "\n" not in grade.feedback
