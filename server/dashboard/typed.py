"""What a visitor typed into a field that wants a number."""

from __future__ import annotations

import math
from typing import Any

import gradio as gr

from env.checks import SEED_LIMIT, checked_seed
from inferencegym.errors import InferenceGymError

__all__ = ["as_whole", "check_given", "seed_field", "typed_seed"]

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
