"""Controllers against the worked examples of their documentation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agents.autoscaling.agents import AGENTS, STATIC_REPLICAS
from agents.autoscaling.controllers import (
    HPA,
    KPA,
    Constant,
    Forecast,
    RandomMoves,
    Saturation,
    Threshold,
    hpa_replicas,
)
from agents.autoscaling.oracle import Oracle, plan_schedule, required_replicas
from agents.studies import autoscaling_static
from env.autoscaling.episode import fleet_simulator
from env.autoscaling.tasks import TASKS, get_autoscaling_task
from inferencegym.models.autoscaling import AutoscalingAction, AutoscalingObservation
from simulator.autoscaling.plan import INTERVAL_S
from tests.agents.autoscaling.scenarios import play, quick_env


def seen(**changes: Any) -> AutoscalingObservation:
    """An observation of a quiet fleet of ten, with changes."""
    first = quick_env("balanced").reset().model_dump()
    calm = {
        "latency": 0.5,
        "cpu": 0.7,
        "cpu_steady": 0.7,
        "traffic": 0.7,
        "queue_depth": 0,
        "replicas_ready": 10,
        "replicas_target": 10,
        "concurrency": 400.0,
        "concurrency_6s": 400.0,
        "kv_occupancy": 0.4,
        "arrival_rate_rps": 50.0,
    }
    return AutoscalingObservation.model_validate({**first, **calm, **changes})


def total(action: AutoscalingAction) -> int | None:
    return action.target_replicas


# --- Kubernetes ---


@pytest.mark.parametrize(
    ("ready", "unready", "utilisation", "target", "wanted"),
    [
        (50, 0, 90.0, 75.0, 60),  # the example of the documentation
        (10, 0, 200.0, 100.0, 20),  # "if the current metric value is 200m, and the desired value is 100m"
        (10, 0, 50.0, 100.0, 5),
        (10, 0, 109.0, 100.0, 10),  # within the tolerance of 10 %
        (10, 0, 91.0, 100.0, 10),
        (10, 0, 111.0, 100.0, 12),
        (10, 0, 89.0, 100.0, 9),
        (4, 4, 150.0, 75.0, 8),  # those that start will carry it: 2.0 is damped to 1.0
        (4, 2, 150.0, 75.0, 8),  # damped to 1.33
        (4, 12, 150.0, 75.0, 16),  # damped below 1: no change of direction
        (4, 2, 30.0, 75.0, 2),  # down: those that start do not hold it up
        (0, 3, 0.0, 75.0, 3),  # nothing to measure
    ],
)
def test_hpa_computes_the_documented_numbers(
    ready: int, unready: int, utilisation: float, target: float, wanted: int
) -> None:
    assert hpa_replicas(ready + unready, ready, unready, utilisation, target) == wanted


def test_hpa_goes_up_by_its_limit_at_most() -> None:
    assert total(HPA(0.5).act(seen(replicas_ready=2, replicas_target=2, cpu=1.0, cpu_steady=1.0))) == 4
    small = HPA(0.1)
    assert total(small.act(seen(replicas_ready=2, replicas_target=2, cpu=1.0))) == 6  # + 4 pods
    assert total(small.act(seen(replicas_ready=6, replicas_target=6, cpu=1.0))) == 12  # + 100 %


def test_hpa_goes_down_to_the_highest_recommendation_of_300_seconds() -> None:
    hpa = HPA(0.75)
    assert total(hpa.act(seen(cpu=0.74))) == 10
    for _ in range(19):
        assert total(hpa.act(seen(cpu=0.3))) == 10
    assert total(hpa.act(seen(cpu=0.3))) == 4
    hpa.reset()
    assert total(hpa.act(seen(cpu=0.3))) == 4


@pytest.mark.parametrize("make", [HPA, KPA, Saturation, Forecast, Threshold])
def test_a_missing_metric_is_never_read_as_no_load(make: Any) -> None:
    controller = make()
    controller.reset()
    controller.act(seen())
    for _ in range(60):
        action = controller.act(
            seen(metrics_missing=True, cpu=0.0, cpu_steady=0.0, concurrency=0.0, traffic=0.0)
        )
        assert action == AutoscalingAction()


# --- Knative ---


def test_kpa_follows_the_mean_of_60_seconds() -> None:
    kpa = KPA(limit=100.0, utilisation=0.7)
    assert total(kpa.act(seen(concurrency=700.0, concurrency_6s=700.0))) == 10
    assert total(kpa.act(seen(concurrency=1300.0, concurrency_6s=1300.0))) == 15  # (700 + 1300) / 2 / 70
    for _ in range(4):
        last = kpa.act(seen(concurrency=1050.0, concurrency_6s=1050.0))
    assert total(last) == 15
    assert not kpa.panicking


def test_kpa_panics_at_twice_the_ready_replicas_and_does_not_go_down_before_60_calm_seconds() -> None:
    kpa = KPA(limit=100.0, utilisation=0.7)
    kpa.act(seen(concurrency=700.0, concurrency_6s=700.0))
    assert total(kpa.act(seen(concurrency=800.0, concurrency_6s=1401.0))) == 21
    assert kpa.panicking
    for _ in range(4):
        assert total(kpa.act(seen(concurrency=300.0, concurrency_6s=300.0))) == 21
        assert kpa.panicking
    calm = kpa.act(seen(concurrency=300.0, concurrency_6s=300.0))
    assert not kpa.panicking
    assert total(calm) == 5


def test_kpa_goes_down_to_half_of_the_ready_replicas_at_most() -> None:
    kpa = KPA(limit=100.0, utilisation=0.7)
    assert total(kpa.act(seen(concurrency=10.0, concurrency_6s=10.0))) == 5


# --- the others ---


def test_saturation_moves_at_its_lines_and_waits_for_pending_replicas() -> None:
    rule = Saturation()
    assert rule.act(seen(kv_occupancy=0.71)).action == "scale_up"
    assert rule.act(seen(kv_occupancy=0.65)).action == "no_op"
    assert rule.act(seen(kv_occupancy=0.4)).action == "scale_down"
    assert rule.act(seen(kv_occupancy=0.4, queue_depth=21)).action == "scale_up"
    assert rule.act(seen(kv_occupancy=0.9, replicas_pending=1)).action == "no_op"


def test_threshold_pauses_after_a_change() -> None:
    rule = Threshold()
    moves = [rule.act(seen(cpu=0.95)).action for _ in range(5)]
    assert moves == ["scale_up", "no_op", "no_op", "no_op", "scale_up"]


def test_forecast_orders_for_a_rise_before_it_is_there() -> None:
    forecast = Forecast()
    for rate in range(40, 60):
        action = forecast.act(seen(arrival_rate_rps=float(rate), traffic=rate / 74.0))
    now = int(np.ceil(59 / (0.82 * 7.4)))
    assert total(action) is not None
    assert total(action) > now


def test_random_moves_follow_the_seed() -> None:
    def moves(seed: int) -> list[str]:
        agent = RandomMoves(seed)
        return [agent.act(seen()).action for _ in range(20)]

    assert moves(1) == moves(1) != moves(2)


# --- the oracle ---


def by_hand(required: np.ndarray, first: int, start_cost: float, most: int) -> float:
    """Cheapest cost by trying every schedule."""
    best = {first: 0.0}
    for least in required.tolist():
        nxt: dict[int, float] = {}
        for before, cost in best.items():
            for now in range(least, most + 1):
                paid = cost + INTERVAL_S * now + start_cost * max(0, now - before)
                nxt[now] = min(nxt.get(now, np.inf), paid)
        best = nxt
    return min(best.values())


def test_the_plan_is_the_cheapest_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        required = rng.integers(1, 5, size=25)
        schedule, cost = plan_schedule(required, 3, 60.0, 0.0)
        assert (schedule >= required).all()
        assert cost == pytest.approx(by_hand(required, 3, 60.0, 6))


def test_the_graders_anchor_is_the_cost_of_the_cheapest_plan() -> None:
    """What the simulator adds up interval by interval is what dynamic programming finds for the whole."""
    for task_id, seed in (("balanced", 1), ("high_traffic", 2), ("failure_heavy", 3)):
        simulator = fleet_simulator(task_id)
        plan = simulator.plan(seed)
        _, cost = plan_schedule(
            required_replicas(simulator, plan), plan.initial_replicas, simulator.rules.mean_cold_start_s, 0.0
        )
        course = play(Constant(), quick_env(task_id, seed))
        assert course.column("cheapest_replica_seconds").sum() == pytest.approx(cost)


@pytest.mark.parametrize("task_id", [task_id for task_id, task in TASKS.items() if task.listed])
def test_the_oracle_passes_and_no_constant_does(task_id: str) -> None:
    for seed in (100, 101, 102):
        oracle = play(Oracle(task_id, seed), quick_env(task_id, seed))
        assert oracle.passed
        line = get_autoscaling_task(task_id).line
        assert line is not None
        assert oracle.score > line.score + 0.05
        constants = [Constant(AutoscalingAction(target_replicas=total)) for total in range(1, 25)]
        moves = [Constant(AutoscalingAction(action=move)) for move in ("scale_down", "no_op", "scale_up")]
        for constant in (*constants, *moves):
            course = play(constant, quick_env(task_id, seed))
            assert not course.passed, constant.action
            assert course.score < oracle.score
        assert not play(RandomMoves(seed), quick_env(task_id, seed)).passed


def test_every_agent_but_the_paid_one_can_be_made_for_every_listed_task() -> None:
    assert set(STATIC_REPLICAS) == {task_id for task_id, task in TASKS.items() if task.listed}
    for name, factory in AGENTS.items():
        if name not in ("llm", "ppo"):
            assert factory("balanced", 1) is not None


def test_the_command_for_constants_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        autoscaling_static.main(["--help"])
    assert left.value.code == 0
    assert "--task" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        autoscaling_static.main(["--task", "balancd"])
