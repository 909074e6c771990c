"""Reward of InferenceGym/Market-v0, in whole numbers at SCALE; each term's raw value lies in [0, 1].

========  ==================================================================  =====================
term      raw value                                                           weight
========  ==================================================================  =====================
revenue   revenue ÷ (all GPUs × max_price)                                    +revenue
wait      expected wait ÷ max_avg_wait, halved; beyond it on to 1 at six of   −low_wait_time
          them
fairness  GPUs of running and waiting jobs that the price put out ÷ all GPUs  −fairness
death     from the second hour in which nobody came: customers expected       −market_activity
          since at a fair price ÷ 16
activity  1 in hours in which somebody accepted the price                     +market_activity ÷ 10
========  ==================================================================  =====================

Weights are divided by their sum: the reward lies in [-1, 1]. The expected wait is Little's: jobs in line ×
mean GPU-hours of a job ÷ GPUs. It keeps a slope far beyond max_avg_wait, where a learner most needs one.
"""

from __future__ import annotations

from typing import Any

from simulator.market.config import MarketSetup
from simulator.market.kernel import (
    DEATH_SILENCE,
    DRIVEN_OFF_GPUS,
    INTERRUPTED_GPUS,
    REVENUE,
    SCALE,
    SILENCE,
    STREAK,
    WAITING,
)

__all__ = ["TERMS", "expected_wait", "goal_of", "weigh_hour"]

TERMS = ("revenue", "wait", "fairness", "death", "activity")
"""Names of the signed terms; they sum to the reward."""

_REVENUE_WEIGHT, _WAIT_WEIGHT, _FAIRNESS_WEIGHT, _ACTIVITY_WEIGHT, _GPUS, _MOST, _MAX_WAIT, _JOB = range(8)
_WAIT_AT_KNEE, _WAIT_SLOPE = 2, 10
_BONUS = 10


def goal_of(setup: MarketSetup) -> list[int]:
    """The numbers of a market that its reward depends on, as :func:`weigh_hour` takes them."""
    return [
        setup.weight_revenue,
        setup.weight_low_wait_time,
        setup.weight_fairness,
        setup.weight_market_activity,
        setup.gpus,
        setup.gpus * setup.max_price,
        setup.max_avg_wait,
        setup.job_gpu_hours,
    ]


def expected_wait(goal: Any, waiting: int) -> int:
    """Hours (at SCALE) until a job that joins behind ``waiting`` others would start, about."""
    return waiting * goal[_JOB] // goal[_GPUS]


def weigh_hour(goal: Any, counts: Any, terms: Any) -> int:
    """Fill ``terms`` (see ``TERMS``) from the counts of an hour and return their sum."""
    ratio = expected_wait(goal, counts[WAITING]) * SCALE // goal[_MAX_WAIT]
    if ratio <= SCALE:
        wait = ratio // _WAIT_AT_KNEE
    else:
        wait = min(SCALE, SCALE // _WAIT_AT_KNEE + (ratio - SCALE) // _WAIT_SLOPE)
    out = min(goal[_GPUS], counts[INTERRUPTED_GPUS] + counts[DRIVEN_OFF_GPUS])
    death = counts[SILENCE] * SCALE // DEATH_SILENCE if counts[STREAK] > 1 else 0
    terms[0] = goal[_REVENUE_WEIGHT] * counts[REVENUE] // goal[_MOST]
    terms[1] = -(goal[_WAIT_WEIGHT] * wait // SCALE)
    terms[2] = -(goal[_FAIRNESS_WEIGHT] * out // goal[_GPUS])
    terms[3] = -(goal[_ACTIVITY_WEIGHT] * death // SCALE)
    terms[4] = goal[_ACTIVITY_WEIGHT] // _BONUS if counts[STREAK] == 0 else 0
    return terms[0] + terms[1] + terms[2] + terms[3] + terms[4]
