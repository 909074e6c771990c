"""Environments of the registry under their ids in gymnasium, and their codecs."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import gymnasium

from inferencegym.gym.codec import GymCodec
from inferencegym.gym.schema_codec import codec_from_schemas
from inferencegym.registry import EnvSpec, all_specs

__all__ = ["codec_of", "register_all"]

_ANY_ENV = "inferencegym.gym.env:GymEnv"


@cache
def _codec_module(name: str) -> Any:
    """The environment's own codec module, or None."""
    room = f"inferencegym.gym.{name}"
    return import_module(f"{room}.codec") if find_spec(room) else None


@cache
def codec_of(spec: EnvSpec) -> GymCodec:
    """The environment's own codec (``inferencegym/gym/NAME/codec.py``), or one made from its schemas."""
    module = _codec_module(spec.name)
    return codec_from_schemas(spec) if module is None else module.CODEC


def register_all() -> None:
    """Make every environment of the registry known to ``gymnasium.make``; those known already stay.

    An environment's codec module may name classes of its own: ``ENTRY_POINT`` and ``VECTOR_ENTRY_POINT``.
    """
    for spec in all_specs():
        if spec.id not in gymnasium.registry:
            module = _codec_module(spec.name)
            entry_point = getattr(module, "ENTRY_POINT", _ANY_ENV)
            cast("Any", gymnasium).register(
                spec.id,
                entry_point,
                kwargs={"env_id": spec.id} if entry_point == _ANY_ENV else {},
                vector_entry_point=getattr(module, "VECTOR_ENTRY_POINT", None),
            )
