from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agents.llm.fake_chat import FakeChat, fake_chat

CHAT_VARIABLES = ("HF_TOKEN", "OPENAI_API_KEY", "API_BASE_URL", "MODEL_NAME")


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may meet a real key of the machine it runs on."""
    for name in CHAT_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def chat() -> Iterator[FakeChat]:
    with fake_chat() as open_chat:
        yield open_chat


@pytest.fixture
def chat_key(chat: FakeChat, monkeypatch: pytest.MonkeyPatch) -> FakeChat:
    """The stand-in, as the environment variables name it."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    monkeypatch.setenv("API_BASE_URL", chat.url)
    monkeypatch.setenv("MODEL_NAME", "fake-model")
    return chat
