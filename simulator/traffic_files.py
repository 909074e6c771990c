"""Recorded traffic that a server offers by name: the files of the folder ``INFERENCEGYM_TRAFFIC``."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from inferencegym.errors import InvalidValueError, TracePackError, UnknownNameError
from simulator.trace_file import RequestTrace, read_trace

__all__ = ["FOLDER_VARIABLE", "recorded_trace"]

FOLDER_VARIABLE = "INFERENCEGYM_TRAFFIC"

_SUFFIXES = (".csv", ".jsonl")


def recorded_trace(name: str) -> RequestTrace:
    """The recording of a name. A file is read once, and again after it has changed.

    Raises:
        InvalidValueError: this process offers none.
        UnknownNameError: no such file; lists near matches.
        TracePackError: the folder, or what is wrong with the file.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        raise InvalidValueError(
            "traffic.file", name, f"nothing here: the server names no folder in {FOLDER_VARIABLE}; send text"
        )
    if not Path(named).is_dir():
        raise TracePackError(f"{FOLDER_VARIABLE}: {named!r} is no folder.")
    files = {path.name: path for path in sorted(Path(named).iterdir()) if path.suffix in _SUFFIXES}
    if name not in files:
        raise UnknownNameError("traffic.file", name, files)
    return _read(files[name], files[name].stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(path: Path, _changed_ns: int) -> RequestTrace:
    return read_trace(path, skip_empty=True)
