"""Agents on the reference engine: graded like any episode, and ranked as on the fast one."""

from __future__ import annotations

import pytest

from agents.studies.reference_ranking import main, make_reference_env, rows
from env.serving.episode import make_env
from inferencegym.models.serving import ServeObservation


def test_the_reference_serves_an_episode():
    env, fast = make_reference_env("task3", 5), make_env("task3", 5)
    assert ServeObservation.model_validate(env.reset().model_dump())
    fast.reset()
    arrived = finished = dropped = 0
    for _ in range(60):
        _, reward, _, info = env.step({"batch_size": 96, "prefill_disagg": True, "spec_length": 1})
        _, _, _, other = fast.step({"batch_size": 96, "prefill_disagg": True, "spec_length": 1})
        assert -1.0 <= reward <= 1.0
        requests = info["requests"]
        assert requests["arrived"] == other["requests"]["arrived"]
        arrived, finished, dropped = (
            total + requests[name]
            for total, name in ((arrived, "arrived"), (finished, "finished"), (dropped, "dropped"))
        )
    assert finished > 50
    # Second 0 is served before the first step.
    assert 0 <= finished + dropped + requests["waiting"] + requests["running"] - arrived <= 10


def test_reacting_beats_the_baseline_on_both():
    ((_, truer_base), (fast, truer)) = rows(["task3"], ["baseline", "reactive"], [100])
    assert fast.agent == truer.agent == "reactive"
    assert truer.score.value > truer_base.score.value + 0.3
    assert truer.score.value == pytest.approx(fast.score.value, abs=0.05)


def test_the_command_prints_a_row_an_agent(capsys: pytest.CaptureFixture[str]):
    assert main(["--seeds", "100,101", "--tasks", "task2", "--agents", "baseline", "static"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[3].startswith("| task2 | `static` | 0.8")
