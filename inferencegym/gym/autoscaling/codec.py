"""Vector layout of InferenceGym/Autoscaling-v0.

===  ====================  =======  =========================================================
 i   name                  bounds   of the observation
===  ====================  =======  =========================================================
 0   latency               [0, 1]   log, 0 to 100, linear below 1
 1   cpu                   [0, 1]   as it is
 2   error_rate            [0, 1]   log, 0 to 100, linear below 1
 3   traffic               [0, 1]   log, 0 to 100, linear below 1
 4   cpu_steady            [0, 1]   as it is
 5   kv_occupancy          [0, 1]   as it is
 6   queue_depth           [0, 1]   log, 0 to 10,000 requests, linear below 10
 7   arrival_rate          [0, 1]   log, 0 to 500 requests/s, linear below 10
 8   concurrency           [0, 1]   log, 0 to 10,000 requests, linear below 100
 9   concurrency_6s        [0, 1]   the same
10   replicas_ready        [0, 1]   share of 24
11   replicas_pending      [0, 1]   share of 24
12   replicas_draining     [0, 1]   share of 24
13   replicas_warming      [0, 1]   share of 24
14   replicas_target       [0, 1]   share of 24
15   metrics_age           [0, 1]   log, 0 to 900 s, linear below 15
16   metrics_missing       0, 1     as it is
17   update_in_progress    0, 1     as it is
18   step_count            [0, 1]   share of 240
19   healthy_ratio         [0, 1]   as it is
20   arrival_rate_5m       [0, 1]   as 7
21   arrival_trend_5m      [0, 1]   linear, -20 to 20 requests/s a minute
22   arrival_trend         [-1, 1]  change of the arrival rate since the step before, relative
23   concurrency_trend     [-1, 1]  change of the concurrency since the step before, relative
===  ====================  =======  =========================================================

One knob, ``action``: scale_down, no_op, scale_up. Totals are for controllers that call the environment
itself.
"""

from __future__ import annotations

from inferencegym.gym.codec import Feature, GymCodec, Panel
from inferencegym.gym.knobs import choice
from inferencegym.models.autoscaling import (
    AUTOSCALING_STEPS,
    MAX_REPLICAS,
    MOVES,
    RATIO_MAX,
    AutoscalingAction,
)

__all__ = ["CODEC", "ENTRY_POINT", "OBSERVATION_NAMES", "VECTOR_ENTRY_POINT"]

ENTRY_POINT = "inferencegym.gym.autoscaling.env:AutoscalingGymEnv"
VECTOR_ENTRY_POINT = "inferencegym.gym.autoscaling.vector:AutoscalingVectorEnv"

_LONGEST_AGE_S = 900.0
_STEEPEST = 20.0
"""Change of arrivals, requests/s a minute; a rush hour brings half of it."""

_FEATURES = (
    Feature("latency", "latency", 0, RATIO_MAX, "log"),
    Feature("cpu", "cpu"),
    Feature("error_rate", "error_rate", 0, RATIO_MAX, "log"),
    Feature("traffic", "traffic", 0, RATIO_MAX, "log"),
    Feature("cpu_steady", "cpu_steady"),
    Feature("kv_occupancy", "kv_occupancy"),
    Feature("queue_depth", "queue_depth", 0, 10_000, "log", 10.0),
    Feature("arrival_rate", "arrival_rate_rps", 0, 500.0, "log", 10.0),
    Feature("concurrency", "concurrency", 0, 10_000, "log", 100.0),
    Feature("concurrency_6s", "concurrency_6s", 0, 10_000, "log", 100.0),
    Feature("replicas_ready", "replicas_ready", 0, MAX_REPLICAS),
    Feature("replicas_pending", "replicas_pending", 0, MAX_REPLICAS),
    Feature("replicas_draining", "replicas_draining", 0, MAX_REPLICAS),
    Feature("replicas_warming", "replicas_warming", 0, MAX_REPLICAS),
    Feature("replicas_target", "replicas_target", 0, MAX_REPLICAS),
    Feature("metrics_age", "metrics_age_s", 0, _LONGEST_AGE_S, "log", 15.0),
    Feature("metrics_missing", "metrics_missing"),
    Feature("update_in_progress", "update_in_progress"),
    Feature("step_count", "step_count", 0, AUTOSCALING_STEPS),
    Feature("healthy_ratio", "healthy_ratio"),
    Feature("arrival_rate_5m", "arrival_rate_5m_rps", 0, 500.0, "log", 10.0),
    Feature("arrival_trend_5m", "arrival_trend_rps_per_min", -_STEEPEST, _STEEPEST),
    Feature("arrival_trend", "arrival_rate_rps", scale="trend"),
    Feature("concurrency_trend", "concurrency", scale="trend"),
)

CODEC = GymCodec(
    AutoscalingAction,
    _FEATURES,
    (choice("action", MOVES, default="no_op"),),
    (
        Panel("arrival_rate_rps", "arrivals (requests/s)"),
        Panel("replicas_ready", "replicas ready"),
        Panel("replicas_pending", "replicas pending"),
        Panel("cpu", "utilisation"),
        Panel("latency", "latency / objective", log=True),
        Panel("reward", "reward"),
    ),
)

OBSERVATION_NAMES = CODEC.observation_names
