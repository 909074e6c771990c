"""Typed schemas of the environments, a module each; Serving's names are found here, too."""

from inferencegym.models.base import construct
from inferencegym.models.serving import (
    DEFAULT_EPISODE_LENGTH,
    EngineTiming,
    EpisodeState,
    MetricsSnapshot,
    Phase,
    PriorityDistribution,
    QuantTier,
    RewardConfig,
    ServeAction,
    ServeObservation,
    TrafficConfig,
    WorkloadState,
)

__all__ = [
    "DEFAULT_EPISODE_LENGTH",
    "EngineTiming",
    "EpisodeState",
    "MetricsSnapshot",
    "Phase",
    "PriorityDistribution",
    "QuantTier",
    "RewardConfig",
    "ServeAction",
    "ServeObservation",
    "TrafficConfig",
    "WorkloadState",
    "construct",
]
