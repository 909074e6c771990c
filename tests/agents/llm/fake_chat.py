"""A local stand-in for an OpenAI-compatible chat service that answers from a script."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """One HTTP answer."""

    body: str
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def said(content: Any) -> Answer:
    """A chat completion with this content."""
    return Answer(json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}))


@dataclass
class FakeChat:
    """What was asked, and what will be answered: ``answers`` in turn, then ``always``."""

    url: str = ""
    always: Answer = field(default_factory=lambda: said('{"batch_size": 96}'))
    answers: list[Answer] = field(default_factory=list)
    delay_s: float = 0.0
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


@contextmanager
def fake_chat() -> Iterator[FakeChat]:
    """Serve on a free port of this machine."""
    chat = FakeChat()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            chat.requests.append(json.loads(self.rfile.read(length)))
            chat.keys.append(self.headers.get("authorization", ""))
            time.sleep(chat.delay_s)
            answer = chat.answers.pop(0) if chat.answers else chat.always
            if not self.path.endswith("/v1/chat/completions"):
                answer = Answer("no such path", 404)
            body = answer.body.encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    chat.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
