"""The benchmark's report (its speed is nobody's business here)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from env.protocols import listed_tasks
from inferencegym.gym import benchmark
from inferencegym.registry import get_spec


@pytest.mark.parametrize(("env", "tasks"), [("serving", None), ("routing", ["task_1", "stream_3"])])
def test_the_report_has_both_doors_and_the_yardstick(
    monkeypatch: pytest.MonkeyPatch, env: str, tasks: list[str] | None
) -> None:
    monkeypatch.setattr(benchmark, "ppo_time_share", lambda *_task: None)
    report = benchmark.measure(seconds=0.01, rounds=1, sizes=(2,), env=env, tasks=tasks)
    names = {*(tasks or listed_tasks(get_spec(env).part("tasks"))), "cartpole"}
    assert set(report["single_steps_per_s"]) == set(report["vector_2_env_steps_per_s"]) == names
    assert min(report["single_steps_per_s"].values()) > 0
    assert json.loads(json.dumps(report)) == report


def test_it_prints_one_json_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[Any, ...]] = []

    def measure(seconds: float, rounds: int, env: str, tasks: Any) -> dict[str, int]:
        seen.append((seconds, rounds, env, tasks))
        return {"rate": 1}

    monkeypatch.setattr(benchmark, "measure", measure)
    monkeypatch.setattr("sys.argv", ["benchmark", "--seconds", "0.5", "--rounds", "2", "--env", "routing"])
    benchmark.main()
    assert json.loads(capsys.readouterr().out) == {"rate": 1}
    assert seen == [(0.5, 2, "routing", None)]


@pytest.mark.demo
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_shares_of_a_training_run_add_up() -> None:
    shares = benchmark.ppo_time_share(steps=4096)
    assert shares is not None
    assert set(shares) == {"environment", "evaluation", "ppo"}
    assert sum(shares.values()) == pytest.approx(1.0, abs=0.01)
    assert min(shares.values()) > 0.0
