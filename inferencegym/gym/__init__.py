"""Gymnasium environments: ``import inferencegym.gym``, then ``gymnasium.make("InferenceGym/Serving-v0")``.

Needs the extra ``gym`` (``pip install "inferencegym[gym]"``). Importing this package registers every
environment of the registry; without an import of its own, ``gymnasium.make`` finds them as
``"inferencegym.gym:InferenceGym/Serving-v0"``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from inferencegym.extras import extra_hint, missing

try:
    from inferencegym.gym.registration import codec_of, register_all
except ModuleNotFoundError as error:
    raise missing("inferencegym.gym", error, extra_hint("gym"), __name__) from None

if TYPE_CHECKING:
    from inferencegym.gym.codec import GymCodec
    from inferencegym.gym.env import GymEnv
    from inferencegym.gym.http_env import HTTPGymEnv
    from inferencegym.gym.serving.env import ServingGymEnv
    from inferencegym.gym.serving.vector import ServingVectorEnv

__all__ = [
    "GymCodec",
    "GymEnv",
    "HTTPGymEnv",
    "ServingGymEnv",
    "ServingVectorEnv",
    "codec_of",
    "register_all",
]

_HOMES = {
    "GymCodec": "codec",
    "GymEnv": "env",
    "HTTPGymEnv": "http_env",
    "ServingGymEnv": "serving.env",
    "ServingVectorEnv": "serving.vector",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'inferencegym.gym' has no attribute {name!r}")
    return getattr(import_module(f"inferencegym.gym.{_HOMES[name]}"), name)


register_all()
