"""Recorded traffic that a server offers by name: the files of the folder ``INFERENCEGYM_TRAFFIC``."""

from __future__ import annotations

import os
import threading
from functools import lru_cache
from pathlib import Path

from inferencegym.errors import InvalidValueError, TraceFileError, UnknownNameError
from simulator.serving.traffic.trace_file import RequestTrace, read_trace

__all__ = ["FOLDER_VARIABLE", "recorded_trace", "recordings"]

FOLDER_VARIABLE = "INFERENCEGYM_TRAFFIC"

_SUFFIXES = (".csv", ".jsonl")

_reading = threading.Lock()


def recordings() -> dict[str, Path]:
    """The files of the folder by name; none where no folder is named.

    Raises:
        TraceFileError: the variable names no folder.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return {}
    if not Path(named).is_dir():
        raise TraceFileError(f"{FOLDER_VARIABLE}: {named!r} is no folder.")
    files = sorted(Path(named).iterdir())
    return {path.name: path for path in files if path.suffix in _SUFFIXES and path.is_file()}


def recorded_trace(name: str) -> RequestTrace:
    """The recording of a name. A file is read once, and again after it has changed.

    Raises:
        InvalidValueError: this process offers none.
        UnknownNameError: no such file; lists near matches.
        TraceFileError: the folder, or what is wrong with the file.
    """
    files = recordings()
    if not files and not os.environ.get(FOLDER_VARIABLE):
        raise InvalidValueError(
            "traffic.file", name, f"nothing here: the server names no folder in {FOLDER_VARIABLE}; send text"
        )
    if name not in files:
        raise UnknownNameError("traffic.file", name, files)
    status = files[name].stat()
    with _reading:  # a file takes seconds: who asks for it meanwhile waits for the first reader
        trace = _read(files[name], status.st_mtime_ns, status.st_size)
    if isinstance(trace, TraceFileError):
        raise TraceFileError(trace.message, trace.hint)
    return trace


@lru_cache(maxsize=8)
def _read(path: Path, _changed_ns: int, _bytes: int) -> RequestTrace | TraceFileError:
    """The recording, or what is wrong with it: a file with a fault is not read again for every client."""
    try:
        return read_trace(path, skip_empty=True)
    except TraceFileError as error:
        return error
