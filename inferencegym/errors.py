"""The one exception tree of InferenceGym.

Every error says what was wrong, what was given and what is allowed; ``hint`` tells how to go on. The
server turns each into ``{"error": {"code", "message", "hint"}}`` with the class's ``status``.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "EpisodeDoneError",
    "EpisodeNotStartedError",
    "InferenceGymError",
    "InvalidValueError",
    "ServerUnavailableError",
    "SessionNotFoundError",
    "TracePackError",
    "UnknownNameError",
]


class InferenceGymError(Exception):
    """Base of all InferenceGym errors. ``code`` is stable for programs; ``status`` is the HTTP status."""

    code: str = "error"
    status: int = 400

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint


class InvalidValueError(InferenceGymError, ValueError):
    """A value outside what its field allows. Nothing was changed."""

    code = "invalid_value"
    status = 422

    def __init__(self, field: str, value: object, allowed: str, hint: str = "") -> None:
        shown = repr(value)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        super().__init__(f"{field}: {shown} is not allowed; allowed: {allowed}.", hint)
        self.field = field


class UnknownNameError(InferenceGymError, LookupError):
    """A task, agent or environment id that does not exist; the message lists near matches."""

    code = "unknown_name"
    status = 422

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        names = sorted(known)
        near = get_close_matches(str(name), names, n=3, cutoff=0.5)
        hint = f"Did you mean {', '.join(near)}?" if near else f"Known: {', '.join(names)}."
        super().__init__(f"{kind}: {str(name)[:80]!r} does not exist.", hint)
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
    """A trace pack or trace file that is missing, malformed or inconsistent."""

    code = "bad_trace_pack"
    status = 422


class ServerUnavailableError(InferenceGymError):
    """The client could not reach a server, or the server did not wake in time."""

    code = "server_unavailable"
    status = 503
