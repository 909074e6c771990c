"""uvicorn's HTTP protocol with limits on what a client may send, and for how long it may send it.

Only time spent waiting for a client's bytes counts: never the work on a request, nor a reply of any length.
uvicorn itself closes a connection that is idle between two requests. What exceeds a limit is answered in the
one error format where an answer can still be sent, and the connection is closed.

A request that arrives whole, which is nearly every one, costs some attribute writes and no timer.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from inferencegym.errors import InferenceGymError
from server.api.errors import error_body
from server.guard.connections import Connections

__all__ = ["GuardedHttp", "GuardedSocket", "protocols"]

BODY_BYTES_PER_S = 16 * 1024
"""A body that keeps coming gets a second more for so many bytes: slower than any line that is in use."""

WIRE_PER_BODY = 8
"""Bytes on the wire for a byte of a chunked body, at most: six when every chunk has one byte."""

LAST_CALL_S = 0.1
"""Between a time that is over and its consequence, so that bytes which wait to be read are."""

LINGER_S = 2.0
"""A refused client may read its answer so long; closed at once, the answer would be lost to a reset."""
LINGERING_MOST = 64
"""Refused connections that are kept open for it at a time."""

PIPELINED_MOST = 100
"""Requests that may wait on one connection for the replies to those before; each takes some kilobytes."""

RETRY_AFTER_S = 1


class BadRequestError(InferenceGymError):
    """Not HTTP."""

    code = "bad_request"
    status = 400

    def __init__(self) -> None:
        super().__init__("This is not a request in HTTP/1.1.", "See RFC 9112, or use a client library.")


class HeadTooLargeError(InferenceGymError):
    """More header bytes or headers than allowed."""

    code = "headers_too_large"
    status = 431

    def __init__(self, most_bytes: int, most: int) -> None:
        super().__init__(
            f"The request line and headers are above {most_bytes} bytes or {most} headers.",
            "Leave out what is not needed, old cookies for example; the operator sets "
            "INFERENCEGYM_HEADER_MAX_BYTES and INFERENCEGYM_HEADER_MAX_COUNT.",
        )


class SlowRequestError(InferenceGymError):
    """A request that did not come in its time."""

    code = "request_timeout"
    status = 408

    def __init__(self, part: str, allowed_s: float) -> None:
        setting = "HEADER" if part == "head" else "BODY"
        super().__init__(
            f"The {part} of the request did not come within {allowed_s:g} s.",
            f"Nothing was changed; send it again. The operator sets INFERENCEGYM_{setting}_TIMEOUT_S.",
        )


class _Awaits(Enum):
    """Which bytes of the client are due."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()


