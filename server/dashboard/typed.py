"""What a visitor typed into a field that wants a number."""

from __future__ import annotations

import math
from typing import Any

import gradio as gr

from env.checks import SEED_LIMIT, checked_seed
from inferencegym.errors import InferenceGymError, InvalidValueError

__all__ = ["as_whole", "check_given", "checked_number", "seed_field", "typed_seed"]

_SEED_RANGE = f"a whole number from 0 to {SEED_LIMIT - 1}"


def seed_field(value: int, label: str = "Seed", min_width: int = 90) -> Any:
    """A field for a seed: of text, for a browser's number field rounds seeds above 2⁵³ without a word."""
    return gr.Textbox(str(value), label=label, max_lines=1, min_width=min_width)


def typed_seed(text: object, field: str = "seed") -> int:
    """A seed out of :func:`seed_field`. Raises InferenceGymError, for an empty field too."""
    words = text.strip() if isinstance(text, str) else text
    check_given(field, words, _SEED_RANGE)
    if isinstance(words, str):
        try:
            words = int(words)
        except ValueError:
            # Refused as it was typed.
            return checked_seed(words, field)
    return checked_seed(as_whole(words), field)


def check_given(field: str, value: object, allowed: str) -> None:
    """A field that holds nothing, or, which a number field tells as little apart, no number.

    Raises InferenceGymError.
    """
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        raise InferenceGymError(f"{field}: there is no number in the field; allowed: {allowed}.")


def as_whole(value: Any) -> Any:
    """A number field gives floats: 42.0 is meant as 42, and 1.5 is to be refused."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def checked_number(field: str, value: Any, low: float, high: float, whole: bool = False) -> float:
    """A number of a field; number fields give floats, whole or not, and None when empty. Raises
    InferenceGymError."""
    allowed = f"a {'whole ' if whole else ''}number from {low:g} to {high:g}"
    check_given(field, value, allowed)
    given = as_whole(value)
    kind = int if whole else (int, float)
    if isinstance(given, bool) or not isinstance(given, kind) or not low <= given <= high:
        raise InvalidValueError(field, given, allowed)
    return given
