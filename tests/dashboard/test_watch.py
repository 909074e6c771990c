"""Watch without a browser: what is offered, what is drawn of two sides, and seeds as they are typed."""

from __future__ import annotations

from typing import Any

import pytest

from agents.registry import get_agent
from inferencegym.errors import InferenceGymError
from inferencegym.registry import all_specs, get_spec
from server.dashboard.scene import Scene
from server.dashboard.typed import typed_seed
from server.dashboard.views.view import view_of
from server.dashboard.watch import tab as watch
from server.dashboard.watch.recording import Recording, record, scene_of

MOST_IN_A_TITLE = 22
"""Characters that a chart's height has room for, turned by a right angle."""


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_what_is_shown_first_plays_where_the_trained_agent_cannot(spec, monkeypatch: pytest.MonkeyPatch):
    shown = watch._choices(False, spec.id)[1]["value"]
    assert shown == "ppo"

    def without_gym(env_id: str, name: str, *rest: Any) -> Any:
        if name == "ppo":
            raise InferenceGymError("The agent ppo needs gymnasium.")
        return get_agent(env_id, name, *rest)

    monkeypatch.setattr(watch, "get_agent", without_gym)
    _, first, second, _ = watch._choices(False, spec.id)
    assert first["value"] not in ("ppo", second["value"])
    assert "ppo" in first["choices"]
    *_, (scene, said) = watch._play(
        False, spec.id, watch._first_shown(spec), "42", first["value"], second["value"]
    )
    assert said == ""
    assert scene["done"]


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_an_agent_that_costs_money_is_neither_listed_nor_played(spec, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    monkeypatch.setenv("API_BASE_URL", "http://127.0.0.1:1")
    _, first, second, _ = watch._choices(False, spec.id)
    assert "llm" not in [*first["choices"], *second["choices"]]
    assert "llm" in watch._choices(True, spec.id)[1]["choices"]
    for agents in (("llm", "baseline"), ("baseline", "llm")):
        ((_, said),) = watch._play(False, spec.id, watch._first_shown(spec), "1", *agents)
        assert "paid call" in said
        assert "INFERENCEGYM_WEB_LLM=true" in said


@pytest.mark.parametrize(
    ("typed", "seed"),
    [("0", 0), (" 7 ", 7), ("9007199254740993", 2**53 + 1), (str(2**63 - 1), 2**63 - 1), (42.0, 42)],
)
def test_a_seed_is_played_as_it_was_typed(typed: Any, seed: int):
    assert typed_seed(typed) == seed


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("", "no number in the field"),
        (None, "no number in the field"),
        ("abc", "abc"),
        ("1e999", "1e999"),
        ("1.5", "1.5"),
        ("-1", "-1"),
        (str(2**63), str(2**63)),
        (1.5, "1.5"),
        (True, "True"),
    ],
)
def test_a_refused_seed_is_named_with_what_is_allowed(typed: Any, told: str):
    with pytest.raises(InferenceGymError, match=rf"seed: .*{told}.* from 0 to 9223372036854775807"):
        typed_seed(typed)


def test_bursts_of_the_traffic_are_shaded_once_for_both_sides():
    spans = _watched("serving", "task2", ["static", "zero"]).spans
    assert len(spans) > 3
    assert {(span.label, span.side) for span in spans} == {("burst", None)}


def test_what_befalls_one_side_is_shaded_as_its_own():
    both = _watched("autoscaling", "high_traffic", ["no_op", "static"])
    alone = [_watched("autoscaling", "high_traffic", [agent]) for agent in both.sides]
    for side, (agent, scene) in enumerate(zip(both.sides, alone, strict=True)):
        own = [(span.first, span.last) for span in both.spans if span.side == side]
        assert own == [(span.first, span.last) for span in scene.spans]
        assert all(span.label == f"outage, {agent}" for span in both.spans if span.side == side)
    assert alone[0].spans != alone[1].spans


def test_a_side_that_ends_sooner_does_not_cut_the_others_bursts():
    spec = get_spec("serving")
    longer, shorter = (Recording(spec, "task2", 42, agent) for agent in ("static", "zero"))
    for side, steps in ((longer, 60), (shorter, 5)):
        for _ in range(steps):
            side.advance()
    for sides in ((longer, shorter), (shorter, longer)):
        assert scene_of(spec, sides, 42, "run").spans == scene_of(spec, [longer], 42, "run").spans != []


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_units_fit_their_axis(spec):
    for task_id in spec.part("tasks"):
        for panel in view_of(spec).panels:
            assert len(panel.of(task_id).unit) <= MOST_IN_A_TITLE


def test_carbon_intensity_has_the_unit_of_its_task():
    (panel,) = (panel for panel in view_of(get_spec("routing")).panels if panel.title == "Carbon intensity")
    assert panel.of("stream_1").unit == "g CO₂/kWh"
    assert panel.of("task_1").unit == "scale of the task"


def _watched(env: str, task: str, agents: list[str]) -> Scene:
    *_, scene = record(get_spec(env), task, 42, agents)
    return scene
