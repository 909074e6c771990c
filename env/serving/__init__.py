"""InferenceGym/Serving-v0: episode, reward, tasks. ``from env.serving import InferenceEnv`` works, too."""

from __future__ import annotations

from typing import Any

_OF_EPISODE = ("InferenceEnv", "make_env")


def __getattr__(name: str) -> Any:
    if name not in _OF_EPISODE:
        raise AttributeError(f"module 'env.serving' has no attribute {name!r}")
    from env.serving import episode

    return getattr(episode, name)
