"""Trace packs by name: those that come with the project, and those that the operator adds.

A name is what everyone may give, over HTTP too: a shipped pack, or a file ``NAME.parquet`` of the folder
that the environment variable ``INFERENCEGYM_TRACE_PACKS`` names. ``INFERENCEGYM_TRACE_PACK`` is the pack of
episodes that name none; it may also be the path of a file.
"""

from __future__ import annotations

import os
from pathlib import Path

from inferencegym.errors import TracePackError, UnknownNameError
from simulator.packs.io import DEFAULT_PACK_PATH, PACK_SUFFIX

__all__ = [
    "DEFAULT_PACK",
    "FOLDER_VARIABLE",
    "PACK_VARIABLE",
    "SHIPPED",
    "default_pack",
    "known_packs",
    "pack_name",
    "pack_path",
]

PACK_VARIABLE = "INFERENCEGYM_TRACE_PACK"
FOLDER_VARIABLE = "INFERENCEGYM_TRACE_PACKS"

DEFAULT_PACK = "a100_llama3_8b"

SHIPPED = {
    DEFAULT_PACK: DEFAULT_PACK_PATH,
    "h100_llama3_8b": DEFAULT_PACK_PATH.with_name("traces_h100_llama3_8b.parquet"),
    "h200_llama3_8b": DEFAULT_PACK_PATH.with_name("traces_h200_llama3_8b.parquet"),
}
"""Packs of the project."""


def known_packs() -> dict[str, Path]:
    """Every name that may be given, and its file.

    Raises:
        TracePackError: INFERENCEGYM_TRACE_PACKS names no folder.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return dict(SHIPPED)
    if not Path(named).is_dir():
        raise TracePackError(f"{FOLDER_VARIABLE}: {named!r} is no folder.")
    added = {file.stem: file for file in sorted(Path(named).glob(f"*{PACK_SUFFIX}"))}
    return {**added, **SHIPPED}


def default_pack() -> str:
    """The pack of episodes that name none: a name, or the path of a file."""
    return os.environ.get(PACK_VARIABLE) or DEFAULT_PACK


def pack_name(path: Path) -> str:
    """The name of a pack by its file."""
    return next((name for name, file in SHIPPED.items() if file == path), path.stem)


def pack_path(name: str | None = None) -> Path:
    """File of a pack; of the default one for None.

    Raises:
        UnknownNameError: no such pack; lists near matches.
    """
    default = default_pack()
    own = Path(default) if default.endswith(PACK_SUFFIX) else None
    if own is not None and name in (None, own.stem):
        return own
    wanted, known = default if name is None else name, known_packs()
    if wanted not in known:
        raise UnknownNameError("trace_pack", wanted, known)
    return known[wanted]
