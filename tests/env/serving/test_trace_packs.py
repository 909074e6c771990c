"""Episodes with another trace pack: other physics, limits that follow the GPU, grades by its own anchors."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from env.serving.episode import make_env
from env.serving.tasks import TASKS, load_calibration
from grader.serving.anchors import anchors_of, measured_of
from grader.serving.grader import GRADER
from inferencegym.errors import InvalidValueError, UnknownNameError
from inferencegym.models.serving import ServeAction
from simulator.packs.on_offer import DEFAULT_PACK, SHIPPED

H100 = "h100_llama3_8b"


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A pack of the operator's: the H100's under another name."""
    path = tmp_path / "mine.parquet"
    shutil.copy(SHIPPED[H100], path)
    monkeypatch.setenv("INFERENCEGYM_TRACE_PACKS", str(tmp_path))
    return path


def play(task_id: str, pack: str | None, steps: int = 30, **action: Any) -> list[dict[str, Any]]:
    env = make_env(task_id, 5, {"trace_pack": pack})
    env.reset()
    return [env.step(ServeAction(**action))[3] for _ in range(steps)]


def test_another_gpu_gives_another_episode() -> None:
    slow, fast = play("task1", None, batch_size=64), play("task1", H100, batch_size=64)
    rate = [sum(info["metrics"]["tokens_per_sec"] for info in infos) for infos in (slow, fast)]
    assert rate[1] > 1.3 * rate[0]
    assert [infos[0]["settings"] for infos in (slow, fast)] == [
        {"trace_pack": DEFAULT_PACK},
        {"trace_pack": H100},
    ]


def test_memory_limits_are_shares_of_the_gpu() -> None:
    assert make_env("task2").memory_limit_gb == 36.0
    env = make_env("task2", config={"trace_pack": H100})
    assert env.memory_limit_gb == 72.0
    assert env.reward_function.memory_limit_gb == 72.0
    actions = [{"kv_budget": 0.5, "batch_size": 128}] * 200
    assert GRADER.grade_replay("task2", 1, actions, {"trace_pack": H100}).breakdown["memory"] == 1.0


@pytest.mark.parametrize("task_id", TASKS)
@pytest.mark.parametrize("pack", [name for name in SHIPPED if name != DEFAULT_PACK])
def test_shipped_packs_have_anchors_of_their_own(task_id: str, pack: str) -> None:
    measured = measured_of(pack, task_id)
    assert measured == load_calibration(pack)["tasks"][task_id]
    assert measured != measured_of(DEFAULT_PACK, task_id)
    assert measured["floor_tokens_per_s"] < measured["optimum_tokens_per_s"]
    replayed = GRADER.grade_replay(task_id, 0, [{}] * 200, {"trace_pack": pack})
    assert replayed.score == pytest.approx(measured["baseline_score"], rel=1e-9)


def test_a_log_is_graded_by_the_pack_that_it_names() -> None:
    infos = play("task1", H100, 200, batch_size=64)
    replayed = GRADER.grade_replay("task1", 5, [{"batch_size": 64}] * 200, {"trace_pack": H100})
    assert GRADER.grade_log("task1", [{"info": info} for info in infos]).score == replayed.score
    flat = [{name: info[name] for name in ("action", "metrics", "settings")} for info in infos]
    assert GRADER.grade_log("task1", flat).score == replayed.score
    unnamed = [{name: info[name] for name in ("action", "metrics")} for info in infos]
    assert GRADER.grade_log("task1", unnamed).score != replayed.score


def test_anchors_of_an_added_pack_are_measured_once_and_kept(mine: Path) -> None:
    anchors = anchors_of("mine", "task1")
    kept = json.loads(mine.with_suffix(".anchors.json").read_text())
    assert kept["tasks"]["task1"]["optimum_tokens_per_s"] == anchors.optimum_tokens_per_s
    # The same GPU: a quick sweep finds nearly what the long search found.
    assert anchors.optimum_tokens_per_s == pytest.approx(
        measured_of(H100, "task1")["optimum_tokens_per_s"], rel=0.05
    )
    assert anchors.memory_scale == 2.0
    assert 0.0 <= GRADER.grade_replay("task1", 0, [{}] * 20, {"trace_pack": "mine"}).score <= 1.0
    assert [path.name for path in sorted(mine.parent.iterdir())] == ["mine.anchors.json", "mine.parquet"]


def test_anchors_are_kept_for_the_pack_that_was_played(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = hashlib.sha256(mine.read_bytes()).hexdigest()
    play("task1", "mine", 1)
    # Built again meanwhile: this process goes on with what it has loaded.
    shutil.copy(SHIPPED["h200_llama3_8b"], mine)
    found = {"floor_tokens_per_s": 1.0, "optimum_tokens_per_s": 2.0, "max_tokens_per_s": 3.0}
    monkeypatch.setattr("grader.serving.anchors.quick_anchors", lambda *_: {**found, "baseline_score": 0.5})
    assert measured_of("mine", "task1")["optimum_tokens_per_s"] == 2.0
    assert json.loads(mine.with_suffix(".anchors.json").read_text())["sha256"] == played


@pytest.mark.parametrize("name", ["h100", "../x", "A100_llama3_8b"])
def test_an_unknown_pack_is_refused_with_near_matches(name: str) -> None:
    with pytest.raises(UnknownNameError, match="trace_pack"):
        make_env("task1", config={"trace_pack": name})


@pytest.mark.parametrize("value", [7, True, ["h100_llama3_8b"], "x" * 101])
def test_a_pack_must_be_text(value: Any) -> None:
    with pytest.raises(InvalidValueError, match="trace_pack"):
        make_env("task1", config={"trace_pack": value})
