"""The benchmark's report (its speed is nobody's business here)."""

from __future__ import annotations

import json

import pytest

from inferencegym.gym import benchmark


def test_the_report_has_both_doors_and_the_yardstick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "ppo_time_share", lambda: None)
    report = benchmark.measure(seconds=0.01, rounds=1, sizes=(2,))
    names = {"task1", "task2", "task3", "cartpole"}
    assert set(report["single_steps_per_s"]) == set(report["vector_2_env_steps_per_s"]) == names
    assert min(report["single_steps_per_s"].values()) > 0
    assert json.loads(json.dumps(report)) == report


def test_it_prints_one_json_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[float, int]] = []

    def measure(seconds: float, rounds: int) -> dict[str, int]:
        seen.append((seconds, rounds))
        return {"rate": 1}

    monkeypatch.setattr(benchmark, "measure", measure)
    monkeypatch.setattr("sys.argv", ["benchmark", "--seconds", "0.5", "--rounds", "2"])
    benchmark.main()
    assert json.loads(capsys.readouterr().out) == {"rate": 1}
    assert seen == [(0.5, 2)]


@pytest.mark.demo
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_shares_of_a_training_run_add_up() -> None:
    shares = benchmark.ppo_time_share(4096)
    assert shares is not None
    assert set(shares) == {"environment", "evaluation", "ppo"}
    assert sum(shares.values()) == pytest.approx(1.0, abs=0.01)
    assert min(shares.values()) > 0.0
