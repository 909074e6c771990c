"""What a grade names of the episode behind it, so that anybody can tell what it is and play it again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import Any, cast

import orjson

from env.protocols import Episode
from inferencegym import __version__
from server.bound import BoundEnv
from server.sessions.episodes import EpisodeStart
from simulator.packs.on_offer import DEFAULT_PACK, pack_path
from simulator.packs.trace_table import load_trace_table

__all__ = ["NOT_STANDARD", "played_by_log", "played_of"]

TEXT_SHOWN_CHARS = 200
"""Longer texts of a config, such as recorded traffic, are named by their digest."""

NOT_STANDARD = "It was not played with the task's own settings, so it compares with no table of the task."


def played_by_log(bound: BoundEnv) -> dict[str, Any]:
    """What was played, for a log from outside, of which nothing is known."""
    return {
        "seed": None,
        "config": None,
        "config_hash": None,
        "trace_pack": None,
        "environment": bound.spec.id,
        "environment_version": bound.spec.version,
        "engine_version": __version__,
        "standard": False,
    }


def played_of(bound: BoundEnv, start: EpisodeStart) -> dict[str, Any]:
    """The same for an episode that the server has played itself.

    ``standard`` is true when nothing differs from the task's own settings: no config, and the project's own
    trace pack where there is one.
    """
    config = {name: value for name, value in (start.config or {}).items() if value is not None}
    pack = _pack_of(bound, start.task_id, config)
    return {
        **played_by_log(bound),
        "seed": start.seed,
        "config": _shortened(config),
        "config_hash": sha256(orjson.dumps(config, option=orjson.OPT_SORT_KEYS)).hexdigest(),
        "trace_pack": pack,
        "standard": not config and (pack is None or pack["sha256"] == _standard_digest()),
    }


def _pack_of(bound: BoundEnv, task_id: str, config: Mapping[str, Any]) -> dict[str, str] | None:
    """Name and digest of the trace pack that an episode is played with; None where there is none.

    An episode that is never reset tells them in a tenth of a millisecond. Of the config only the pack's name
    matters, and recorded traffic would have to be read again.
    """
    named = {name: value for name, value in config.items() if name == "trace_pack"}
    episode: Episode = bound.spec.part("make_env")(task_id, config=named or None)
    digest: str | None = getattr(episode, "trace_pack_sha256", None)
    return None if digest is None else {"name": cast("Any", episode).trace_pack, "sha256": digest}


@cache
def _standard_digest() -> str:
    return load_trace_table(pack_path(DEFAULT_PACK)).sha256


def _shortened(value: Any) -> Any:
    """A config as a reply tells it, with its keys in order."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        return {name: _shortened(fields[name]) for name in sorted(fields)}
    if isinstance(value, list | tuple):
        return [_shortened(each) for each in cast("list[Any]", value)]
    if isinstance(value, str) and len(value) > TEXT_SHOWN_CHARS:
        return f"{len(value)} characters, sha256 {sha256(value.encode()).hexdigest()}"
    return value
