"""A small client of OpenAI-compatible chat services: one method, one kind of error, bounded time.

=================================  =======================================================================
variable                           meaning
=================================  =======================================================================
``HF_TOKEN``, ``OPENAI_API_KEY``   the key; with both set, the one that belongs to ``API_BASE_URL``
``API_BASE_URL``                   address that ``/chat/completions`` is appended to
``MODEL_NAME``                     model to ask for
``LLM_TIMEOUT_S``                  longest wait for one answer, a second try included; default 30 seconds
=================================  =======================================================================

Without an address or a model the defaults of the key's own service are taken.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import isfinite
from socket import SHUT_RDWR
from threading import Timer
from typing import Any, Self, cast

import httpx
from pydantic_core import from_json

from inferencegym.connection import http_address
from inferencegym.errors import InferenceGymError, InvalidValueError

__all__ = ["ChatClient", "ChatError", "ChatSettings", "has_key"]

KEY_VARIABLES = ("HF_TOKEN", "OPENAI_API_KEY")

HUGGING_FACE_HOST = "huggingface.co"
_DEFAULTS = {
    "HF_TOKEN": ("https://router.huggingface.co/v1", "Qwen/Qwen2.5-72B-Instruct"),
    "OPENAI_API_KEY": ("https://api.openai.com/v1", "gpt-4o-mini"),
}

REPLY_BYTES_MAX = 1_000_000
"""A reply longer than this is refused: an action is some hundred bytes."""

TOKENS_MAX = 1024
"""Asked of the service as the longest answer; models that think aloud need most of it."""

RETRY_STATUS = frozenset({408, 429, 500, 502, 503, 504})
RETRY_PAUSE_S, RETRY_PAUSE_MAX_S = 1.0, 5.0

TIMEOUT_VARIABLE = "LLM_TIMEOUT_S"
TIMEOUT_S = 30.0
TIMEOUT_MAX_S = 3600.0
_TIMEOUT_ALLOWED = f"a number above 0 and up to {TIMEOUT_MAX_S:g}, seconds"


class ChatError(InferenceGymError):
    """The service gave no usable answer."""

    code = "chat_failed"
    status = 502


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """Where and what to ask."""

    base_url: str
    model: str
    api_key: str = field(repr=False)
    timeout_s: float = TIMEOUT_S
    """Longest wait for one whole answer, a second try included, seconds."""

    def __post_init__(self) -> None:
        http_address("API_BASE_URL", self.base_url)
        _check_word("MODEL_NAME", self.model, self.model)
        _check_key("api_key", self.api_key)
        if not 0.0 < self.timeout_s <= TIMEOUT_MAX_S:
            raise InvalidValueError("timeout_s", self.timeout_s, _TIMEOUT_ALLOWED)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read the variables above.

        Raises:
            InferenceGymError: there is no key.
            InvalidValueError: a variable holds what it may not (a key is named, never shown).
        """
        values = _given(os.environ if environ is None else environ)
        keys = [name for name in KEY_VARIABLES if name in values]
        if not keys:
            raise InferenceGymError(
                "The language-model agent needs a key.",
                f"Set {' or '.join(KEY_VARIABLES)}, and API_BASE_URL and MODEL_NAME unless the key's own "
                "service and its default model are meant.",
            )
        base_url = values.get("API_BASE_URL", "")
        if base_url and HUGGING_FACE_HOST not in base_url:
            keys.reverse()  # a Hugging Face token is for others only when there is no other key
        default_url, default_model = _DEFAULTS[keys[0]]
        _check_key(keys[0], values[keys[0]])
        address = http_address("API_BASE_URL", base_url or default_url)
        model = values.get("MODEL_NAME", default_model)
        return cls(address, model, values[keys[0]], _timeout_s(values.get(TIMEOUT_VARIABLE)))


