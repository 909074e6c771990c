"""The one error format, ``{"error": {"code", "message", "hint"}}``, and everything that produces it."""

from __future__ import annotations

import re
from collections.abc import Mapping

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from inferencegym.errors import InferenceGymError

__all__ = [
    "BodyTooLargeError",
    "ClientShareError",
    "ContentEncodingError",
    "CostLimitError",
    "EpisodeChangedError",
    "InternalError",
    "InvalidJsonError",
    "MediaTypeError",
    "RateLimitError",
    "RejectedError",
    "ServerFullError",
    "error_body",
    "error_response",
    "in_words",
    "install_handlers",
    "unexpected",
]

CLIENT_GONE = 499
"""Status of a request whose client went away while it was read (nginx's convention)."""

log = structlog.stdlib.get_logger("inferencegym.server")


_LONE_SURROGATE = re.compile(r"unexpected end of hex escape|lone leading surrogate in hex escape")


def in_words(why: str) -> str:
    """What the JSON parser says, where only its author would understand it in other words."""
    return _LONE_SURROGATE.sub(r"half of a surrogate pair (\\ud800 to \\udfff), which is no character,", why)


class InvalidJsonError(InferenceGymError):
    """The body is not one JSON document in UTF-8."""

    code = "invalid_json"
    status = 422

    def __init__(self, why: str) -> None:
        super().__init__(
            f"The body is not valid JSON: {in_words(why)}.",
            "Send one JSON object in UTF-8, such as {}, at most 200 levels deep; see /docs.",
        )


class RejectedError(InferenceGymError):
    """A request that cannot be taken as it is, for a reason that is not one value's. Nothing was changed."""

    code = "invalid_value"
    status = 422


class MediaTypeError(InferenceGymError):
    """A body declared as something else than JSON."""

    code = "unsupported_media_type"
    status = 415

    def __init__(self, content_type: str) -> None:
        super().__init__(
            f"Content-Type: {content_type[:80]!r} is not allowed; allowed: application/json.",
            "With curl add -H 'content-type: application/json'.",
        )


class ContentEncodingError(InferenceGymError):
    """A compressed body."""

    code = "unsupported_media_type"
    status = 415

    def __init__(self, encoding: str) -> None:
        super().__init__(
            f"Content-Encoding: {encoding[:80]!r} is not allowed; allowed: identity.",
            "Send the body uncompressed, without this header.",
        )


class BodyTooLargeError(InferenceGymError):
    """A body above the limit of its endpoint."""

    code = "body_too_large"
    status = 413

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"The body is larger than {limit_bytes} bytes.",
            "POST /grader takes larger bodies than the other endpoints; a replay (task_id, seed, actions) "
            "is the smallest way to grade an episode. The operator sets INFERENCEGYM_MAX_BODY_BYTES and "
            "INFERENCEGYM_GRADER_MAX_BODY_BYTES.",
        )


class _LaterError(InferenceGymError):
    """What may be sent again after ``retry_after_s`` seconds."""

    def __init__(self, message: str, hint: str, retry_after_s: int) -> None:
        super().__init__(message, f"Try again in {retry_after_s} s; {hint}")
        self.retry_after_s = retry_after_s


class RateLimitError(_LaterError):
    """More requests than the rate limit allows."""

    code = "rate_limited"
    status = 429

    def __init__(self, rate: str, retry_after_s: int) -> None:
        super().__init__(
            f"More requests than this server allows one client ({rate}).",
            "the operator sets INFERENCEGYM_RATE_LIMIT.",
            retry_after_s,
        )


class CostLimitError(_LaterError):
    """A client asks for more computation than its budget."""

    code = "rate_limited"
    status = 429

    def __init__(self, rate: str, steps: int, retry_after_s: int) -> None:
        super().__init__(
            f"This request costs {steps} steps, more than is left of what this server computes for one "
            f"client ({rate}).",
            "steps of a live episode are free of it; the operator sets INFERENCEGYM_COST_LIMIT.",
            retry_after_s,
        )


class ClientShareError(_LaterError):
    """A client's share of the places is taken by unfinished episodes, or of the queue by its own requests."""

    code = "client_share"
    status = 429

    def __init__(self, share: int, retry_after_s: int, what: str = "unfinished episodes") -> None:
        super().__init__(
            f"One client may have {share} {what} on this server, and this one has as many.",
            "end one with DELETE /sessions/{session_id}, or play it to its end; the operator sets "
            "INFERENCEGYM_CLIENT_SHARE.",
            retry_after_s,
        )


