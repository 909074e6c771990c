"""Compiled copies of plain Python functions (numba, extra ``gym``).

The physics is written once, in plain Python. :func:`compiled` makes a machine-code copy of the same source:
IEEE arithmetic in source order (no fast-math, no fused operations), so that it gives the same bits, and
without the interpreter lock, so that threads run side by side.

Machine code is kept between processes in a folder named after a hash of the sources. numba by itself looks
only at the file of the outermost function and would go on using code made from an old kernel.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

from inferencegym.extras import extra_hint, missing

try:
    import numba  # pyright: ignore[reportMissingTypeStubs]
    from numba.core import config  # pyright: ignore[reportMissingTypeStubs]
except ModuleNotFoundError as error:
    raise missing("Machine code", error, extra_hint("gym")) from None

__all__ = ["cache_folder", "compiled"]

F = TypeVar("F", bound=Callable[..., Any])

_SOURCES = (
    "simulator/*.py",
    "env/*.py",
    "agents/*.py",
    "inferencegym/*models.py",
    "inferencegym/gym/**/*.py",
)
"""Files whose functions and constants end up in machine code."""


def compiled(
    function: F, /, *, keep: bool = False, inline: bool = False, allocates: bool = False, **names: Any
) -> F:
    """A compiled copy of ``function``.

    Args:
        function: plain Python over numbers and arrays.
        keep: keep the machine code for later processes (outermost functions only).
        inline: write the body into each caller. For functions that are handed tuples of arrays: a call
            copies every word of every array's description.
        allocates: the function makes arrays. Without it views are not counted as references; counting took
            half the time of a step.
        **names: compiled functions to put in place of globals or parameters of the same names.
    """
    folder = cache_folder() if keep else None
    with _numba_cache(folder):
        declare = cast("Any", numba).njit(
            nogil=True,
            error_model="numpy",
            inline="always" if inline else "never",
            cache=folder is not None,
            _nrt=allocates,
        )
        return declare(_bound_copy(cast("FunctionType", function), names))


def _bound_copy(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    """The same source with other globals. Parameters among ``names`` become globals too: numba can keep code
    that calls a global function, not code that is handed one."""
    scope = {**function.__globals__, **names}
    lines, first_line = inspect.getsourcelines(function)
    tree = ast.parse("".join(lines))
    definition = cast("ast.FunctionDef", tree.body[0])
    parameters = definition.args.args
    definition.args.args = [parameter for parameter in parameters if parameter.arg not in names]
    ast.increment_lineno(tree, first_line - 1)
    flags = annotations.compiler_flag
    code = compile(tree, inspect.getfile(function), "exec", flags=flags, dont_inherit=True)
    exec(code, scope)  # noqa: S102 - the project's own source
    copy = cast("FunctionType", scope[function.__name__])
    copy.__module__ = function.__module__
    return copy


@cache
def cache_folder() -> Path | None:
    """Where machine code is kept: a folder of this user, or None when none can be written to."""
    bases = (os.environ.get("XDG_CACHE_HOME"), "~/.cache", tempfile.gettempdir())
    for base in bases:
        if base:
            folder = Path(base).expanduser() / "inferencegym" / f"numba-{_source_hash()}"
            if _is_ours(folder):
                return folder
    return None


def _is_ours(folder: Path) -> bool:
    """Make the folder. False when it cannot be written to, or is somebody else's: their code is not run."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            return not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()
    except OSError:
        return False


def _source_hash() -> str:
    """Changes with the sources, and with the versions of Python and numba."""
    root = Path(__file__).resolve().parents[1]
    digest = sha256(f"{sys.version} {cast('Any', numba).__version__}".encode())
    for pattern in _SOURCES:
        for path in sorted(root.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _numba_cache(folder: Path | None) -> Generator[None]:
    """Point numba at a folder while a function is being declared."""
    settings = cast("Any", config)
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(folder) if folder else before
    try:
        yield
    finally:
        settings.CACHE_DIR = before
