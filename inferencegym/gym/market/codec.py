"""Vector layout of InferenceGym/Market-v0.

===  ======================  =======  ==================================================
 i   name                    bounds   of the observation
===  ======================  =======  ==================================================
 0   price_level             [0, 1]   place of the price between its bounds
 1   queue_depth             [0, 1]   log, 0 to 256 jobs
 2   utilization             [0, 1]   as it is
 3   arrivals                [0, 1]   log, 0 to 128 jobs
 4   expected_wait           [0, 1]   log, 0 to 100 hours
 5   interrupted_gpus        [0, 1]   log, 0 to 256 GPUs
 6   zero_streak             [0, 1]   log, 0 to 200 hours
 7   death_risk              [0, 1]   as it is
 8   hour_of_day             [0, 1]   0 to 23
 9   timestep                [0, 1]   share of 200 hours
10   price_trend             [-1, 1]  change of the price since the hour before, relative
11   queue_trend             [-1, 1]  change of the line since the hour before, relative
12   arrival_trend           [-1, 1]  change of the arrivals since the hour before
===  ======================  =======  ==================================================

The action is one entry: the relative change of the price, from -0.2 to 0.2.
"""

from __future__ import annotations

from inferencegym.gym.codec import Feature, GymCodec, Panel
from inferencegym.gym.knobs import Knob
from inferencegym.models.market import EPISODE_HOURS, GPUS_MAX, JOBS_PER_HOUR_MAX, LINE_CAPACITY, PriceAction

__all__ = ["CHANGE_RANGE", "CODEC", "ENTRY_POINT", "VECTOR_ENTRY_POINT"]

ENTRY_POINT = "inferencegym.gym.market.env:MarketGymEnv"
VECTOR_ENTRY_POINT = "inferencegym.gym.market.vector:MarketVectorEnv"

CHANGE_RANGE = 0.2
"""Largest change of the price in an hour that these spaces offer."""

_LEVELS = (-0.2, -0.1, -0.05, -0.02, 0.0, 0.02, 0.05, 0.1, 0.2)

CODEC = GymCodec(
    PriceAction,
    (
        Feature("price_level", "price_level"),
        Feature("queue_depth", "queue_depth", 0, LINE_CAPACITY, "log"),
        Feature("utilization", "utilization"),
        Feature("arrivals", "arrivals", 0, JOBS_PER_HOUR_MAX, "log"),
        Feature("expected_wait", "expected_wait_h", 0, 100.0, "log"),
        Feature("interrupted_gpus", "interrupted_gpus", 0, GPUS_MAX, "log"),
        Feature("zero_streak", "zero_streak", 0, EPISODE_HOURS, "log"),
        Feature("death_risk", "death_risk"),
        Feature("hour_of_day", "hour_of_day", 0, 23),
        Feature("timestep", "timestep", 0, EPISODE_HOURS),
        Feature("price_trend", "price", scale="trend"),
        Feature("queue_trend", "queue_depth", scale="trend"),
        Feature("arrival_trend", "arrivals", scale="trend"),
    ),
    (Knob("change", "real", -CHANGE_RANGE, CHANGE_RANGE, _LEVELS, 0.0),),
    (
        Panel("price", "price (USD per GPU-hour)"),
        Panel("queue_depth", "jobs in line"),
        Panel("utilization", "GPUs at work (share)"),
        Panel("expected_wait_h", "expected wait (h)"),
        Panel("revenue", "revenue (USD per hour)"),
        Panel("reward", "reward"),
    ),
)
