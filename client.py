"""The OpenEnv client of this environment, where ``openenv`` tools look for it.

The code is in :mod:`inferencegym.openenv_client`.
"""

from inferencegym.openenv_client import InferenceGymEnv

__all__ = ["InferenceGymEnv"]
