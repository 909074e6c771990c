"""Workload configurations: the task definitions as shipped, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from inferencegym.errors import InvalidValueError, UnknownNameError
from simulator.serving.traffic.config import WORKLOAD_CONFIG_PATH, get_workload, load_workloads
from tests.simulator.engines import workload


def test_task_1_is_the_contract_s():
    task = get_workload("task1")
    assert (task.arrivals.rate_rps, task.arrivals.burst_s) == (10.0, 0)
    assert (task.prompts.kind, task.prompts.low, task.prompts.high) == ("uniform", 64, 128)
    assert (task.primary_slo_ms, task.base_acceptance_rate) == (500.0, 0.80)
    assert task.memory_limit_gb is None


def test_task_2_is_the_contract_s():
    task = get_workload("task2")
    assert (task.arrivals.rate_rps, task.arrivals.burst_rps, task.arrivals.period_s) == (25.0, 80.0, 30)
    prompts = task.prompts
    assert (prompts.kind, prompts.mu, prompts.sigma) == ("lognormal", 5.2, 1.3)
    assert (prompts.low, prompts.high) == (32, 8192)
    assert (task.primary_slo_ms, task.memory_limit_gb) == (300.0, 36.0)
    assert task.base_acceptance_rate == 0.65


def test_task_3_is_the_contract_s():
    task = get_workload("task3")
    arrivals = task.arrivals
    assert (arrivals.rate_rps, arrivals.burst_rps) == (30.0, 300.0)
    assert (arrivals.burst_s, arrivals.period_s) == (15, 120)
    assert task.long_prompts is not None
    assert (task.prompts.low, task.prompts.high) == (32, 128)
    assert (task.long_prompts.low, task.long_prompts.high) == (4096, 8192)
    assert task.class_mix == (0.2, 0.5, 0.3)
    long_share = sum(mix * share for mix, share in zip(task.class_mix, task.long_share_by_class, strict=True))
    assert long_share == pytest.approx(0.30)
    assert task.ttft_slo_ms == (200.0, 2000.0, None)
    assert task.slo_ms[2] > 1e9
    assert (task.memory_limit_gb, task.cost_budget, task.base_acceptance_rate) == (38.0, 5.0, 0.45)


def test_an_unknown_task_is_answered_with_near_ones():
    with pytest.raises(UnknownNameError, match="Did you mean task"):
        get_workload("tsk1")


@pytest.mark.parametrize(
    "changes",
    [
        {"replicas": 0},
        {"base_acceptance_rate": 1.0},
        {"class_mix": (0.5, 0.2, 0.2)},
        {"prompts": {"low": 10, "high": 9}},
        {"prompts": {"low": 0, "high": 9}},
        {"outputs": {"kind": "normal", "low": 1, "high": 9}},
        {"arrivals": {"rate_rps": 0.0}},
        {"arrivals": {"rate_rps": float("nan")}},
        {"arrivals": {"rate_rps": float("inf")}},
        {"surprise": 1},
    ],
)
def test_what_makes_no_workload_is_refused(changes: dict[str, Any]):
    with pytest.raises(ValidationError):
        workload(**changes)


def test_a_bad_file_is_named_with_task_and_field(tmp_path: Path):
    raw = json.loads(WORKLOAD_CONFIG_PATH.read_text())
    raw["task2"]["prompts"]["sigma"] = -1.0
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(InvalidValueError, match=r"mine\.json: task2\.prompts\.sigma: -1\.0"):
        load_workloads(path)