class ServerFullError(_LaterError):
    """Nothing can be taken on before something else has ended."""

    code = "server_full"
    status = 503

    def __init__(self, kept: int, retry_after_s: int, what: str = "unfinished episodes") -> None:
        super().__init__(
            f"All {kept} places of this server for {what} are taken.",
            "what is there goes on; nothing was changed.",
            retry_after_s,
        )


class EpisodeChangedError(InferenceGymError):
    """A kept episode cannot be brought back as it was: what it was started with has changed meanwhile."""

    code = "episode_changed"
    status = 409

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session_id: the episode of {session_id[:80]!r} cannot go on: the trace pack or recording that "
            "it was started with has changed on the server.",
            "Start a new one with POST /reset.",
        )


class InternalError(InferenceGymError):
    """A fault of the server itself; the details are in its log."""

    code = "internal_error"
    status = 500

    def __init__(self) -> None:
        super().__init__(
            "The server failed at this request.", "This is a fault of the server; it was logged."
        )


_HTTP_ERRORS: Mapping[int, tuple[str, str, str]] = {
    404: ("not_found", "There is nothing at this path.", "GET /docs lists all endpoints."),
    405: ("method_not_allowed", "This path does not take this method.", "GET /docs lists all endpoints."),
}


_FASTAPI_UNREADABLE = "There was an error parsing the body"
"""What FastAPI says of a body on which the JSON parser itself fails, by nesting for example."""


_USUAL_HINTS: Mapping[str, str] = {
    "invalid_value": "Nothing was changed. GET /docs and GET /info tell each field's type and bounds.",
    "unknown_name": "GET /tasks and GET /info list the names.",
    "bad_trace_pack": "GET /info lists the trace packs that can be played.",
    "bad_trace_file": "docs/physics/your-traffic.md says what recordings are taken.",
}
"""By code, how to go on where the error itself does not say."""
_ANY_HINT = "GET /docs shows what this endpoint takes."


def error_body(code: str, message: str, hint: str) -> bytes:
    """The JSON document of an error; its hint is never empty."""
    hint = hint or _USUAL_HINTS.get(code, _ANY_HINT)
    # Lone surrogates can reach a message through a query string; they have no UTF-8 form.
    clean = {"code": code, "message": _printable(message), "hint": _printable(hint)}
    return to_json({"error": clean})


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def error_response(error: InferenceGymError, headers: Mapping[str, str] | None = None) -> Response:
    """The HTTP response of an error."""
    response_headers = dict(headers or {})
    if isinstance(error, _LaterError):
        response_headers["Retry-After"] = str(error.retry_after_s)
    return Response(
        error_body(error.code, error.message, error.hint),
        status_code=error.status,
        media_type="application/json",
        headers=response_headers,
    )


def unexpected(error: Exception, path: str) -> InternalError:
    """Log an error that nothing foresaw, and return what the caller may know of it."""
    if isinstance(error.__cause__, HTTPException):
        # An answer in the middle of another one, as the page's framework gives it to a visitor who has left.
        log.info("answered_too_late", path=path, error=str(error.__cause__.detail))
    else:
        log.error("unexpected_error", path=path, error=type(error).__name__, exc_info=error)
    return InternalError()


def install_handlers(app: FastAPI) -> None:
    """Make every error of ``app`` answer in the one format."""
    app.add_exception_handler(InferenceGymError, _on_known)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(ClientDisconnect, _on_gone)
    app.add_exception_handler(Exception, _on_unexpected)


async def _on_unexpected(_request: Request, _error: Exception) -> Response:
    """Answers only: Starlette raises the error again, and the outermost middleware logs it."""
    return error_response(InternalError())


async def _on_gone(_request: Request, _error: Exception) -> Response:
    """Nobody reads this; the status is for log and metrics."""
    return Response(status_code=CLIENT_GONE)


async def _on_known(_request: Request, error: Exception) -> Response:
    assert isinstance(error, InferenceGymError)
    return error_response(error)


async def _on_validation(_request: Request, error: Exception) -> Response:
    """A body or query that FastAPI itself validates: only OpenEnv's own endpoints do that."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return error_response(InvalidJsonError(str(first["ctx"]["error"])))
    where = ".".join(str(part) for part in first["loc"][1:]) or "body"
    return error_response(
        RejectedError(f"{where}: {first['msg']}.", "GET /docs shows what this endpoint takes.")
    )


async def _on_http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.detail == _FASTAPI_UNREADABLE:
        return error_response(InvalidJsonError("it cannot be parsed"))
    code, message, hint = _HTTP_ERRORS.get(error.status_code, ("http_error", str(error.detail), ""))
    if error.status_code == 404 and error.detail != "Not Found":
        message = f"{error.detail}."
    return Response(
        error_body(code, message, hint),
        status_code=error.status_code,
        media_type="application/json",
        headers=error.headers,
    )
