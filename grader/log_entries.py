"""What graders of logs have in common: entries that clients sent, checked before they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from env.protocols import GradeResult
from inferencegym.errors import InvalidValueError, MissingValueError

__all__ = [
    "EMPTY_LOG",
    "check_length",
    "check_place",
    "check_places",
    "empty_grade",
    "log_part",
    "log_settings",
]

EMPTY_LOG = "Empty episode log."


def check_length(field: str, entries: Any, longest: int, least: int = 1) -> None:
    """Raises InvalidValueError unless ``entries`` is a list of ``least`` to ``longest`` entries."""
    if isinstance(entries, str | bytes) or not isinstance(entries, Sequence):
        raise InvalidValueError(field, type(entries).__name__, f"a list of {least} to {longest} entries")
    count = len(cast("Sequence[Any]", entries))
    if not least <= count <= longest:
        raise InvalidValueError(field, f"{count} entries", f"a list of {least} to {longest} entries")


def empty_grade(parts: Iterable[str], passed: bool | None = None) -> GradeResult:
    """The grade of a log without a step, which nothing verifies: 0, and 0 for each part."""
    breakdown = {**dict.fromkeys(parts, 0.0), "completed": 0.0}
    return GradeResult(0.0, breakdown, EMPTY_LOG, verified=False, steps=0, passed=passed)


def log_part(where: str, entry: Any, name: str, *, needed: bool = True) -> Mapping[str, Any]:
    """The ``metrics`` or ``action`` of a log entry: a /step reply, or {action, reward, metrics}.

    Empty when it is not there and not ``needed``. Raises InvalidValueError that names the entry (``where``)
    and the part.
    """
    if not isinstance(entry, Mapping):
        raise InvalidValueError(where, entry, "an object: a /step reply, or {action, reward, metrics}")
    outer = cast("Mapping[str, Any]", entry)
    inner = outer.get("info")
    source = {**(cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else {}), **outer}
    if name not in source:
        if needed:
            raise MissingValueError(f"{where}.{name}", f"the {name} object of that step")
        return {}
    part = source[name]
    if not isinstance(part, Mapping):
        raise InvalidValueError(f"{where}.{name}", part, f"the {name} object of that step")
    return cast("Mapping[str, Any]", part)


def check_places(task_id: str, log: Sequence[Any]) -> None:
    """:func:`check_place` for every entry of a log that is an object."""
    for index, entry in enumerate(log):
        if isinstance(entry, Mapping):
            check_place(f"episode_log[{index}]", cast("Mapping[str, Any]", entry), task_id, index + 1)


def check_place(where: str, entry: Mapping[str, Any], task_id: str, step: int) -> None:
    """Check that an entry, as far as it says so, is ``step`` (from 1) of an episode of the task.

    Raises InvalidValueError that names the entry (``where``) and the field: the log is of another task, has a
    gap or is out of order.
    """
    for name, said in _told_places(entry):
        wanted = task_id if name.endswith("task_id") else step
        if said is not None and said != wanted:
            raise InvalidValueError(f"{where}.{name}", said, f"{wanted!r} at this place of the log")


def _told_places(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What an entry says of its task and step, by the field that says it."""
    for name in ("task_id", "timestep"):
        yield name, entry.get(name)
    for part, name in (("observation", "task_id"), ("observation", "step_count"), ("info", "timestep")):
        yield f"{part}.{name}", _mapping(entry.get(part)).get(name)


def log_settings(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an entry says of the settings that its episode was played under; empty where it says nothing."""
    own = _mapping(entry.get("settings"))
    return own or _mapping(_mapping(entry.get("info")).get("settings"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
