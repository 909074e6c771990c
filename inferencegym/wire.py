"""The client's decisions about answers, without any input or output.

:func:`exchange` decides what to do with each answer to a :class:`~inferencegym.calls.Call`: parse it, raise
the error that it carries, or wait and send again. It is a generator of calls (send this) and
:class:`Pause` (sleep), so that the blocking and the asynchronous client share every decision.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import httpx
from pydantic import ValidationError

from inferencegym import errors
from inferencegym.calls import Call, Resend
from inferencegym.errors import (
    InferenceGymError,
    InvalidValueError,
    ServerUnavailableError,
    UnknownNameError,
)

__all__ = ["Outcome", "Pause", "WakePolicy", "exchange", "gave_up", "pauses", "rebuild_error"]

T = TypeVar("T")

GATEWAY_STATUSES = frozenset({502, 503, 504})
"""What a proxy answers while the server behind it is still starting."""

NO_SUCH_PATH = frozenset({"not_found", "method_not_allowed"})
"""Codes of a server of ours for a path that it does not have; sessions and names have codes of their own."""

PAUSE_FIRST_S, PAUSE_MAX_S, PAUSE_GROWTH = 0.25, 5.0, 1.6


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before the next try."""

    seconds: float


TRY_MIN_S = 0.25
"""The last try before the time is over still gets so long."""


BUSY_S = 120.0
"""A budget is new every minute; two of them are waited for."""
BUSY_STATUSES = frozenset({429, 503})


@dataclass(slots=True)
class WakePolicy:
    """How long to wait for a server that is starting. ``on_wait`` gets (reason, seconds waited so far).

    With ``bounds_first`` that time also bounds each wait for a quick answer until there has been one:
    ``answered``. A process that is stopped takes connections and says nothing.
    """

    base_url: str
    timeout_s: float
    on_wait: Callable[[str, float], None] | None = None
    clock: Callable[[], float] = time.monotonic
    bounds_first: bool = False
    answered: bool = False
    busy_timeout_s: float = BUSY_S
    """Longest wait, in all, for a server that says when to come again (429 or 503 with Retry-After)."""

    def bounded(self, call: Call[T], waited_s: float) -> Call[T]:
        """The call with the time that is left for it."""
        if not self.bounds_first or self.answered or call.slow:
            return call
        return replace(call, timeout_s=max(TRY_MIN_S, self.timeout_s - waited_s))


Outcome = httpx.Response | httpx.TransportError
"""What a driver sends back into the generator after a Call."""


def exchange(call: Call[T], policy: WakePolicy) -> Generator[Call[T] | Pause, Outcome | None, T]:
    """Send a call until it is answered; a driver carries out what is yielded and sends back the outcome.

    Raises:
        InferenceGymError: the subclass that the server's error body names.
        ServerUnavailableError: no server of ours answered within the policy's time, or a step got lost.
    """
    started = policy.clock()
    for pause_s in pauses():
        outcome = yield policy.bounded(call, policy.clock() - started)
        assert outcome is not None, "a driver answers every Call with an outcome"
        trouble = _trouble(outcome)
        busy_s = _retry_after_s(outcome)
        if busy_s is not None and policy.clock() - started + busy_s <= policy.busy_timeout_s:
            # It was refused, so nothing was played: even a step may go again.
            if policy.on_wait is not None:
                policy.on_wait(f"the server asks to wait {busy_s} s", policy.clock() - started)
            yield Pause(float(busy_s))
            continue
        if trouble is None:
            policy.answered = True
            return _read(call, cast("httpx.Response", outcome), policy.base_url)
        waited_s = policy.clock() - started
        if not _may_resend(call, outcome) or waited_s + pause_s > policy.timeout_s:
            raise _unavailable(call, outcome, trouble, policy, waited_s)
        if policy.on_wait is not None:
            policy.on_wait(trouble, waited_s)
        yield Pause(pause_s)
    raise AssertionError("pauses never end")


def _retry_after_s(outcome: Outcome) -> int | None:
    """Seconds after which a server of ours wants the same request again; None if it does not."""
    if not isinstance(outcome, httpx.Response) or outcome.status_code not in BUSY_STATUSES:
        return None
    after = outcome.headers.get("retry-after", "")
    return int(after) if _is_json(outcome) and after.isascii() and after.isdigit() else None


def _trouble(outcome: Outcome) -> str | None:
    """Why this outcome is no answer of our server, or None when it is one."""
    if isinstance(outcome, httpx.TransportError):
        return f"{type(outcome).__name__}: {outcome}".rstrip(": ")
    if _is_json(outcome):
        return None
    if outcome.status_code in GATEWAY_STATUSES:
        return f"HTTP {outcome.status_code}, as a proxy answers while the server behind it starts"
    return f"HTTP {outcome.status_code} with a page instead of JSON, as while a Space is building or waking"


