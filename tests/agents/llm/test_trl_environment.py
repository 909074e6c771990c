"""TRL's contract for environments, looked at from outside as its trainer does; TRL itself is not needed."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from agents.llm.trl_environment import ToolEnvironment, environment_class, grade_reward, training_rows
from grader.serving.grader import GRADER
from inferencegym import registry
from inferencegym.errors import EpisodeDoneError, EpisodeNotStartedError, InvalidValueError, UnknownNameError
from inferencegym.models.serving import ServeAction
from tests.server.conftest import make_app, serve
from tests.server.toy_env import SPEC as TOY


@pytest.fixture
def toy() -> Iterator[None]:
    registry.register(TOY)
    yield
    registry.unregister(TOY.id)


def tools_of(environment: object) -> dict[str, Any]:
    """Public methods but reset."""
    found = dict(inspect.getmembers(environment, inspect.ismethod))
    assert callable(found.pop("reset"))
    return {name: method for name, method in found.items() if not name.startswith("_")}


def schema_of(tool: Any) -> dict[str, Any]:
    """Arguments as a builder of tool schemas reads them: type hints, defaults, and a docstring's Args."""
    hints = get_type_hints(tool)
    assert hints.pop("return") is str
    text = inspect.getdoc(tool) or ""
    assert "Returns:" in text
    signature = inspect.signature(tool)
    assert set(signature.parameters) == set(hints)
    for name in hints:
        assert f"\n    {name}: " in text, f"{name} is not documented"
    return {name: (hints[name], parameter.default) for name, parameter in signature.parameters.items()}


def test_the_class_takes_no_arguments_and_shows_two_tools() -> None:
    environment = environment_class("serving")()
    assert set(tools_of(environment)) == {"set_knobs", "observe"}
    assert schema_of(environment.observe) == {}


def test_arguments_are_typed_and_have_the_models_defaults() -> None:
    schema = schema_of(tools_of(environment_class("serving")())["set_knobs"])
    assert schema["kv_budget"] == (float, 1.0)
    assert schema["batch_size"] == (int, 32)
    assert schema["prefill_disagg"] == (bool, False)
    assert schema["spec_length"] == (Literal[0, 1, 2, 4, 8], 0)
    assert schema["quant_tier"] == (Literal["FP16", "INT8", "INT4"], "FP16")
    defaults = {name: default for name, (_, default) in schema.items()}
    assert ServeAction.model_validate(defaults) == ServeAction()
    for hint, _ in schema.values():
        assert hint in (int, float, bool, str) or (get_origin(hint) is Literal and get_args(hint))


def test_reset_returns_the_task_and_ignores_other_columns() -> None:
    environment = environment_class("serving")()
    text = environment.reset(prompt="…", task_id="task2", seed=7, answer=None)
    for words in ("Bursty ShareGPT", "spec_length", "300 ms", "queue_depth = "):
        assert words in text
    assert text.endswith(environment.observe())
    assert "task1" in environment.reset()
    with pytest.raises(UnknownNameError, match="task3"):
        environment.reset(task_id="task33")


def test_an_episode_is_played_and_rewarded() -> None:
    environment = environment_class("serving", hold_steps=30)()
    assert "lasts 30 steps" in environment.reset(task_id="task3", seed=5)
    assert (environment.reward, environment.score, environment.done) == (0.0, 0.0, False)
    replies = []
    while not environment.done:
        replies.append(tools_of(environment)["set_knobs"](batch_size=128, quant_tier="INT8"))
    assert len(replies) == 7
    assert "170 steps left" in replies[0]
    assert "The episode is over." in replies[-1]
    actions = [{"batch_size": 128, "quant_tier": "INT8"}] * 200
    assert grade_reward([environment], prompts=[], task_id=["task3"]) == [
        GRADER.grade_replay("task3", 5, actions).score
    ]
    assert -1.0 <= environment.reward <= 1.0
    with pytest.raises(EpisodeDoneError, match="over"):
        tools_of(environment)["set_knobs"]()
    environment.reset(seed=5)
    assert (environment.reward, environment.steps, environment.done) == (0.0, 0, False)


