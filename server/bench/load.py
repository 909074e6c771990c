"""Load generator of the benchmark: raw sockets on asyncio, requests prepared as bytes.

``python -m server.bench.load KIND PORT CLIENTS SECONDS < plan.json`` prints the steps answered a second.
KIND is ``http`` or ``ws`` for the real server, ``http-echo`` or ``ws-echo`` for the yardstick. It parses
no JSON but the replies to resets and builds no objects: about 10 µs of one core a request, several times
less than any of the servers needs.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

__all__ = ["main"]

WARM_UP_S = 0.5


class Load:
    """What to send, and the steps answered since the warm-up ended."""

    def __init__(self, plan: dict[str, Any], echo: bool) -> None:
        self.actions = [json.dumps(action).encode() for action in plan["actions"]]
        self.task = json.dumps({"task_id": plan["task_id"]}).encode()
        self.episode_length: int = plan["episode_length"]
        self.echo = echo
        self.steps = 0
        self.start_s = time.perf_counter() + WARM_UP_S

    def count(self) -> None:
        if time.perf_counter() >= self.start_s:
            self.steps += 1


class Client(asyncio.Protocol):
    """Plays episode after episode on one connection: reset, steps, reset. The echo never resets."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._left = sys.maxsize if load.echo else 0
        self._resetting = False
        self._buffer = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._opened()

    def _opened(self) -> None:
        self._next()

    def _next(self) -> None:
        self._resetting = self._left == 0
        if self._resetting:
            self._left = self._load.episode_length
            self._transport.write(self._reset())
        else:
            self._left -= 1
            self._transport.write(self._step(self._left % len(self._load.actions)))

    def _answered(self, reply: bytes) -> None:
        self._buffer = b""
        if self._resetting:
            self._started(reply)
        else:
            self._load.count()
        self._next()

    def _reset(self) -> bytes:
        raise NotImplementedError

    def _step(self, index: int) -> bytes:
        raise NotImplementedError

    def _started(self, reply: bytes) -> None:
        """A reset was answered."""


class HttpClient(Client):
    """A keep-alive connection."""

    def __init__(self, load: Load) -> None:
        super().__init__(load)
        self._prepare(b"0" * 32)

    def _prepare(self, session: bytes) -> None:
        self._requests = [
            _post(b"/step", b'{"session_id":"%s","action":%s}' % (session, action))
            for action in self._load.actions
        ]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if not separator or len(body) < _content_length(head):
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(self._buffer[:400].decode())
        self._answered(body)

    def _reset(self) -> bytes:
        return _post(b"/reset", self._load.task)

    def _step(self, index: int) -> bytes:
        return self._requests[index]

    def _started(self, reply: bytes) -> None:
        self._prepare(json.loads(reply)["session_id"].encode())


class WsClient(Client):
    """A WebSocket."""

    HANDSHAKE = (
        b"GET /ws HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        b"sec-websocket-key: MDEyMzQ1Njc4OTAxMjM0NQ==\r\nsec-websocket-version: 13\r\n\r\n"
    )

    def __init__(self, load: Load) -> None:
        super().__init__(load)
        self._is_open = False
        self._frames = [_frame(b'{"type":"step","data":%s}' % action) for action in load.actions]

    def _opened(self) -> None:
        self._transport.write(self.HANDSHAKE)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._is_open:
            if b"\r\n\r\n" in self._buffer:
                self._is_open, self._buffer = True, b""
                self._next()
            return
        message = _payload(self._buffer)
        if message is None:
            return
        if message.startswith(b'{"type":"error"'):
            raise RuntimeError(message[:400].decode())
        self._answered(message)

    def _reset(self) -> bytes:
        return _frame(b'{"type":"reset","data":%s}' % self._load.task)

    def _step(self, index: int) -> bytes:
        return self._frames[index]


def _post(path: bytes, body: bytes) -> bytes:
    head = b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d"
    return (head + b"\r\n\r\n%s") % (path, len(body), body)


def _content_length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])


def _frame(text: bytes) -> bytes:
    """A client's text frame (RFC 6455); its mask is zero, so the payload stays as it is."""
    size = len(text)
    head = bytes((0x81, 0x80 | size)) if size < 126 else bytes((0x81, 0xFE)) + size.to_bytes(2)
    return head + b"\0\0\0\0" + text


def _payload(frame: bytes) -> bytes | None:
    """Payload of a server's frame; None while it is incomplete."""
    if len(frame) < 4:
        return None
    start, size = 2, frame[1]
    if size == 126:
        start, size = 4, int.from_bytes(frame[2:4])
    return frame[start:] if len(frame) >= start + size else None


async def _run(kind: str, port: int, clients: int, seconds: float, plan: dict[str, Any]) -> float:
    load = Load(plan, kind.endswith("echo"))
    protocol = WsClient if kind.startswith("ws") else HttpClient
    failures: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: failures.append(context.get("exception")))
    for _ in range(clients):
        await loop.create_connection(lambda: protocol(load), "127.0.0.1", port)
    await asyncio.sleep(load.start_s + seconds - time.perf_counter())
    if failures:
        raise SystemExit(f"a client failed: {failures[0]!r}")
    return load.steps / (time.perf_counter() - load.start_s)


def main() -> None:
    """Print the steps per second."""
    import uvloop

    kind, port, clients, seconds = sys.argv[1:]
    plan = json.load(sys.stdin)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(runner.run(_run(kind, int(port), int(clients), float(seconds), plan)))


if __name__ == "__main__":
    main()
