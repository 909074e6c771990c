"""The evolved policy: what it may do, that both ways to play it agree, and how it is made."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from agents.registry import get_agent
from agents.serving.evolved import (
    FIRST_TRAINING_SEED,
    VALIDATE_EVERY,
    VALIDATION_SEEDS,
    Settings,
    command,
    evolve,
    main,
)
from agents.serving.evolved_policy import (
    KNOBS,
    EvolvedAgent,
    EvolvedPolicy,
    load_agent,
    parameter_count,
    parameters_of,
    stored_path,
)
from agents.serving.traffic_memory import COLUMNS
from env.serving.episode import make_env
from env.serving.tasks import TASKS, load_calibration
from grader.serving.calibrate import CALIBRATION_SEEDS, play
from grader.serving.policies import policy_from_dict
from grader.serving.scoring import Anchors, score_steps
from inferencegym.errors import InferenceGymError, InvalidValueError, UnknownNameError
from inferencegym.models.serving import ServeAction

HELD_OUT = {0, *range(100, 200), *CALIBRATION_SEEDS}


def grade(task_id: str, agent: object, seed: int) -> float:
    measured = load_calibration()["tasks"][task_id]
    anchors = Anchors(measured["floor_tokens_per_s"], measured["optimum_tokens_per_s"])
    return score_steps(task_id, play(task_id, agent, seed).steps, 200, anchors)[0]


@pytest.mark.parametrize("task_id", TASKS)
def test_any_parameters_give_valid_actions_that_fit(task_id: str) -> None:
    rng = np.random.default_rng(5)
    policy = EvolvedPolicy(task_id, 3.0 * rng.standard_normal((64, parameter_count(task_id))))
    env, limit_gb = make_env(task_id), {"task1": 40.0, "task2": 36.0, "task3": 38.0}[task_id]
    for second in range(20):
        seen = np.abs(rng.standard_normal((64, len(COLUMNS)))) * [100, 500, 30, 0.3, 500, 50, 0.3]
        for row in policy.act(np.maximum(seen, [0, 32, 0, 0, 0, 0, 0]), second).tolist():
            values = dict(zip(KNOBS, row, strict=True))
            values["prefill_disagg"] = bool(values["prefill_disagg"])
            action = ServeAction.model_validate(values)
            assert env.reserved_memory_gb(action) <= limit_gb or action.kv_budget == 0.1


@pytest.mark.parametrize("task_id", TASKS)
@pytest.mark.parametrize("kind", ["best_static", "best_adaptive"])
def test_the_search_starts_from_what_calibration_found(task_id: str, kind: str) -> None:
    policy = policy_from_dict(load_calibration()["tasks"][task_id][kind])
    agent = EvolvedAgent(task_id, parameters_of(task_id, policy).tolist())
    env = make_env(task_id, 3000)
    observation = env.reset()
    policy.reset()
    while not env.done:
        wanted, action = policy.act(observation), agent.act(observation)
        assert ServeAction.model_validate(action.model_dump()) == action
        assert action.batch_size == pytest.approx(wanted.batch_size, rel=0.02)
        for name in ("spec_length", "prefill_disagg", "quant_tier"):
            assert getattr(action, name) == getattr(wanted, name)
        if kind == "best_adaptive":  # others may reserve more than the grade rewards
            assert action.kv_budget == pytest.approx(wanted.kv_budget, abs=0.04)
        observation = env.step(action)[0]


@pytest.mark.parametrize("task_id", TASKS)
def test_the_arena_plays_and_grades_as_single_episodes_do(task_id: str) -> None:
    pytest.importorskip("numba")
    from agents.serving.arena import Arena

    rng = np.random.default_rng(1)
    start = parameters_of(task_id, policy_from_dict(load_calibration()["tasks"][task_id]["best_adaptive"]))
    parameters = start + 0.2 * rng.standard_normal((2, len(start)))
    grades, rewards = Arena(task_id, threads=2).play(parameters, [3000, 3001, 3002])
    assert grades.shape == rewards.shape == (2, 3)
    for row, numbers in enumerate(parameters.tolist()):
        for column, seed in enumerate((3000, 3001, 3002)):
            agent = EvolvedAgent(task_id, numbers)
            assert grades[row, column] == pytest.approx(grade(task_id, agent, seed), abs=1e-9)
            agent.reset()
            assert rewards[row, column] == pytest.approx(play(task_id, agent, seed).mean_reward, abs=1e-9)


@pytest.mark.parametrize("task_id", TASKS)
def test_the_committed_policies_say_how_they_were_made(task_id: str) -> None:
    stored = json.loads(stored_path(task_id).read_text())
    settings = Settings(**stored["settings"])
    assert stored["made_by"] == command(settings)
    first, last = stored["training_seeds"]
    assert (first, last) == (FIRST_TRAINING_SEED, settings.training_seeds(settings.generations - 1)[-1])
    assert not HELD_OUT & {*range(first, last + 1), *range(*stored["validation_seeds"])}
    assert stored["validation_grade"] >= stored["validation_grade_of_the_start"]
    assert len(stored["parameters"]) == parameter_count(task_id)
    assert stored_path(task_id).stat().st_size < 10_000
    agent = get_agent("serving", "evolved", task_id)
    assert grade(task_id, agent, 3000) == grade(task_id, agent, 3000)


@pytest.mark.parametrize(("task_id", "least"), [("task1", 0.85), ("task3", 0.60)])
def test_the_aims_are_met_on_held_out_seeds(task_id: str, least: float) -> None:
    assert np.mean([grade(task_id, load_agent(task_id), seed) for seed in range(100, 106)]) >= least


@pytest.mark.parametrize("task_id", ["task2", "task3"])
def test_it_beats_the_best_static_setting_on_held_out_seeds(task_id: str) -> None:
    gains = [
        grade(task_id, load_agent(task_id), seed)
        - grade(task_id, get_agent("serving", "static", task_id), seed)
        for seed in range(100, 112)
    ]
    assert np.mean(gains) > 2.0 * np.std(gains, ddof=1) / np.sqrt(len(gains))


def test_training_is_reproducible_and_uses_no_held_out_seed() -> None:
    pytest.importorskip("cma")
    settings = Settings("task1", generations=2, population=4, seeds=2)
    first, second = (evolve(settings, threads) for threads in (1, 2))
    assert first == second
    assert first["settings"]["generations"] == 2
    assert not HELD_OUT & {*settings.training_seeds(0), *settings.training_seeds(249), *VALIDATION_SEEDS}


def test_time_ends_a_search_where_a_number_of_generations_would() -> None:
    pytest.importorskip("cma")
    fields = {"task": "task1", "population": 4, "seeds": 1}
    timed = evolve(Settings(**fields, minutes=1e-9))  # type: ignore[arg-type]
    counted = evolve(Settings(**fields, generations=VALIDATE_EVERY))  # type: ignore[arg-type]
    assert timed["settings"]["generations"] == VALIDATE_EVERY
    assert timed["parameters"] == counted["parameters"]


def test_the_command_writes_its_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cma")
    output = tmp_path / "new" / "policy.json"
    words = ["--task", "task2", "--generations", "1", "--population", "4", "--seeds", "1"]
    assert main([*words, "--output", str(output)]) == 0
    assert "1 generations" in capsys.readouterr().out
    stored = json.loads(output.read_text())
    assert EvolvedAgent("task2", stored["parameters"]).act(make_env("task2").reset())


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"task": "task4"}, "task_id"),
        ({"generations": 0}, "generations"),
        ({"population": 2}, "population"),
        ({"sigma": 0.0}, "sigma"),
        ({"minutes": float("nan")}, "minutes"),
        ({"generations": 10**6, "seeds": 100}, "seeds"),
    ],
)
def test_bad_settings_are_named(fields: dict[str, object], named: str) -> None:
    with pytest.raises((InvalidValueError, UnknownNameError), match=named):
        Settings(**{"task": "task1", **fields})  # type: ignore[arg-type]


def test_a_missing_or_outdated_policy_says_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "policy.json"
    monkeypatch.setattr("agents.serving.evolved_policy.stored_path", lambda _: path)
    with pytest.raises(InferenceGymError, match=r"python -m agents\.serving\.evolved --task task1"):
        load_agent("task1")
    path.write_text('{"inputs": ["bias"], "parameters": [0.0]}')
    with pytest.raises(InferenceGymError, match="other inputs"):
        load_agent("task1")


def test_parameters_are_checked() -> None:
    with pytest.raises(InvalidValueError, match="parameters"):
        EvolvedAgent("task1", [0.0, 1.0])
    with pytest.raises(InvalidValueError, match="parameters"):
        EvolvedAgent("task1", [float("nan")] * parameter_count("task1"))
