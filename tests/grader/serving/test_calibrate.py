"""The committed anchors follow from the code, and the bands that they were calibrated to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from env.serving.tasks import ALL_TASKS, CALIBRATION_PATH, load_calibration
from grader.serving import calibrate
from grader.serving.calibrate import (
    BASELINE_SEED,
    CALIBRATION_SEEDS,
    UniformRandom,
    anchors,
    differences,
    main,
    play,
)
from grader.serving.grader import GRADER
from grader.serving.policies import Constant, policy_from_dict
from grader.serving.scoring import WEIGHTS
from inferencegym.models.serving import ServeAction
from simulator.packs.trace_sim import shared_simulator
from tests.grader.episodes import HELD_OUT, TASK_IDS

NUMBERS = ("floor_tokens_per_s", "optimum_tokens_per_s", "max_tokens_per_s", "baseline_score")


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_playing_the_stored_policies_again_gives_the_stored_anchors(task_id: str):
    stored = load_calibration()["tasks"][task_id]
    found = anchors(task_id, stored)
    assert found.keys() == set(NUMBERS)
    for name in NUMBERS:
        assert found[name] == pytest.approx(stored[name], rel=1e-9), name


def test_provenance():
    stored = load_calibration()
    pack = shared_simulator().table.metadata
    assert stored["made_by"] == "python -m grader.calibrate"
    assert stored["seeds"] == list(CALIBRATION_SEEDS)
    assert stored["score_weights"] == WEIGHTS
    assert stored["trace_pack"] == {"gpu": pack.gpu, "model": pack.model, "source": pack.source}
    assert set(CALIBRATION_SEEDS).isdisjoint({*HELD_OUT, BASELINE_SEED})


@pytest.mark.parametrize(
    ("task_id", "low", "high"), [("task1", 0.30, 0.40), ("task2", 0.22, 0.35), ("task3", 0.18, 0.30)]
)
def test_the_fixed_baseline_is_in_its_band(task_id: str, low: float, high: float):
    replayed = GRADER.grade_replay(task_id, BASELINE_SEED, [{}] * 200)
    assert low <= replayed.score <= high
    assert replayed.score == pytest.approx(load_calibration()["tasks"][task_id]["baseline_score"], rel=1e-9)


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_stored_policies_fit_the_gpu(task_id: str):
    from env.serving.episode import make_env

    env, stored = make_env(task_id), load_calibration()["tasks"][task_id]
    for name in ("best_static", "best_adaptive", "optimum_by"):
        described = stored[name]
        for part in ("action", "quiet", "busy"):
            if part in described:
                assert env.reserved_memory_gb(ServeAction.model_validate(described[part])) <= 40.0


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_anchors_are_in_order(task_id: str):
    stored = load_calibration()["tasks"][task_id]
    assert 0.0 < stored["floor_tokens_per_s"] < stored["optimum_tokens_per_s"] < stored["max_tokens_per_s"]


def test_play_is_what_the_grader_sees():
    policy = policy_from_dict(load_calibration()["tasks"]["task3"]["best_adaptive"])
    outcome = play("task3", policy, 3)
    actions = [{"batch_size": step.batch_size, "kv_budget": step.kv_budget} for step in outcome.steps]
    assert len(actions) == 200
    assert outcome.tokens_per_s == pytest.approx(sum(step.tokens_per_s for step in outcome.steps) / 200)
    assert -1.0 <= outcome.mean_reward <= 1.0
    again = play("task3", policy, 3)
    assert again == outcome


def test_uniform_random_covers_the_action_space():
    agent = UniformRandom(0)
    drawn = [agent.act(None) for _ in range(600)]
    assert {action.spec_length for action in drawn} == {0, 1, 2, 4, 8}
    assert {action.quant_tier for action in drawn} == {0, 1, 2}
    assert {action.prefill_disagg for action in drawn} == {False, True}
    assert min(action.batch_size for action in drawn) < 15
    assert max(action.batch_size for action in drawn) > 498
    assert min(action.kv_budget for action in drawn) < 0.12
    assert max(action.kv_budget for action in drawn) > 0.98
    same, other = UniformRandom(0), UniformRandom(1)
    assert [same.act(None) for _ in range(5)] == drawn[:5] != [other.act(None) for _ in range(5)]


def test_differences_are_named_by_path():
    stored: Any = {"a": {"b": 1.0, "c": [1, 2]}, "d": "x", "e": 0}
    assert differences(stored, {"a": {"b": 1.0 + 1e-12, "c": [1, 2]}, "d": "x", "e": 0}) == []
    found = differences(stored, {"a": {"b": 1.001, "c": [1, 3]}, "d": "y", "f": 1})
    assert [line.partition(":")[0] for line in found] == ["a.b", "a.c", "d", "e", "f"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A calibration that is not searched for, and a file of its own."""
    path = tmp_path / "calibration.json"
    monkeypatch.setattr(calibrate, "calibration_path", lambda pack: path)
    monkeypatch.setattr(calibrate, "calibrate", lambda workers, pack, tasks: load_calibration(pack))
    return path


def test_the_command_writes_the_file(small: Path, capsys: pytest.CaptureFixture[str]):
    assert main([]) == 0
    assert small.read_text() == CALIBRATION_PATH.read_text()
    printed = capsys.readouterr().out
    assert [line.split(":")[0] for line in printed.splitlines()] == list(ALL_TASKS)


def test_check_compares_and_writes_nothing(small: Path, capsys: pytest.CaptureFixture[str]):
    raw = load_calibration()
    small.write_text(json.dumps(raw))
    assert main(["--check"]) == 0
    assert "every anchor follows from the code" in capsys.readouterr().out
    wrong = json.loads(json.dumps(raw))
    wrong["tasks"]["task2"]["optimum_tokens_per_s"] += 1.0
    small.write_text(json.dumps(wrong))
    assert main(["--check"]) == 1
    assert "tasks.task2.optimum_tokens_per_s: committed" in capsys.readouterr().out
    assert json.loads(small.read_text()) == wrong


def test_the_baseline_is_the_default_action():
    assert Constant().action == ServeAction()
