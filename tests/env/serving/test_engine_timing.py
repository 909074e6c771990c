"""Episodes under another engine timing: other physics, named in replies, graded by its own anchors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from env.serving.episode import make_env
from env.serving.tasks import ALL_TASKS, TASKS, calibrated, get_task, load_calibration
from grader.serving.anchors import anchors_of, measured_of
from grader.serving.calibrate import anchors
from grader.serving.grader import GRADER
from inferencegym.errors import InvalidValueError
from inferencegym.models.serving import EngineTiming
from simulator.packs.on_offer import DEFAULT_PACK, SHIPPED
from simulator.serving.timing import ENGINE_TIMINGS

MIXED = {"engine_timing": "mixed_batch"}
RECORDED = [task_id for task_id in ALL_TASKS if task_id not in TASKS]


def play(task_id: str, config: dict[str, Any] | None, steps: int = 30, **action: Any) -> list[dict[str, Any]]:
    env = make_env(task_id, 5, config)
    env.reset()
    return [env.step(action)[3] for _ in range(steps)]


def other_than(timing: EngineTiming) -> EngineTiming:
    (other,) = (one for one in ENGINE_TIMINGS if one != timing)
    return other


@pytest.mark.parametrize("task_id", TASKS)
def test_the_three_are_additive_and_do_not_say_so(task_id: str) -> None:
    usual = play(task_id, None)
    assert usual == play(task_id, {"engine_timing": "additive"})
    assert usual[0]["settings"] == {"trace_pack": DEFAULT_PACK}
    assert make_env(task_id).engine_timing == "additive"


@pytest.mark.parametrize("task_id", RECORDED)
def test_recorded_traffic_is_served_in_mixed_batches(task_id: str) -> None:
    usual = play(task_id, None)
    assert usual == play(task_id, MIXED)
    assert usual[0]["settings"] == {"trace_pack": DEFAULT_PACK, **MIXED}
    assert usual != play(task_id, {"engine_timing": "additive"})


def test_mixed_batches_read_the_weights_once() -> None:
    """A busy engine decodes faster when prompts do not read the weights for themselves."""
    additive, mixed = (play("task1", {"engine_timing": one}, batch_size=128) for one in ENGINE_TIMINGS)
    rate = [sum(info["metrics"]["tokens_per_sec"] for info in infos[10:]) for infos in (additive, mixed)]
    assert 1.02 < rate[1] / rate[0] < 1.3


@pytest.mark.parametrize("pack", SHIPPED)
@pytest.mark.parametrize("task_id", ALL_TASKS)
def test_anchors_of_every_timing_come_with_the_project(task_id: str, pack: str) -> None:
    own = get_task(task_id).engine_timing
    assert calibrated(pack, task_id, own) == load_calibration(pack)["tasks"][task_id]
    found = calibrated(pack, task_id, other_than(own))
    assert found is not None
    assert found != calibrated(pack, task_id, own)
    if task_id in TASKS:  # the others are not scored on throughput
        assert 0.0 < found["floor_tokens_per_s"] < found["optimum_tokens_per_s"] < found["max_tokens_per_s"]
    assert measured_of(pack, task_id, other_than(own)) == found


@pytest.mark.parametrize("task_id", ["task1", "azure-code"])
def test_playing_the_stored_policies_again_gives_the_stored_anchors(task_id: str) -> None:
    timing = other_than(get_task(task_id).engine_timing)
    stored = measured_of(DEFAULT_PACK, task_id, timing)
    for name, value in anchors(task_id, stored, timing=timing).items():
        assert value == pytest.approx(stored[name], rel=1e-9), name


@pytest.mark.parametrize("task_id", ["task1", "azure-conversation"])
@pytest.mark.parametrize("timing", ENGINE_TIMINGS)
def test_a_log_is_graded_by_the_timing_that_it_names(task_id: str, timing: EngineTiming) -> None:
    config = {"engine_timing": timing}
    infos = play(task_id, config, 200, batch_size=64)
    replayed = GRADER.grade_replay(task_id, 5, [{"batch_size": 64}] * 200, config)
    assert GRADER.grade_log(task_id, [{"info": info} for info in infos]).feedback == replayed.feedback
    assert make_env(task_id, 5, config).reward_function.max_tokens_per_s == pytest.approx(
        measured_of(DEFAULT_PACK, task_id, timing)["max_tokens_per_s"]
    )
    # Without settings a log was played as the task is by itself.
    unnamed = [{name: info[name] for name in ("action", "metrics")} for info in infos]
    same = GRADER.grade_log(task_id, unnamed).feedback == replayed.feedback
    assert same == (timing == get_task(task_id).engine_timing)


def test_a_log_of_a_timing_that_is_none_is_refused() -> None:
    info = {**play("task1", None, 1)[0], "settings": {"trace_pack": DEFAULT_PACK, "engine_timing": "none"}}
    with pytest.raises(InvalidValueError, match="additive or mixed_batch"):
        GRADER.grade_log("task1", [{"info": info}])


def test_a_snapshot_goes_back_to_its_own_timing_only() -> None:
    env, other = make_env("task3", 1, MIXED), make_env("task3", 1)
    env.reset()
    for _ in range(40):
        env.step({"batch_size": 64})
    kept = env.snapshot()
    future = [env.step({"batch_size": 96})[1] for _ in range(20)]
    env.restore(kept)
    assert [env.step({"batch_size": 96})[1] for _ in range(20)] == future
    other.reset()
    with pytest.raises(InvalidValueError, match="engine_timing"):
        other.restore(kept)


def test_anchors_of_an_added_pack_are_kept_by_timing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "mine.parquet"
    shutil.copy(SHIPPED[DEFAULT_PACK], path)
    monkeypatch.setenv("INFERENCEGYM_TRACE_PACKS", str(tmp_path))
    optimum = [anchors_of("mine", "task1", timing).optimum_tokens_per_s for timing in ENGINE_TIMINGS]
    assert optimum[0] < optimum[1]
    kept = json.loads(path.with_suffix(".anchors.json").read_text())["tasks"]
    assert [kept[key]["optimum_tokens_per_s"] for key in ("task1", "task1 mixed_batch")] == optimum


@pytest.mark.parametrize("value", ["mixed", "", 1, True, ["additive"]])
def test_a_timing_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(InvalidValueError, match="engine_timing"):
        make_env("task1", config={"engine_timing": value})
