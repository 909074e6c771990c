"""What the client does with each kind of answer, without a network and without waiting."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from inferencegym.calls import Call, Calls, Resend
from inferencegym.errors import (
    EpisodeDoneError,
    InferenceGymError,
    InvalidValueError,
    ServerUnavailableError,
    SessionNotFoundError,
    UnknownNameError,
)
from inferencegym.registry import get_spec
from inferencegym.wire import Pause, WakePolicy, exchange, rebuild_error
from tests.inferencegym.fake_server import error, page

CALLS = Calls(get_spec("serving"))
HEALTHY = httpx.Response(200, json={"status": "healthy"})
REFUSED = httpx.ConnectError("refused")
LOST = httpx.ReadTimeout("timed out")


class Played:
    """Runs an exchange over scripted outcomes with a clock that only pauses move."""

    def __init__(
        self, call: Call[Any], *outcomes: httpx.Response | httpx.TransportError, wake_s: float = 60
    ) -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.waits: list[tuple[str, float]] = []
        self.sent = 0
        policy = WakePolicy("http://x", wake_s, lambda why, s: self.waits.append((why, s)), lambda: self.now)
        self.flow = exchange(call, policy)
        self.outcomes = list(outcomes)

    def result(self) -> Any:
        answer: Any = None
        while True:
            try:
                effect = self.flow.send(answer)
            except StopIteration as stop:
                return stop.value
            if isinstance(effect, Pause):
                self.now += effect.seconds
                self.pauses.append(effect.seconds)
                answer = None
            else:
                self.sent += 1
                answer = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]


def test_an_answer_is_parsed() -> None:
    assert Played(CALLS.health(), HEALTHY).result().status == "healthy"


@pytest.mark.parametrize(
    "trouble", [REFUSED, LOST, page(503), page(502), page(200), httpx.Response(504, text="gateway")]
)
def test_a_read_waits_for_a_server_that_wakes(trouble: httpx.Response | httpx.TransportError) -> None:
    played = Played(CALLS.health(), trouble, trouble, HEALTHY)
    assert played.result().status == "healthy"
    assert played.sent == 3
    assert played.pauses == sorted(played.pauses)
    assert len(played.waits) == 2


def test_waiting_ends_with_a_message_that_tells_how_to_go_on() -> None:
    played = Played(CALLS.health(), REFUSED, wake_s=10)
    with pytest.raises(ServerUnavailableError, match=r"http://x/health.*ConnectError: refused") as caught:
        played.result()
    assert "INFERENCEGYM_URL" in caught.value.hint
    assert played.now <= 10
    assert played.sent > 3


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_page_that_says_no_is_not_waited_for(status: int) -> None:
    played = Played(CALLS.health(), page(status))
    with pytest.raises(ServerUnavailableError, match=f"HTTP {status}"):
        played.result()
    assert played.sent == 1


STEP = CALLS.step("s", {})
RESET = CALLS.reset("task1", 1, None, None)


@pytest.mark.parametrize(
    ("call", "trouble", "again"),
    [
        (STEP, REFUSED, True),
        (STEP, httpx.ConnectTimeout("slow"), True),
        (STEP, LOST, False),
        (STEP, httpx.RemoteProtocolError("closed"), False),
        (STEP, httpx.WriteError("broken"), False),
        (STEP, page(503), False),
        (STEP, page(502), False),
        (RESET, REFUSED, True),
        (RESET, page(503), True),
        (RESET, LOST, False),
        (RESET, httpx.WriteError("broken"), False),
        (CALLS.grade_session("s"), LOST, True),
        (CALLS.state("s"), LOST, True),
    ],
)
def test_only_what_may_be_sent_twice_is(
    call: Call[Any], trouble: httpx.Response | httpx.TransportError, again: bool
) -> None:
    played = Played(call, trouble, wake_s=2)
    with pytest.raises(ServerUnavailableError):
        played.result()
    assert (played.sent > 1) is again


def test_a_lost_step_says_that_it_may_have_counted() -> None:
    with pytest.raises(ServerUnavailableError, match=r"state\(\)\.step_count"):
        Played(STEP, LOST).result()


def test_every_call_states_how_it_may_be_resent() -> None:
    assert CALLS.tasks().resend is CALLS.info().resend is CALLS.baseline().resend is Resend.ALWAYS
    assert STEP.resend is Resend.UNLESS_SENT
    assert RESET.resend is Resend.UNLESS_SEEN


@pytest.mark.parametrize(
    ("status", "code", "message", "expected"),
    [
        (422, "invalid_value", "kv_budget: 2 is not allowed; allowed: 0.1 to 1.", InvalidValueError),
        (422, "unknown_name", "task: 'x' does not exist.", UnknownNameError),
        (409, "episode_done", "over", EpisodeDoneError),
        (404, "session_not_found", "gone", SessionNotFoundError),
        (413, "body_too_large", "big", InferenceGymError),
    ],
)
def test_an_error_body_becomes_its_exception(
    status: int, code: str, message: str, expected: type[InferenceGymError]
) -> None:
    with pytest.raises(InferenceGymError) as caught:
        Played(CALLS.health(), error(status, code, message, "do this")).result()
    assert type(caught.value) is expected
    assert (caught.value.code, caught.value.status) == (code, status)
    assert str(caught.value) == f"{message} do this"


def test_field_and_kind_survive_the_wire() -> None:
    value = rebuild_error({"error": {"code": "invalid_value", "message": "seed: -1 is not allowed."}}, 422)
    name = rebuild_error({"error": {"code": "unknown_name", "message": "task: 'x' does not exist."}}, 422)
    assert isinstance(value, InvalidValueError)
    assert value.field == "seed"
    assert isinstance(name, UnknownNameError)
    assert name.kind == "task"
    assert isinstance(value, ValueError)


def test_a_rate_limit_says_when_to_come_back() -> None:
    limited = error(429, "rate_limited", "too fast", "slow down", **{"retry-after": "7"})
    played = Played(CALLS.health(), limited)
    with pytest.raises(InferenceGymError, match="Retry after 7 s"):
        played.result()
    assert played.pauses == [7.0] * 17  # 120 s


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_says_when_to_come_again_is_waited_for_even_with_a_step(status: int) -> None:
    busy = error(status, "server_full", "full", **{"retry-after": "3"})
    stepped = {"observation": {}, "reward": 0.5, "done": False, "info": {}}
    played = Played(CALLS.reset("task1", 0, None, None), busy, busy, error(404, "session_not_found", "x"))
    with pytest.raises(SessionNotFoundError):
        played.result()
    assert played.pauses == [3.0, 3.0]
    assert "asks to wait 3 s" in played.waits[0][0]
    step = Played(CALLS.step("s", {}), busy, httpx.Response(200, json=stepped))
    with pytest.raises(ServerUnavailableError, match="form"):  # it was sent again
        step.result()
    assert (step.sent, step.pauses) == (2, [3.0])


@pytest.mark.parametrize("after", ["", "soon", "-1", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_time_to_come_again_that_is_no_number_of_seconds_is_not_waited_for(after: str) -> None:
    played = Played(CALLS.health(), error(429, "rate_limited", "no", **{"retry-after": after}))
    with pytest.raises(InferenceGymError):
        played.result()
    assert played.pauses == []


@pytest.mark.parametrize("data", [None, [], "x", {"detail": "no"}, {"error": "text"}, {"error": {}}])
def test_any_other_error_body_is_shown_plainly(data: object) -> None:
    failure = rebuild_error(data, 500)
    assert type(failure) is InferenceGymError
    assert "500" in str(failure)


@pytest.mark.parametrize("body", [{}, [], {"tasks": 1}, {"tasks": [{"id": "t"}]}])
def test_a_reply_of_another_form_is_no_traceback(body: object) -> None:
    with pytest.raises(ServerUnavailableError, match="not of this API's form"):
        Played(CALLS.tasks(), httpx.Response(200, json=body)).result()
