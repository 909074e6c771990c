"""``--config``: what an episode changes of its task, as at reset."""

from __future__ import annotations

import json
from typing import Annotated, Any, cast

import typer

from inferencegym.errors import InvalidValueError

__all__ = ["ConfigOption", "config_of"]

ConfigOption = Annotated[
    str | None,
    typer.Option("--config", help="What episodes change of their task, as JSON: config of POST /reset."),
]


def config_of(text: str | None) -> dict[str, Any] | None:
    """The object that ``--config`` gives. Raises InvalidValueError for anything else."""
    if text is None:
        return None
    try:
        config: Any = json.loads(text)
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise InvalidValueError("--config", text, "a JSON object")
    return cast("dict[str, Any]", config)
