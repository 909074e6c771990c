"""Knobs read off the action models."""

from __future__ import annotations

import pytest

from inferencegym.registry import all_specs, get_spec
from server.bound import BoundEnv
from server.dashboard.play.form import Knob, form_of, option_label
from tests.server.toy_env import SPEC as TOY

SPECS = [*all_specs(), TOY]
FREE_TEXT = {"rationale"}


def knobs_of(env: str) -> dict[str, Knob]:
    return {knob.name: knob for group in form_of(BoundEnv(get_spec(env))).groups for knob in group.knobs}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_task_shows_the_fields_it_opens_and_no_other(spec):
    bound = BoundEnv(spec)
    form = form_of(bound)
    for task in bound.tasks.values():
        shown = [knob.name for group in form.opened(task) for knob in group.knobs]
        assert sorted(shown) == sorted(set(task.active_actions) - FREE_TEXT)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_knobs_that_nobody_touched_are_the_default_action(spec):
    bound = BoundEnv(spec)
    values = {
        knob.name: knob.default
        for group in form_of(bound).groups
        for knob in group.knobs
        if not knob.optional and knob is group.knobs[0]
    }
    assert bound.parse_action(values) == bound.action_model()


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_value_that_a_knob_offers_is_allowed(spec):
    bound = BoundEnv(spec)
    for group in form_of(bound).groups:
        for knob in group.knobs:
            offered = knob.options or (knob.low, knob.high) if knob.kind != "flag" else (True, False)
            for value in offered:
                bound.parse_action({knob.name: value})


def test_kinds_bounds_and_steps():
    serving = knobs_of("serving")
    assert (serving["kv_budget"].kind, serving["kv_budget"].step) == ("slider", 0.01)
    assert (serving["batch_size"].low, serving["batch_size"].high, serving["batch_size"].whole) == (
        1,
        512,
        True,
    )
    assert serving["prefill_disagg"].kind == "flag"
    assert serving["spec_length"].options == (0, 1, 2, 4, 8)
    assert serving["kv_budget"].label == "KV budget (0.1 to 1)"
    assert "Fraction of the deployable KV-cache pool" in serving["kv_budget"].info
    assert serving["kv_budget"].info.endswith("Default: 1.")


def test_of_two_spellings_the_one_with_names_is_shown():
    tier = knobs_of("serving")["quant_tier"]
    assert (tier.options, tier.default) == (("FP16", "INT8", "INT4"), "FP16")
    assert [option_label(name) for name in ("FP16", "scale_up", 4, True)] == ["FP16", "scale up", "4", "yes"]


@pytest.mark.parametrize(
    ("env", "together", "nothing"),
    [
        ("market", ("price", "change"), True),
        ("autoscaling", ("action", "target_replicas"), False),
    ],
)
def test_fields_that_exclude_each_other_are_alternatives(env: str, together: tuple[str, ...], nothing: bool):
    bound = BoundEnv(get_spec(env))
    (group,) = form_of(bound).opened(bound.task(bound.first_task))
    assert tuple(knob.name for knob in group.knobs) == together
    assert (group.chosen, group.nothing) == (True, nothing)


def test_fields_that_go_together_are_not_alternatives():
    for env in ("serving", "routing"):
        assert not any(group.chosen for group in form_of(BoundEnv(get_spec(env))).groups)


def test_bounds_and_place_come_from_the_observation():
    bound = BoundEnv(get_spec("market"))
    _, observation = bound.begin(bound.start("steady", 42, None, None))
    (group,) = form_of(bound).groups
    price, change = (knob.at(observation) for knob in group.knobs)
    assert (price.low, price.high, price.step) == (1.0, 7.0, 0.01)
    assert price.label == "Price (1 to 7)"
    assert price.initial(observation) == observation.model_dump()["price"]
    assert change.initial(observation) == 0.0
    assert group.initial(observation) == "price"


def test_a_target_starts_at_the_target_in_force():
    bound = BoundEnv(get_spec("autoscaling"))
    _, observation = bound.begin(bound.start(None, 42, None, None))
    (group,) = form_of(bound).groups
    assert group.knobs[1].initial(observation) == observation.model_dump()["replicas_target"]
    assert group.initial(observation) == "action"
