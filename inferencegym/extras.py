"""Libraries that extras bring along: a sentence where one is missing, and for programs no traceback."""

from __future__ import annotations

import sys

from inferencegym.errors import MissingExtraError

__all__ = ["extra_hint", "missing"]


def extra_hint(extra: str) -> str:
    """How to install an extra."""
    return f"Install the extra: pip install 'inferencegym[{extra}]'."


def missing(what: str, error: ModuleNotFoundError, hint: str, module: str = "") -> BaseException:
    """What to raise where the import of a library failed.

    Args:
        what: needs it.
        error: what the import raised.
        hint: how to install it.
        module: ``__name__`` of a module that is a program as well.

    Returns:
        MissingExtraError; while ``python -m`` starts a program, the end of that with the same sentence.
    """
    told = MissingExtraError(what, error.name or str(error), hint)
    # Python's own mark while it looks for the module to run, whose package comes first.
    starting = module == "__main__" or sys.argv[:1] == ["-m"]
    return SystemExit(f"error: {told}") if starting else told
