"""The token that a server may ask for, as its clients find and send it. It is never shown."""

from __future__ import annotations

import os
from collections.abc import Mapping

from inferencegym.errors import InferenceGymError, InvalidValueError

__all__ = ["TOKEN_ALLOWED", "TOKEN_MAX_CHARS", "TOKEN_VARIABLE", "authorization", "is_token", "with_token"]

TOKEN_VARIABLE = "INFERENCEGYM_TOKEN"  # noqa: S105 (its name)
TOKEN_MAX_CHARS = 512

TOKEN_ALLOWED = f"1 to {TOKEN_MAX_CHARS} printable ASCII characters without spaces"

HEADER = "authorization"


def is_token(token: str) -> bool:
    """Whether a text can be a token at all: it must pass through a header unchanged."""
    return 0 < len(token) <= TOKEN_MAX_CHARS and all("!" <= character <= "~" for character in token)


def authorization(token: str) -> str:
    """The value of the header."""
    return f"Bearer {token}"


def with_token(headers: Mapping[str, str], token: object) -> dict[str, str]:
    """Headers that carry the token: the given one, else that of ``INFERENCEGYM_TOKEN``, if there is any.

    A header ``authorization`` among ``headers`` (that of a private Space, say) wins over the variable.

    Raises:
        InvalidValueError: a token that no header can carry; the message does not repeat it.
        InferenceGymError: both a token and such a header are given.
    """
    stated = any(name.lower() == HEADER for name in headers)
    if token is not None and stated:
        raise InferenceGymError(
            "token: the headers hold an authorization too, and a request has one.", "Give one of the two."
        )
    name = "token"
    if token is None and not stated:
        name, token = TOKEN_VARIABLE, os.environ.get(TOKEN_VARIABLE) or None
    if token is None:
        return dict(headers)
    if not (isinstance(token, str) and is_token(token)):
        raise InvalidValueError(name, _Hidden(), TOKEN_ALLOWED)
    return {**headers, HEADER: authorization(token)}


class _Hidden:
    def __repr__(self) -> str:
        return "what it holds (not shown)"