def _is_json(response: httpx.Response) -> bool:
    return "json" in response.headers.get("content-type", "")


def _may_resend(call: Call[Any], outcome: Outcome) -> bool:
    if isinstance(outcome, httpx.Response) and outcome.status_code in range(400, 500):
        return False  # a page that says no: there is no such Space or path, or it is private
    if call.resend is Resend.ALWAYS or isinstance(outcome, httpx.ConnectError | httpx.ConnectTimeout):
        return True
    return call.resend is Resend.UNLESS_SEEN and isinstance(outcome, httpx.Response)


def gave_up(waited_s: float) -> str:
    """How to go on where no server answered."""
    return (
        f"Gave up after {waited_s:.0f} s. Start one with `make serve` or `inferencegym serve`, check the "
        "URL (INFERENCEGYM_URL), or raise wake_timeout_s for a Space that takes longer to wake."
    )


def pauses() -> Generator[float]:
    """Seconds to wait before each further try."""
    pause_s = PAUSE_FIRST_S
    while True:
        yield pause_s
        pause_s = min(PAUSE_MAX_S, pause_s * PAUSE_GROWTH)


def _unavailable(
    call: Call[Any], outcome: Outcome, trouble: str, policy: WakePolicy, waited_s: float
) -> ServerUnavailableError:
    message = (
        f"{call.method} {policy.base_url}{call.path}: no answer from an InferenceGym server ({trouble})."
    )
    if call.resend is Resend.UNLESS_SENT and not isinstance(outcome, httpx.ConnectError):
        hint = "It is not known whether the step was counted: read state().step_count before going on."
    elif isinstance(outcome, httpx.Response) and outcome.status_code in range(400, 500):
        hint = "Check the URL (INFERENCEGYM_URL), and the token if the Space is private."
    else:
        hint = gave_up(waited_s)
    return ServerUnavailableError(message, hint)


def _read(call: Call[T], response: httpx.Response, base_url: str) -> T:
    """The parsed reply, or the error that the server sent."""
    try:
        data: Any = response.json()
    except ValueError:
        data = None
    if response.status_code >= 400:
        error = rebuild_error(data, response.status_code, response.headers.get("retry-after"))
        if error.code in NO_SUCH_PATH:
            raise ServerUnavailableError(
                f"{call.method} {base_url}{call.path}: there is a server, but not this path.",
                "Check the URL (INFERENCEGYM_URL): paths such as /reset are added to it.",
            )
        raise error
    try:
        return call.parse(data)
    except (KeyError, TypeError, ValueError) as error:
        raise ServerUnavailableError(
            f"{call.method} {call.path}: the reply is not of this API's form ({_first_fault(error)}).",
            "Client and server may be of different versions, or the client's env is not what is there.",
        ) from None


def _first_fault(error: Exception) -> str:
    """One line, also of pydantic's dozens."""
    if not isinstance(error, ValidationError):
        return repr(error)
    fault = error.errors(include_url=False)[0]
    where = ".".join(map(str, fault["loc"]))
    return f"{error.title}.{where}: {fault['msg']}; faults: {error.error_count()}"


def _error_classes() -> dict[str, type[InferenceGymError]]:
    """The client's own tree by code; a server in the same process may have subclasses of its own."""
    classes: list[type[InferenceGymError]] = [getattr(errors, name) for name in errors.__all__]
    return {cls.code: cls for cls in classes if "code" in vars(cls)}


def _error_detail(data: Any) -> dict[str, Any]:
    body: Any = cast("dict[str, Any]", data).get("error") if isinstance(data, dict) else None
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


def rebuild_error(data: Any, status: int, retry_after: str | None = None) -> InferenceGymError:
    """The exception behind ``{"error": {code, message, hint}}``; an unknown code gives the base class."""
    detail = _error_detail(data) or {"message": f"HTTP {status}: {str(data)[:200]}"}
    code, message = str(detail.get("code", "error")), str(detail.get("message", f"HTTP {status}"))
    hint = str(detail.get("hint", ""))
    if retry_after is not None and "retry" not in hint.lower():
        hint = f"{hint} Retry after {retry_after} s.".strip()
    cls = _error_classes().get(code, InferenceGymError)
    error = cls.__new__(cls)
    # The subclasses build their message from parts that did not travel; the base takes it as it is.
    InferenceGymError.__init__(error, message, hint)
    error.code, error.status = code, status
    subject = message.partition(":")[0]
    if isinstance(error, InvalidValueError):
        error.field = subject
    elif isinstance(error, UnknownNameError):
        error.kind = subject
    return error