def has_key(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the environment holds a key of a chat service."""
    values = _given(os.environ if environ is None else environ)
    return any(name in values for name in KEY_VARIABLES)


class ChatClient:
    """Asks for one answer at a time.

    Args:
        settings: service, model, key and time limit.
        transport: an httpx transport, for tests.
        pause: sleeps between the two tries, seconds.
    """

    def __init__(
        self,
        settings: ChatSettings,
        *,
        transport: httpx.BaseTransport | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings
        self._pause = pause
        self._options: dict[str, Any] = {"temperature": 0.0, "max_tokens": TOKENS_MAX}
        self._stream: Any = None
        """The newest connection to the service."""
        self._http = httpx.Client(
            headers={"authorization": f"Bearer {settings.api_key}"},
            timeout=settings.timeout_s,
            transport=transport,
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def complete(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The model's answer to a conversation.

        A busy or broken service is asked a second time, and so is one that refuses the optional
        parameters (some models take neither a temperature nor ``max_tokens``).

        Both tries together take ``timeout_s`` at most.

        Raises:
            ChatError: no connection, no answer in time, an HTTP error, or a body that is no answer.
        """
        deadline_s = time.monotonic() + self.settings.timeout_s
        try:
            status, body, wait_s = self._ask(messages, deadline_s)
        except httpx.ConnectError:
            status, body, wait_s = 503, b"", RETRY_PAUSE_S
        if status in RETRY_STATUS:
            self._pause(min(wait_s, max(0.0, deadline_s - time.monotonic())))
        elif status in (400, 422) and any(name.encode() in body for name in self._options):
            self._options = {}
        else:
            return self._read(status, body)
        try:
            return self._read(*self._ask(messages, deadline_s)[:2])
        except httpx.ConnectError as error:
            raise ChatError(f"no connection to {self.settings.base_url}: {error}") from None

    def _ask(self, messages: Sequence[Mapping[str, str]], deadline_s: float) -> tuple[int, bytes, float]:
        """One request: status, body, and seconds to wait before another."""
        url = f"{self.settings.base_url}/chat/completions"
        payload = {"model": self.settings.model, "messages": list(messages), **self._options}
        left_s = deadline_s - time.monotonic()
        late = ChatError(f"no complete answer within {self.settings.timeout_s:g} s.")
        if left_s <= 0.0:
            raise late
        body = bytearray()
        try:
            with (
                self._cut_after(left_s),
                self._http.stream(
                    "POST", url, json=payload, timeout=left_s, extensions={"trace": self._watch}
                ) as reply,
            ):
                for chunk in reply.iter_bytes():
                    body += chunk
                    if len(body) > REPLY_BYTES_MAX:
                        raise ChatError(f"the answer is longer than {REPLY_BYTES_MAX:,} bytes.")
                return reply.status_code, bytes(body), _retry_after_s(reply.headers.get("retry-after", ""))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if isinstance(error, httpx.TimeoutException) or time.monotonic() >= deadline_s:
                raise late from None
            if isinstance(error, httpx.ConnectError):
                raise
            raise ChatError(f"no answer from {self.settings.base_url}: {error!r}") from None

    def _watch(self, event: str, info: Mapping[str, Any]) -> None:
        """httpx tells each event of a request; those that open a connection come with its stream."""
        made = info.get("return_value")
        if event.endswith(".complete") and hasattr(made, "get_extra_info"):
            self._stream = made

    @contextmanager
    def _cut_after(self, seconds: float) -> Generator[None]:
        """End the connection when the time is over: httpx's own limit starts again with every byte."""

        def cut() -> None:
            connection = None if self._stream is None else self._stream.get_extra_info("socket")
            if connection is not None:
                with suppress(OSError):  # closed in the meantime
                    connection.shutdown(SHUT_RDWR)

        timer = Timer(seconds, cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _read(self, status: int, body: bytes) -> str:
        if status != 200:
            raise ChatError(f"HTTP {status} from {self.settings.base_url}: {_excerpt(body)}")
        return _content(body)


def _given(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that are set to something."""
    names = (*KEY_VARIABLES, "API_BASE_URL", "MODEL_NAME", TIMEOUT_VARIABLE)
    return {name: environ[name].strip() for name in names if environ.get(name, "").strip()}


def _check_word(field: str, text: str, shown: str) -> None:
    """One word of printable characters: it goes into a header or a line of output."""
    if not text or not text.isprintable() or " " in text:
        raise InvalidValueError(field, shown, "printable characters without spaces")


def _check_key(field: str, key: str) -> None:
    if not key.isascii():
        raise InvalidValueError(field, "(not shown)", "printable ASCII characters without spaces")
    _check_word(field, key, "(not shown)")


def _timeout_s(text: str | None) -> float:
    """LLM_TIMEOUT_S. Raises InvalidValueError."""
    if text is None:
        return TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds <= TIMEOUT_MAX_S:
        raise InvalidValueError(TIMEOUT_VARIABLE, text, _TIMEOUT_ALLOWED)
    return seconds


def _retry_after_s(header: str) -> float:
    try:
        asked_s = float(header)
    except ValueError:  # none, or an HTTP date
        asked_s = RETRY_PAUSE_S
    if not (isfinite(asked_s) and asked_s >= 0.0):
        asked_s = RETRY_PAUSE_S
    return min(asked_s, RETRY_PAUSE_MAX_S)


def _content(body: bytes) -> str:
    """The text of a chat completion. Raises ChatError naming what is missing."""
    try:
        message: Any = from_json(body)["choices"][0]["message"]
        content = message["content"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ChatError(f"the answer is no chat completion ({error!r}): {_excerpt(body)}") from None
    if isinstance(content, list):  # parts, as multimodal services send them
        content = "".join(_part_text(part) for part in cast("list[Any]", content))
    if not isinstance(content, str) or not content.strip():
        raise ChatError("the model gave an empty answer.")
    return content


def _part_text(part: Any) -> str:
    return str(cast("Mapping[str, Any]", part).get("text", "")) if isinstance(part, Mapping) else str(part)


def _excerpt(body: bytes) -> str:
    text = " ".join(body.decode(errors="replace").split())
    return repr(text if len(text) <= 160 else text[:157] + "...")
