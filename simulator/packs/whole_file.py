"""Files that are there whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` write beside ``path``, then put the result in its place.

    Whoever is killed or runs out of disk meanwhile leaves what was there before. Raises OSError.
    """
    beside = path.with_name(f".{path.name}.part")
    try:
        write(beside)
        beside.replace(path)
    finally:
        with suppress(OSError):
            beside.unlink()
