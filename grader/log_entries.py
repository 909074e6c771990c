"""What graders of logs have in common: entries that clients sent, checked before they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from inferencegym.errors import InvalidValueError

__all__ = ["check_length", "log_part"]


def check_length(field: str, entries: Any, longest: int) -> None:
    """Raises InvalidValueError unless ``entries`` is a list of 1 to ``longest`` entries."""
    if isinstance(entries, str | bytes) or not isinstance(entries, Sequence):
        raise InvalidValueError(field, type(entries).__name__, f"a list of 1 to {longest} entries")
    count = len(cast("Sequence[Any]", entries))
    if not 1 <= count <= longest:
        raise InvalidValueError(field, f"{count} entries", f"a list of 1 to {longest} entries")


def log_part(where: str, entry: Any, name: str) -> Mapping[str, Any]:
    """The ``metrics`` or ``action`` of a log entry: a /step reply, or {action, reward, metrics}.

    Raises InvalidValueError that names the entry (``where``) and the part.
    """
    if not isinstance(entry, Mapping):
        raise InvalidValueError(where, entry, "an object: a /step reply, or {action, reward, metrics}")
    outer = cast("Mapping[str, Any]", entry)
    inner = outer.get("info")
    source = {**(cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else {}), **outer}
    part = source.get(name)
    if not isinstance(part, Mapping):
        raise InvalidValueError(f"{where}.{name}", part, f"the {name} object of that step")
    return cast("Mapping[str, Any]", part)
