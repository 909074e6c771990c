"""What the page says when something cannot be done: a sentence, in place."""

from __future__ import annotations

from html import escape

from inferencegym.errors import InferenceGymError

__all__ = ["NO_MESSAGE", "message", "sentence"]

NO_MESSAGE = ""


def message(error: InferenceGymError) -> str:
    """The error's message and hint as HTML that is read out at once."""
    return sentence(f"{error.message} {error.hint}".strip())


def sentence(text: str) -> str:
    """A text as HTML that is read out at once."""
    return f'<p class="ig-message" role="alert">{escape(text)}</p>'
