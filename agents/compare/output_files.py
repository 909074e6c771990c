"""Files that results are written to: checked before anything is played, and plain errors afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from inferencegym.errors import InferenceGymError, InvalidValueError

__all__ = ["check_folder", "check_writable", "write_file"]


def check_writable(field: str, path: Path, suffix: str = "") -> None:
    """Open a file as for writing, and leave everything as it was.

    Args:
        field: option or variable that named the file.
        path: the file.
        suffix: ending that its name must have, for example ".png".

    Raises:
        InvalidValueError: it cannot be written. Permissions alone do not tell: root may do all, and still
            nobody can make a file in /proc.
    """
    if suffix and path.suffix.lower() != suffix:
        raise InvalidValueError(field, str(path), f"a file name that ends in {suffix}")
    try:
        is_new = not path.exists()
        path.open("ab").close()
        if is_new:
            path.unlink()
    except (OSError, ValueError) as error:
        raise InvalidValueError(field, str(path), "a file that can be written", _reason(error)) from None


def check_folder(field: str, path: Path) -> None:
    """Make a folder and see that files can be made in it. Raises InvalidValueError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        check_writable(field, path / ".writable")
    except (OSError, ValueError) as error:
        reason = error.hint if isinstance(error, InvalidValueError) else _reason(error)
        raise InvalidValueError(field, str(path), "a folder that files can be written to", reason) from None


def write_file(field: str, path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` write a file. Raises InferenceGymError, for example when the disk is full."""
    try:
        write(path)
    except OSError as error:
        raise InferenceGymError(f"{field}: {path} could not be written.", _reason(error)) from None


def _reason(error: Exception) -> str:
    return f"({getattr(error, 'strerror', None) or error})"
