"""Each scenario brings out its fault in a naive controller, and not in a sound one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agents.autoscaling.controllers import HPA, Forecast, Threshold
from agents.autoscaling.naive import ByHand, CountsSurge, ForgetsPending, ReadsNothingAsZero
from env.autoscaling.tasks import TASKS
from inferencegym.models.autoscaling import SCENARIOS
from tests.agents.autoscaling.scenarios import Course, play, quick_env

SEEDS = (3, 4, 5)


def courses(make_agent: Any, scenario: str, seed: int) -> Course:
    return play(make_agent(), quick_env(scenario, seed))


def highest(course: Course, first: int = 0, last: int = 240) -> int:
    return int(course.column("replicas_target")[first:last].max())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_startup_spike_provokes_further_scale_ups(seed: int) -> None:
    """The same controller, once on cpu and once on cpu without the replicas that have just started."""
    naive = courses(HPA, "startup_cpu_spike", seed)
    sound = courses(lambda: HPA(metric="cpu_steady"), "startup_cpu_spike", seed)
    assert max(seen.cpu - seen.cpu_steady for seen in sound.observations) > 0.3
    assert highest(naive) == 24 > 1.2 * highest(sound)
    assert naive.column("replica_seconds").sum() > 1.1 * sound.column("replica_seconds").sum()


@pytest.mark.parametrize("seed", SEEDS)
def test_pending_replicas_that_are_forgotten_are_ordered_again_and_again(seed: int) -> None:
    """Once more on the first replica's way: orders grow while nothing of the first has arrived."""
    naive = courses(ForgetsPending, "pending_ignored", seed)
    sound = courses(HPA, "pending_ignored", seed)
    assert orders_before_the_first_arrives(naive) >= 4
    assert highest(naive) == 24 > 1.2 * highest(sound)
    assert sound.score > naive.score


def orders_before_the_first_arrives(course: Course) -> int:
    """Intervals of the surge in which the target grew, up to the first new replica."""
    change, ready = course.column("target_change"), course.column("replicas_ready")
    first = 32 + int(np.flatnonzero(change[32:] > 0)[0])
    arrival = first + int(np.flatnonzero(np.diff(ready[first:]) > 0)[0])
    return int((change[first:arrival] > 0).sum())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_metrics_outage_scales_a_naive_controller_to_the_minimum(seed: int) -> None:
    naive = courses(ReadsNothingAsZero, "metrics_outage", seed)
    first, last = 63, 98
    assert all(seen.metrics_missing for seen in naive.observations[first:last])
    assert naive.column("replicas_target")[first:last].min() == 1
    assert naive.column("error_rate")[first:last].max() > 20.0
    for make_sound in (HPA, Forecast, Threshold):
        sound = courses(make_sound, "metrics_outage", seed)
        targets = set(sound.column("replicas_target")[first:last].tolist())
        assert len(targets) == 1  # it waits until it can see again
        assert targets != {1}
        assert sound.healthy_ratio > 0.95


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rolling_update_doubles_the_fleet_of_who_counts_the_surge(seed: int) -> None:
    naive, sound = courses(CountsSurge, "rolling_update", seed), courses(HPA, "rolling_update", seed)
    before = int(naive.column("replicas_target")[58])
    assert any(seen.update_in_progress for seen in sound.observations)
    assert not sound.observations[-1].update_in_progress
    assert highest(naive, 60, 85) >= 1.9 * before
    assert highest(sound, 60, 85) <= 1.3 * sound.column("replicas_target")[58]


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_notices_a_disabled_autoscaler_but_who_looks(seed: int) -> None:
    naive = courses(Threshold, "autoscaler_disabled", seed)
    sound = courses(lambda: ByHand(Threshold()), "autoscaler_disabled", seed)
    paused = [seen.available_actions == ("no_op",) for seen in naive.observations]
    assert paused[30]
    assert all(paused[30:])
    assert len(set(naive.column("replicas_target")[25:].tolist())) == 1
    assert sound.observations[-1].available_actions != ("no_op",)
    assert sound.column("healthy").mean() > naive.column("healthy").mean() + 0.1


def test_scenarios_are_tasks_too_and_a_config_of_every_task() -> None:
    by_task, by_config = quick_env("metrics_outage", 3), quick_env("high_traffic", 3, "metrics_outage")
    gap = slice(63, 98)
    for env in (by_task, by_config):
        assert all(seen.metrics_missing for seen in play(HPA(), env).observations[gap])
    assert by_config.state()["scenario"] == "metrics_outage"
    assert not TASKS["metrics_outage"].listed
    assert [name for name in TASKS if not TASKS[name].listed] == list(SCENARIOS)
