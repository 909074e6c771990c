"""The one exception tree of InferenceGym.

Every error says what was wrong, what was given and what is allowed; ``hint`` tells how to go on. The
server turns each into ``{"error": {"code", "message", "hint"}}`` with the class's ``status``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import ClassVar

__all__ = [
    "EpisodeDoneError",
    "EpisodeNotStartedError",
    "InferenceGymError",
    "InvalidValueError",
    "MissingExtraError",
    "MissingValueError",
    "ServerUnavailableError",
    "SessionNotFoundError",
    "TraceFileError",
    "TracePackError",
    "UnauthorizedError",
    "UnknownNameError",
]


MAX_SHOWN_CHARS = 80
"""Characters of a rejected value that a message repeats."""


class InferenceGymError(Exception):
    """Base of all InferenceGym errors. ``code`` is stable for programs; ``status`` is the HTTP status."""

    code: str = "error"
    status: int = 400

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint


def _shown(value: object) -> str:
    """A short repr of any value: an error must not fail while it is made."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 (an integer above the digit limit, deep nesting, a broken __repr__)
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN_CHARS else text[: MAX_SHOWN_CHARS - 3] + "..."


class InvalidValueError(InferenceGymError, ValueError):
    """A value outside what its field allows. Nothing was changed."""

    code = "invalid_value"
    status = 422

    def __init__(self, field: str, value: object, allowed: str, hint: str = "") -> None:
        super().__init__(f"{field}: {_shown(value)} is not allowed; allowed: {allowed}.", hint)
        self.field = field
        self.allowed = allowed


class MissingValueError(InvalidValueError):
    """A value that must be given and is not there."""

    def __init__(self, field: str, expected: str, hint: str = "") -> None:
        InferenceGymError.__init__(self, f"{field}: missing; expected {expected}.", hint)
        self.field = field
        self.allowed = expected


class UnknownNameError(InferenceGymError, LookupError):
    """A task, agent or environment id that does not exist; the message lists near matches."""

    code = "unknown_name"
    status = 422

    def __init__(
        self, kind: str, name: object, known: Iterable[str], aliases: Mapping[str, str] | None = None
    ) -> None:
        """``aliases``: further names and which of ``known`` each stands for; what is near one means that."""
        names = sorted(known)
        text = name[:MAX_SHOWN_CHARS] if isinstance(name, str) else _shown(name)
        # In any case: STREAM_2 is near stream_2.
        folded = {alias.casefold(): meant for alias, meant in (aliases or {}).items()}
        folded |= {known_name.casefold(): known_name for known_name in names}
        found = get_close_matches(text.casefold(), folded, n=3, cutoff=0.5)
        near = dict.fromkeys(folded[each] for each in found)
        hint = f"Did you mean {', '.join(near)}?" if near else f"Known: {', '.join(names)}."
        super().__init__(f"{kind}: {text!r} does not exist.", hint)
        self.kind = kind


class EpisodeDoneError(InferenceGymError):
    """A step after the episode ended. The episode is unchanged."""

    code = "episode_done"
    status = 409


class EpisodeNotStartedError(InferenceGymError):
    """A step, state or observation before the first reset."""

    code = "episode_not_started"
    status = 409


class SessionNotFoundError(InferenceGymError):
    """A session id the server never gave out, or has evicted."""

    code = "session_not_found"
    status = 404


class TracePackError(InferenceGymError):
    """A trace pack that is missing, malformed or inconsistent."""

    code = "bad_trace_pack"
    status = 422


class TraceFileError(InferenceGymError):
    """Recorded traffic that is missing, malformed or out of order."""

    code = "bad_trace_file"
    status = 422


class MissingExtraError(InferenceGymError, ModuleNotFoundError):
    """A library that only an extra brings along is not installed."""

    code = "missing_extra"

    def __init__(self, what: str, library: str, hint: str) -> None:
        super().__init__(f"{what} needs {library}, which is not installed.", hint)
        self.name = library


class ServerUnavailableError(InferenceGymError):
    """The client could not reach a server, or the server did not wake in time."""

    code = "server_unavailable"
    status = 503


class UnauthorizedError(InferenceGymError):
    """The server asks for a token, and there was none or a wrong one."""

    code = "unauthorized"
    status = 401
    headers: ClassVar[Mapping[str, str]] = {"WWW-Authenticate": 'Bearer realm="InferenceGym"'}
    """What an answer with this error carries."""

    def __init__(self, *, wrong: bool = False) -> None:
        super().__init__(
            "The token is not that of this server." if wrong else "This server asks for a token.",
            "Send Authorization: Bearer and the operator's token; the Python clients take token=, or the "
            "environment variable INFERENCEGYM_TOKEN.",
        )