def test_stopping_early_does_not_pay() -> None:
    short, whole = environment_class(hold_steps=20)(), environment_class(hold_steps=200)()
    for environment in (short, whole):
        environment.reset(task_id="task1", seed=1)
        tools_of(environment)["set_knobs"](batch_size=128)
    short_score, whole_score = grade_reward([short, whole])
    assert 0.0 < short_score <= 0.1
    assert whole_score > 0.5


@pytest.mark.parametrize(("values", "named"), [({"batch_size": 0}, "batch_size"), ({"speed": 1}, "speed")])
def test_a_bad_argument_is_told_and_costs_nothing(values: dict[str, Any], named: str) -> None:
    environment = environment_class("serving")()
    environment.reset(seed=1)
    before = environment.observe()
    with pytest.raises(ValueError, match=named):
        tools_of(environment)["set_knobs"](**values)
    assert (environment.observe(), environment.steps) == (before, 0)


def test_before_a_reset_it_says_so() -> None:
    environment = environment_class("serving")()
    with pytest.raises(EpisodeNotStartedError, match="reset"):
        environment.observe()
    assert grade_reward([environment]) == [0.0]


def test_any_environment(toy: None) -> None:
    environment: ToolEnvironment = environment_class("toy")()
    schema = schema_of(tools_of(environment)["set_knobs"])
    assert schema["mode"] == (Literal["walk", "run"], "walk")
    environment.reset(task_id="windy", seed=3)
    tools_of(environment)["set_knobs"](force=0.5)
    assert environment.steps == 1


def test_on_a_server_as_in_this_process() -> None:
    with serve(make_app(), timeout_graceful_shutdown=1) as url:
        here, there = environment_class(hold_steps=20)(), environment_class(hold_steps=20, base_url=url)()
        for environment in (here, there):
            environment.reset(task_id="task2", seed=9)
        for _ in range(3):
            replies = [tools_of(e)["set_knobs"](batch_size=100) for e in (here, there)]
            assert replies[0] == replies[1]
        assert here.score == there.score


def test_training_rows_hold_what_reset_takes() -> None:
    rows = training_rows("serving", seeds=range(3000, 3002))
    assert len(rows) == 6
    environment = environment_class("serving")()
    for row in rows:
        assert row["prompt"][0]["role"] == "user"
        environment.reset(**row)
    assert {row["seed"] for row in training_rows()}.isdisjoint(range(3000))


@pytest.mark.parametrize("task_id", ["", 0, False, 9, ["task1"], "task9"])
def test_a_task_that_is_none_is_not_the_first(task_id: Any) -> None:
    environment = environment_class("serving")()
    with pytest.raises((UnknownNameError, InvalidValueError), match="task_id"):
        environment.reset(task_id=task_id)
    with pytest.raises((UnknownNameError, InvalidValueError), match="task_id"):
        training_rows(task_ids=[task_id])
    assert "task1" in environment.reset(task_id=None, seed=None)


@pytest.mark.parametrize("seed", [1.9, True, "7", "x", math.nan, -1, 2**63, [1]])
def test_a_seed_is_never_converted(seed: Any) -> None:
    environment = environment_class("serving")()
    with pytest.raises(InvalidValueError, match="seed"):
        environment.reset(seed=seed)
    with pytest.raises(InvalidValueError, match="seeds"):
        training_rows(seeds=[3000, seed])


@pytest.mark.parametrize("task_ids", ["task1", "", [], ()])
def test_rows_need_a_list_of_tasks(task_ids: Any) -> None:
    with pytest.raises(InvalidValueError, match="task_ids"):
        training_rows(task_ids=task_ids)


@pytest.mark.parametrize("hold_steps", [0, -1, 1.5, True, "3", None, math.inf])
def test_hold_steps_are_a_whole_number(hold_steps: Any) -> None:
    with pytest.raises(InvalidValueError, match="hold_steps"):
        environment_class(hold_steps=hold_steps)


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidValueError, match="base_url"):
        environment_class(base_url="nowhere")
    with pytest.raises(UnknownNameError, match="serving"):
        environment_class("servin")
