"""The oracle: dynamic programming on arrivals, cold starts and crashes that it knows in advance.

Not a fair player: it is the yardstick for what could be reached. :func:`plan_schedule` finds the cheapest
number of ready replicas for every interval that covers the demand; :class:`Oracle` orders them early enough,
plays the result on a fleet of its own, raises the demand where an interval was not healthy, and plans again.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.autoscaling.controllers import to_total
from env.autoscaling.episode import fleet_simulator
from inferencegym.models.autoscaling import (
    AUTOSCALING_STEPS,
    MAX_REPLICAS,
    MIN_REPLICAS,
    AutoscalingAction,
    AutoscalingObservation,
)
from simulator.autoscaling.engine import Fleet, FleetSimulator
from simulator.autoscaling.plan import HEALTHY_CPU, INTERVAL_S, WARM_UP_INTERVALS, Plan
from simulator.autoscaling.rows import RESULT

__all__ = ["Oracle", "plan_schedule", "required_replicas"]

IntArray = npt.NDArray[np.int64]

_REPAIRS = 5
_CHANGE_COST_S = 20.0
"""What a change of the total is worth to the planner, replica-seconds: keeps it from chasing noise."""


def required_replicas(simulator: FleetSimulator, plan: Plan) -> IntArray:
    """(240,): fewest ready replicas that serve each interval's arrivals at a healthy utilisation."""
    arrived = plan.arrivals().sum(axis=1)[WARM_UP_INTERVALS:]
    demand = np.ceil(arrived / (INTERVAL_S * HEALTHY_CPU * simulator.table.peak_rps))
    return np.clip(demand, MIN_REPLICAS, MAX_REPLICAS).astype(np.int64)


def plan_schedule(
    required: IntArray, first: int, start_cost_s: float, change_cost_s: float = _CHANGE_COST_S
) -> tuple[IntArray, float]:
    """Cheapest ready replicas for each interval, and their cost in replica-seconds.

    Dynamic programming over (interval, replicas): an interval costs 15 s a replica, each replica more than
    before ``start_cost_s``, and any change ``change_cost_s``.

    Args:
        required: (T,) fewest replicas of each interval.
        first: replicas before the first interval.
        start_cost_s: what a cold start costs.
    """
    counts = np.arange(MAX_REPLICAS + 1)
    more = np.maximum(counts[None, :] - counts[:, None], 0)
    step_cost = start_cost_s * more + change_cost_s * (counts[None, :] != counts[:, None])
    value = np.full(MAX_REPLICAS + 1, np.inf)
    value[first] = 0.0
    came_from = np.zeros((len(required), MAX_REPLICAS + 1), dtype=np.int64)
    for index, least in enumerate(required.tolist()):
        total = value[:, None] + step_cost
        came_from[index] = total.argmin(axis=0)
        value = total.min(axis=0) + INTERVAL_S * counts
        value[:least] = np.inf
    schedule = np.zeros(len(required), dtype=np.int64)
    schedule[-1] = int(value.argmin())
    for index in range(len(required) - 1, 0, -1):
        schedule[index - 1] = came_from[index, schedule[index]]
    return schedule, float(value.min())


def _totals(schedule: IntArray, plan: Plan) -> list[int]:
    """What to ask for in each interval, so that the replicas of ``schedule`` are ready in time.

    A replica is ordered when the next cold starts would let it be late otherwise.
    """
    total, launched = plan.initial_replicas, 0
    asked: list[int] = []
    for index in range(len(schedule)):
        while True:
            coming = plan.cold_start_s[np.arange(launched, launched + 3) % len(plan.cold_start_s)]
            lead = ceil(float(coming.max()) / INTERVAL_S)
            wanted = int(schedule[index : index + lead + 1].max())
            if wanted <= total:
                break
            total += 1
            launched += 1
        total = min(total, wanted)
        asked.append(total)
    return asked


def _fleet_class() -> Callable[[FleetSimulator, Plan], Any]:
    if find_spec("numba") is None:
        return Fleet
    from simulator.autoscaling.compiled import CompiledFleet

    return CompiledFleet


class Oracle:
    """Plays the schedule that it found for (task, seed); it must be given the episode's own seed."""

    def __init__(self, task_id: str, seed: int) -> None:
        simulator = fleet_simulator(task_id)
        plan = simulator.plan(seed)
        required = required_replicas(simulator, plan) + _losses(plan)
        start_cost_s = simulator.rules.mean_cold_start_s
        best: tuple[float, list[int]] = (-np.inf, [])
        make_fleet = _fleet_class()
        for _ in range(_REPAIRS + 1):
            required = np.clip(required, MIN_REPLICAS, MAX_REPLICAS)
            schedule, _cost = plan_schedule(required, min(plan.initial_replicas, MAX_REPLICAS), start_cost_s)
            totals = _totals(schedule, plan)
            worth, unhealthy = _try(make_fleet(simulator, plan), totals)
            if worth > best[0]:
                best = (worth, totals)
            if not unhealthy.any():
                break
            required = required + _before(unhealthy)
        self._totals = best[1]

    def reset(self) -> None:
        """The plan stays."""

    def act(self, observation: AutoscalingObservation) -> AutoscalingAction:
        """The total of the plan."""
        return to_total(self._totals[observation.step_count])


def _losses(plan: Plan) -> IntArray:
    """Replicas more than needed while those that will have crashed are replaced."""
    spare = np.zeros(AUTOSCALING_STEPS, dtype=np.int64)
    longest = ceil(float(plan.cold_start_s.max()) / INTERVAL_S)
    for interval in np.flatnonzero(plan.crashes).tolist():
        index = interval - WARM_UP_INTERVALS
        spare[index : index + longest] += plan.crashes[interval]
    return spare


def _before(unhealthy: npt.NDArray[np.bool_]) -> IntArray:
    """One replica more in unhealthy intervals and the one before each."""
    raised = unhealthy.copy()
    raised[:-1] |= unhealthy[1:]
    return raised.astype(np.int64)


def _try(fleet: Any, totals: list[int]) -> tuple[float, npt.NDArray[np.bool_]]:
    """What a plan is worth, about as the grade weighs it, and which intervals more replicas could mend."""
    healthy: list[float] = []
    mend: list[bool] = []
    paid = cheapest = 0.0
    for total in totals:
        fleet.play(0, total)
        result = fleet.result
        healthy.append(result[RESULT["healthy"]])
        mend.append(result[RESULT["cpu_steady"]] > HEALTHY_CPU or result[RESULT["latency"]] > 1.0)
        paid += result[RESULT["replica_seconds"]]
        cheapest += result[RESULT["cheapest_replica_seconds"]]
    return 0.4 * float(np.mean(healthy)) - 0.3 * max(0.0, paid / cheapest - 1.0), np.asarray(mend)
