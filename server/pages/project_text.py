"""What the server tells of the project as a whole."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

__all__ = ["AUTHOR", "readme"]

AUTHOR = "The InferenceGym authors"

_README = Path(__file__).resolve().parents[2] / "README.md"
_FENCE = "---\n"
"""Above and below the settings that a Space reads from the file's head."""


@cache
def readme() -> str | None:
    """The README: from the checkout or image, else what the installed package carries; None without both."""
    text = _README.read_text(encoding="utf-8") if _README.is_file() else _packaged()
    if text is not None and text.startswith(_FENCE):
        text = text.split(_FENCE, 2)[2].lstrip()
    return text


def _packaged() -> str | None:
    try:
        return metadata("inferencegym").json.get("description")  # type: ignore[return-value]
    except PackageNotFoundError:
        return None