class GuardedHttp(HttpToolsProtocol):
    """One connection. Made by uvicorn, from the class that :func:`protocols` gives it."""

    ledger: ClassVar[Connections]
    lingering: ClassVar[int] = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        settings = self.ledger.settings
        self._most_bytes, self._most_headers = settings.header_max_bytes, settings.header_max_count
        self._head_s, self._body_s = settings.header_timeout_s, settings.body_timeout_s
        self._awaits = _Awaits.HEAD
        self._since_s = 0.0
        self._last_call = False
        self._timer: asyncio.TimerHandle | None = None
        self._began = self._headed = False
        """A request began, a head ended, within the bytes just fed."""
        self._wire_bytes = 0
        """Of the head, or of the body, that is due."""
        self._head_at_most = 0
        """No head that ends within the bytes just fed is longer."""
        self._body_bytes = 0
        self._fresh = True
        self._over = False
        """Refused: what still comes is thrown away."""

    # --- the connection ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See asyncio.Protocol."""
        super().connection_made(transport)
        error = self.ledger.enter(self, self.client[0] if self.client else None)
        if error is not None:
            self._refuse(error)
            return
        self._expect(_Awaits.HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._stop_timer()
        self.ledger.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._over:
            return
        self._began = self._headed = False
        self._wire_bytes += len(data)
        self._head_at_most = self._wire_bytes
        super().data_received(data)
        if self._over:
            return
        if self._awaits is _Awaits.NOTHING:
            if self.cycle is not None and not self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
                return
            # Empty lines before the next request have just stopped uvicorn's own timer.
            self._expect(_Awaits.HEAD)
        elif self._awaits is _Awaits.HEAD:
            self._in_head()
        else:
            self._in_body()

    def handle_websocket_upgrade(self) -> None:
        """The connection, with its place, goes over to a WebSocket."""
        if self._over:
            return
        self._over = True  # nothing more comes here
        self._stop_timer()
        self.ledger.proven(self)
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        if not self._over:
            self._refuse(BadRequestError())

    # --- the parser's callbacks ----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        self._began = True
        self._awaits = _Awaits.HEAD
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head has come."""
        if self._over:
            return
        # The sum is only worked out when it might be too large.
        if len(self.headers) > self._most_headers or (
            self._head_at_most > self._most_bytes and self._head_bytes() > self._most_bytes
        ):
            self._refuse(HeadTooLargeError(self._most_bytes, self._most_headers))
            return
        if len(self.pipeline) >= PIPELINED_MOST:
            self._close("pipelined")
            return
        self._headed = True
        self._awaits = _Awaits.BODY
        self._body_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of its body."""
        if not self._over:
            self._body_bytes += len(body)
            super().on_body(body)

    def on_message_complete(self) -> None:
        """All of it."""
        if self._over:
            return
        self._awaits = _Awaits.NOTHING
        self._wire_bytes = 0
        if self._fresh:
            self._fresh = False
            self.ledger.proven(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A reply has been sent, and the next request is begun."""
        super().on_response_complete()
        # uvicorn reads on after each reply: a client that sends without reading would fill the memory.
        if self.pipeline:
            self.flow.pause_reading()

    # --- requests that come in parts -----------------------------------------------------------------------

    def _head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _in_head(self) -> None:
        if self._began:
            self._wire_bytes = max(1, self._head_bytes())  # a part of a name is not known yet
            self._expect(_Awaits.HEAD)
        if self._wire_bytes > self._most_bytes or len(self.headers or ()) > self._most_headers:
            self._refuse(HeadTooLargeError(self._most_bytes, self._most_headers))

    def _in_body(self) -> None:
        if self._headed:
            self._wire_bytes = self._body_bytes
            self._expect(_Awaits.BODY)
        # Chunk extensions and trailers are no part of the body that its limit counts.
        if self._wire_bytes - WIRE_PER_BODY * self._body_bytes > self._most_bytes:
            self._refuse(HeadTooLargeError(self._most_bytes, self._most_headers))

    def _expect(self, awaits: _Awaits) -> None:
        self._awaits = awaits
        self._since_s = self.loop.time()
        self._last_call = False
        # One timer for the whole connection; when it comes too early, it is set again.
        if self._timer is None:
            self._timer = self.loop.call_at(self._due_s(), self._check)

    def _due_s(self) -> float:
        if self._awaits is _Awaits.HEAD:
            return self._since_s + self._head_s
        # Of a body that nobody reads any more, no amount gives more time.
        counted = 0 if self.cycle.response_complete else self._body_bytes
        return self._since_s + self._body_s + counted / BODY_BYTES_PER_S

    def _check(self) -> None:
        self._timer = None
        if self._awaits is _Awaits.NOTHING or self._over or self.transport.is_closing():
            return
        now_s = self.loop.time()
        if self._waits_for_us():
            self._since_s = now_s
        due_s = self._due_s()
        if now_s < due_s:
            self._timer = self.loop.call_at(due_s, self._check)
        elif not self._last_call:
            # The loop may have been busy: what the client has sent by now is read first.
            self._last_call = True
            self._timer = self.loop.call_later(LAST_CALL_S, self._check)
        else:
            self._expire()

    def _waits_for_us(self) -> bool:
        """The client cannot send on, or its last request is still being answered."""
        cycle = self.cycle
        if self.flow.read_paused or cycle is None:  # pyright: ignore[reportUnnecessaryComparison]
            return self.flow.read_paused
        if self._awaits is _Awaits.HEAD:
            return not cycle.response_complete
        return cycle.response_started and not cycle.response_complete

    def _expire(self) -> None:
        if self._awaits is _Awaits.HEAD and not self._wire_bytes:
            self._close("idle")  # browsers open connections ahead, and would take an answer for one to come
        elif self._awaits is _Awaits.HEAD:
            self._refuse(SlowRequestError("head", self._head_s))
        elif self.cycle.response_complete:
            self._close("body_unread")
        else:
            self._refuse(SlowRequestError("body", self._body_s))

    # --- refusals ------------------------------------------------------------------------------------------

    def _refuse(self, error: InferenceGymError) -> None:
        """Answer in the place of the application, and close."""
        self._over = True
        self._stop_timer()
        if not self._own_the_reply():
            self._close(error.code)
            return
        self.ledger.refused[error.code] += 1
        self.transport.write(_reply(error, self.server_state.default_headers))
        kind = type(self)
        if kind.lingering >= LINGERING_MOST or not self.transport.can_write_eof():
            self.transport.close()
            return
        kind.lingering += 1
        self.flow.resume_reading()
        self.transport.write_eof()
        self.loop.call_later(LINGER_S, self._end_linger)

    def _own_the_reply(self) -> bool:
        """Whether the next reply on this connection may be ours; the application's own is then void."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
            return True
        if self._awaits is not _Awaits.BODY or cycle.response_started or self.pipeline:
            return False
        cycle.disconnected = True
        cycle.message_event.set()
        return True

    def _end_linger(self) -> None:
        type(self).lingering -= 1
        self.transport.close()

    def _close(self, reason: str) -> None:
        self._over = True
        self.ledger.refused[reason] += 1
        self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class GuardedSocket(WebSocketsSansIOProtocol):
    """A WebSocket, which gives the connection's place back."""

    ledger: ClassVar[Connections]

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.ledger.leave(self)
        super().connection_lost(exc)


def protocols(ledger: Connections) -> dict[str, Any]:
    """The options ``http`` and ``ws`` of uvicorn."""
    return {
        "http": type("Http", (GuardedHttp,), {"ledger": ledger, "lingering": 0}),
        "ws": type("Socket", (GuardedSocket,), {"ledger": ledger}),
    }


def _reply(error: InferenceGymError, headers: list[tuple[bytes, bytes]]) -> bytes:
    body = error_body(error.code, error.message, error.hint)
    own = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    if error.status in (408, 429, 503):
        own.append((b"retry-after", b"%d" % RETRY_AFTER_S))
    lines = [b"%s: %s\r\n" % pair for pair in (*headers, *own)]
    return b"".join([STATUS_LINE[error.status], *lines, b"\r\n", body])
