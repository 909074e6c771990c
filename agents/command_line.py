"""What the programs of this project (``python -m …``) have in common."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Generator
from contextlib import contextmanager

from inferencegym.errors import InferenceGymError

__all__ = ["plain_errors"]


@contextmanager
def plain_errors(parser: ArgumentParser) -> Generator[None]:
    """End the program with status 2 and the error's own text, in place of a traceback."""
    try:
        yield
    except InferenceGymError as error:
        parser.error(str(error))
