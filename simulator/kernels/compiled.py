"""Compiled copies of plain Python functions (numba, extra ``gym``).

The physics is written once, in plain Python. :func:`compiled` makes a machine-code copy of the same source:
IEEE arithmetic in source order (no fast-math, no fused operations), so that it gives the same bits, and
without the interpreter lock, so that threads run side by side. Plain functions that the source calls
by name are compiled with it.

Machine code is kept between processes in a folder named after what it was made from: the sources of the
function and of all that it calls, and the constants that they name. numba by itself looks only at the file of
the outermost function and would go on using code made from an old kernel.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast

import numpy as np

from inferencegym.extras import extra_hint, missing

try:
    import numba  # pyright: ignore[reportMissingTypeStubs]
    from numba.core import config  # pyright: ignore[reportMissingTypeStubs]
except ModuleNotFoundError as error:
    raise missing("Machine code", error, extra_hint("gym")) from None

__all__ = ["cache_folder", "compiled", "inlined"]

F = TypeVar("F", bound=Callable[..., Any])

_CONSTANTS: tuple[type, ...] = (bool, int, float, str, tuple, np.generic)
_DIGESTS: dict[Any, str] = {}
"""Of what each compiled copy was made from."""


def inlined(function: F) -> F:
    """Marks a plain function whose compiled copy is written into each caller.

    For functions that are handed tuples of arrays: a call copies every word of every array's description.
    """
    vars(function)["is_inlined"] = True
    return function


def compiled(function: F, /, *, keep: bool = False, allocates: bool = False, **names: Any) -> F:
    """A compiled copy of ``function`` and of all functions that it calls by name.

    Args:
        function: plain Python over numbers and arrays.
        keep: keep the machine code for later processes (outermost functions only).
        allocates: the function makes arrays. Without it views are not counted as references; counting took
            half the time of a step.
        **names: functions to put in place of the function's globals or parameters of the same names.
    """
    plain = cast("FunctionType", function)
    parts = {name: _part(value) for name, value in {**_globals_of(plain), **names}.items()}
    digest = _digest(plain, tuple(names.items()))
    folder = cache_folder(digest) if keep else None
    with _numba_cache(folder):
        declare = cast("Any", numba).njit(
            nogil=True,
            error_model="numpy",
            inline="always" if _is_inlined(plain) else "never",
            cache=folder is not None,
            _nrt=allocates,
        )
        copy = declare(_bound_copy(plain, parts, set(names)))
    _DIGESTS[copy] = digest
    return copy


def _is_inlined(function: FunctionType) -> bool:
    return vars(function).get("is_inlined", False)


@cache
def _compiled_part(function: FunctionType) -> Any:
    return compiled(function)


def _part(value: Any) -> Any:
    return _compiled_part(value) if isinstance(value, FunctionType) else value


def _globals_of(function: FunctionType) -> dict[str, Any]:
    """The globals that a function's code names, but itself."""
    names = function.__code__.co_names
    scope = function.__globals__
    return {name: scope[name] for name in names if name in scope and scope[name] is not function}


@cache
def _definitions(file: str) -> dict[int, ast.FunctionDef]:
    """The functions of a source file, by their first lines."""
    found = [
        node for node in ast.walk(ast.parse(Path(file).read_bytes())) if isinstance(node, ast.FunctionDef)
    ]
    return {min([node.lineno, *(each.lineno for each in node.decorator_list)]): node for node in found}


def _definition(function: FunctionType) -> ast.FunctionDef:
    return _definitions(inspect.getfile(function))[function.__code__.co_firstlineno]


def _bound_copy(function: FunctionType, scope: dict[str, Any], bound: set[str]) -> FunctionType:
    """The same source with other globals. Parameters among the ``bound`` become globals too: numba can keep
    code that calls a global function, not code that is handed one."""
    definition = deepcopy(_definition(function))
    definition.decorator_list = []
    parameters = definition.args.args
    definition.args.args = [parameter for parameter in parameters if parameter.arg not in bound]
    tree = ast.Module([definition], type_ignores=[])
    flags = annotations.compiler_flag
    code = compile(tree, inspect.getfile(function), "exec", flags=flags, dont_inherit=True)
    scope = {**function.__globals__, **scope}
    exec(code, scope)  # noqa: S102 - the project's own source
    copy = cast("FunctionType", scope[function.__name__])
    copy.__module__ = function.__module__
    return copy


@cache
def _digest(function: FunctionType, names: tuple[tuple[str, Any], ...] = ()) -> str:
    """Changes with the source of a function and of all that it calls, with the constants that they name, with
    the fields of the tuples that their modules know, and with the versions of Python and numba."""
    digest = sha256(f"{sys.version} {cast('Any', numba).__version__}".encode())
    digest.update(ast.dump(_definition(function)).encode())
    for name, value in sorted({**_globals_of(function), **dict(names)}.items()):
        digest.update(f"{name} {_described(value)}".encode())
    for name, value in sorted(function.__globals__.items()):
        if hasattr(value, "_fields") and isinstance(value, type):
            digest.update(f"{name} {_described(value)}".encode())
    return digest.hexdigest()[:16]


def _described(value: Any) -> str:
    """What of a global value ends up in machine code."""
    if isinstance(value, FunctionType):
        return _digest(value)
    if hasattr(value, "py_func"):
        return _DIGESTS[value]
    if isinstance(value, type):
        return f"{value.__qualname__} {getattr(value, '_fields', '')}"
    if isinstance(value, ModuleType):
        return repr({name: each for name, each in vars(value).items() if isinstance(each, int | float)})
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[Any, Any]", value)
        return f"{array.dtype} {array.shape} {array.tobytes().hex()}"
    return repr(value) if isinstance(value, _CONSTANTS) else ""


@cache
def cache_folder(digest: str) -> Path | None:
    """Where machine code with this digest is kept: a folder of this user. None where none can be made."""
    bases = (os.environ.get("XDG_CACHE_HOME"), "~/.cache", tempfile.gettempdir())
    for base in bases:
        if base:
            folder = Path(base).expanduser() / "inferencegym" / "numba" / digest
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
