"""A small client of OpenAI-compatible chat services: one method, one kind of error, bounded time.

=================================  =======================================================================
variable                           meaning
=================================  =======================================================================
``HF_TOKEN``, ``OPENAI_API_KEY``   the key; with both set, the one that belongs to ``API_BASE_URL``
``API_BASE_URL``                   address that ``/chat/completions`` is appended to
``MODEL_NAME``                     model to ask for
=================================  =======================================================================

Without an address or a model the defaults of the key's own service are taken.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

import httpx
from pydantic_core import from_json

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
    timeout_s: float = 30.0
    """Longest wait for one whole answer, seconds."""

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise InvalidValueError("API_BASE_URL", self.base_url, "an http:// or https:// address")
        if self.timeout_s <= 0.0:
            raise InvalidValueError("timeout_s", self.timeout_s, "a number above 0")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read the variables above. Raises InferenceGymError when there is no key."""
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
        return cls(
            (base_url or default_url).rstrip("/"), values.get("MODEL_NAME", default_model), values[keys[0]]
        )


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

        Raises:
            ChatError: no connection, no answer in time, an HTTP error, or a body that is no answer.
        """
        try:
            status, body, wait_s = self._ask(messages)
        except httpx.ConnectError:
            status, body, wait_s = 503, b"", RETRY_PAUSE_S
        if status in RETRY_STATUS:
            self._pause(wait_s)
        elif status in (400, 422) and any(name.encode() in body for name in self._options):
            self._options = {}
        else:
            return self._read(status, body)
        try:
            return self._read(*self._ask(messages)[:2])
        except httpx.ConnectError as error:
            raise ChatError(f"no connection to {self.settings.base_url}: {error}") from None

    def _ask(self, messages: Sequence[Mapping[str, str]]) -> tuple[int, bytes, float]:
        """One request: status, body, and seconds to wait before another."""
        url = f"{self.settings.base_url}/chat/completions"
        payload = {"model": self.settings.model, "messages": list(messages), **self._options}
        deadline_s = time.monotonic() + self.settings.timeout_s
        body = bytearray()
        try:
            with self._http.stream("POST", url, json=payload) as reply:
                for chunk in reply.iter_bytes():
                    body += chunk
                    # The HTTP client's own timeout starts again with every byte that drips in.
                    if time.monotonic() > deadline_s:
                        raise ChatError(f"no complete answer within {self.settings.timeout_s:g} s.")
                    if len(body) > REPLY_BYTES_MAX:
                        raise ChatError(f"the answer is longer than {REPLY_BYTES_MAX:,} bytes.")
                return reply.status_code, bytes(body), _retry_after_s(reply.headers.get("retry-after", ""))
        except httpx.ConnectError:
            raise
        except httpx.TimeoutException:
            raise ChatError(f"no answer within {self.settings.timeout_s:g} s.") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ChatError(f"no answer from {self.settings.base_url}: {error!r}") from None

    def _read(self, status: int, body: bytes) -> str:
        if status != 200:
            raise ChatError(f"HTTP {status} from {self.settings.base_url}: {_excerpt(body)}")
        return _content(body)


def _given(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that are set to something."""
    names = (*KEY_VARIABLES, "API_BASE_URL", "MODEL_NAME")
    return {name: environ[name].strip() for name in names if environ.get(name, "").strip()}


def _retry_after_s(header: str) -> float:
    try:
        asked_s = float(header)
    except ValueError:  # none, or an HTTP date
        asked_s = RETRY_PAUSE_S
    return min(max(asked_s, 0.0), RETRY_PAUSE_MAX_S)


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
