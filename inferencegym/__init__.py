"""InferenceGym: reinforcement-learning environments for running LLM inference.

Names are imported on first use: the layers of an environment import ``inferencegym.models.serving`` and must
not pay for the HTTP client, and the HTTP client must not pay for ``openenv``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferencegym.async_client import AsyncInferenceGymClient, AsyncSession
    from inferencegym.client import InferenceGymClient, Session
    from inferencegym.errors import InferenceGymError
    from inferencegym.models.serving import QuantTier, RewardConfig, ServeAction, ServeObservation
    from inferencegym.openenv_client import InferenceGymEnv
    from inferencegym.replies import Grade, StepResult

__all__ = [
    "AsyncInferenceGymClient",
    "AsyncSession",
    "Grade",
    "InferenceGymClient",
    "InferenceGymEnv",
    "InferenceGymError",
    "QuantTier",
    "RewardConfig",
    "ServeAction",
    "ServeObservation",
    "Session",
    "StepResult",
    "__version__",
]

__version__ = "0.1.0"

_HOMES = {
    "AsyncInferenceGymClient": "async_client",
    "AsyncSession": "async_client",
    "Grade": "replies",
    "InferenceGymClient": "client",
    "InferenceGymEnv": "openenv_client",
    "InferenceGymError": "errors",
    "QuantTier": "models",
    "RewardConfig": "models",
    "ServeAction": "models",
    "ServeObservation": "models",
    "Session": "client",
    "StepResult": "replies",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'inferencegym' has no attribute {name!r}")
    value = getattr(import_module(f"inferencegym.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
