"""The language-model agent against a local chat service: good replies, bad ones, none at all."""

from __future__ import annotations

import json
import socket
import time
from threading import Thread

import pytest

from agents.llm.agent import FAILURES_MAX, LLMAgent
from agents.llm.api import ChatClient, ChatError, ChatSettings
from agents.registry import get_agent
from env.serving.episode import make_env
from inferencegym.errors import InferenceGymError, InvalidValueError
from inferencegym.models.serving import ServeAction
from tests.agents.llm.fake_chat import Answer, FakeChat, said


def agent_of(chat: FakeChat, task_id: str = "task3", decide_every: int = 1, **settings: float) -> LLMAgent:
    client = ChatClient(ChatSettings(chat.url, "fake-model", "key", **settings), pause=lambda _: None)
    return LLMAgent("serving", task_id, chat=client, decide_every=decide_every)


def play(agent: LLMAgent, steps: int, task_id: str = "task3") -> list[ServeAction]:
    env = make_env(task_id, seed=5)
    observation, actions = env.reset(), []
    for _ in range(steps):
        actions.append(agent.act(observation))
        observation = env.step(actions[-1])[0]
    return actions


def rule_actions(steps: int) -> list[ServeAction]:
    env = make_env("task3", seed=5)
    rule = get_agent("serving", "reactive", "task3", 5)
    observation, actions = env.reset(), []
    for _ in range(steps):
        actions.append(rule.act(observation))
        observation = env.step(actions[-1])[0]
    return actions


def test_plays_what_the_model_says(chat: FakeChat) -> None:
    agent = agent_of(chat)
    assert play(agent, 3) == [ServeAction(batch_size=96)] * 3
    assert (agent.calls, agent.fallbacks, agent.last_error) == (3, 0, None)
    agent.close()


def test_the_prompt_holds_task_fields_bounds_and_units(chat: FakeChat) -> None:
    play(agent_of(chat, "task2"), 2, "task2")
    system, user = (message["content"] for message in chat.requests[-1]["messages"])
    for words in ("300 ms", "spec_length (one of 0, 1, 2, 4, 8; default 0)", "from 1 to 512", "JSON"):
        assert words in system
    assert "prefill_disagg" not in system  # locked in this task
    assert "arrival_rate = " in user
    assert "req/s" in user
    assert '-> {"kv_budget":1.0,"spec_length":0,"batch_size":96}' in user  # the step before
    assert chat.requests[-1]["model"] == "fake-model"
    assert chat.keys[-1] == "Bearer key"


ODD_WAITS = ("nan", "inf", "-inf", "-3", "1e999", "", "Wed, 21 Oct 2026 07:28:00 GMT", "soon", "0x10")


@pytest.mark.parametrize("asked", ODD_WAITS)
def test_what_a_service_asks_to_wait_stays_within_bounds(chat: FakeChat, asked: str) -> None:
    waited: list[float] = []
    chat.answers = [Answer("busy", 429, {"retry-after": asked})]
    client = ChatClient(ChatSettings(chat.url, "m", "key"), pause=waited.append)
    assert client.complete([{"role": "user", "content": "hello"}]) == '{"batch_size": 96}'
    assert 0.0 <= waited[0] <= 5.0  # not a number is no pause


@pytest.mark.parametrize(
    "answer",
    [
        said("no idea"),
        said('{"batch_size": -1}'),
        said(""),
        said(None),
        Answer("not json"),
        Answer("{}"),
        Answer('{"choices": []}'),
        Answer("gone", 404),
        Answer("bad key", 401),
        Answer("broken", 500),
        Answer("busy", 429, {"retry-after": "0"}),
        *(Answer("busy", 503, {"retry-after": asked}) for asked in ODD_WAITS),
    ],
)
def test_a_bad_answer_costs_a_step_by_the_rule(chat: FakeChat, answer: Answer) -> None:
    agent = agent_of(chat)
    chat.answers = [answer] * (2 if answer.status in (500, 503, 429) else 1)
    actions = play(agent, 1)
    assert actions == rule_actions(1)
    assert agent.fallbacks == 1
    assert agent.last_error
    assert play(agent, 1) == [ServeAction(batch_size=96)]
    assert (agent.fallbacks, agent.last_error) == (1, None)


def test_a_busy_service_is_asked_again(chat: FakeChat) -> None:
    chat.answers = [Answer("busy", 429, {"retry-after": "0"})]
    agent = agent_of(chat)
    assert play(agent, 1) == [ServeAction(batch_size=96)]
    assert (agent.fallbacks, len(chat.requests)) == (0, 2)


def test_optional_parameters_are_dropped_when_refused(chat: FakeChat) -> None:
    chat.answers = [Answer('{"error": "max_tokens is not supported with this model"}', 400)]
    agent = agent_of(chat)
    play(agent, 2)
    assert agent.fallbacks == 0
    assert ["max_tokens" in request for request in chat.requests] == [True, False, False]


def test_content_may_come_in_parts(chat: FakeChat) -> None:
    chat.always = said([{"type": "text", "text": '{"batch_size": '}, {"type": "text", "text": "96}"}])
    assert play(agent_of(chat), 1) == [ServeAction(batch_size=96)]


def test_a_dead_service_never_costs_the_episode() -> None:
    settings = ChatSettings("http://127.0.0.1:9", "m", "key")
    agent = LLMAgent("serving", "task3", chat=ChatClient(settings, pause=lambda _: None))
    assert play(agent, 200) == rule_actions(200)
    assert agent.fallbacks == 200
    assert agent.calls == FAILURES_MAX  # then the rule plays the rest of the episode, and the report says so
    report = agent.report()
    assert report.figures == {"fallbacks": 200.0}
    for words in ("200 of 200 steps", "no connection to http://127.0.0.1:9", "given up after 3 failures"):
        assert words in report.note
    agent.reset()
    assert (agent.calls, agent.fallbacks, agent.report().note) == (0, 0, "")


def test_bad_replies_do_not_end_the_asking(chat: FakeChat) -> None:
    chat.always = said("I would rather not")
    agent = agent_of(chat)
    assert play(agent, 10) == rule_actions(10)
    assert (agent.calls, agent.fallbacks) == (10, 10)
    assert "given up" not in agent.report().note


def test_one_good_answer_starts_the_count_anew(chat: FakeChat) -> None:
    gone = Answer("gone", 404)
    chat.answers = [gone, gone, said('{"batch_size": 5}'), gone, gone]
    agent = agent_of(chat)
    assert [action.batch_size for action in play(agent, 7)][2:] == [5, *[128] * 2, 96, 96]
    assert (agent.calls, agent.fallbacks) == (7, 4)


def test_the_fallbacks_of_an_episode_are_no_lines_of_a_log(
    chat: FakeChat, caplog: pytest.LogCaptureFixture
) -> None:
    chat.always = Answer("wrong key", 401)
    play(agent_of(chat), 50)
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


def test_a_silent_service_is_left_after_its_time(chat: FakeChat) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        client = ChatClient(ChatSettings(url, "m", "key", timeout_s=0.2))
        with pytest.raises(ChatError, match=r"0\.2 s"):
            client.complete([{"role": "user", "content": "hello"}])


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n"])
def test_a_dripping_service_is_left_after_its_time(head: bytes) -> None:
    """In the header and in the body: a byte every 0.05 s would keep httpx's own limit from ever ending."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sent: list[int] = []

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(head or b"HTTP/1.1 200 OK\r\nx-slow: ")
                try:
                    for number in range(400):
                        connection.sendall(b"x")
                        sent.append(number)
                        time.sleep(0.05)
                except OSError:
                    pass

        thread = Thread(target=drip, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        client = ChatClient(ChatSettings(url, "m", "key", timeout_s=0.4))
        with pytest.raises(ChatError, match=r"within 0\.4 s"):
            client.complete([{"role": "user", "content": "hello"}])
        client.close()
        thread.join(30)
        assert len(sent) < 400  # it was cut off


def test_both_tries_share_one_limit(chat: FakeChat) -> None:
    chat.always = Answer("busy", 429, {"retry-after": "5"})
    waited: list[float] = []
    client = ChatClient(ChatSettings(chat.url, "m", "key", timeout_s=0.5), pause=waited.append)
    with pytest.raises(ChatError, match="429"):
        client.complete([{"role": "user", "content": "hello"}])
    assert waited[0] <= 0.5


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf", "1e9"])
def test_the_time_limit_is_a_variable(text: str) -> None:
    assert ChatSettings.from_environment({"HF_TOKEN": "h"}).timeout_s == 30.0
    assert ChatSettings.from_environment({"HF_TOKEN": "h", "LLM_TIMEOUT_S": "2.5"}).timeout_s == 2.5
    with pytest.raises(InvalidValueError, match="LLM_TIMEOUT_S"):
        ChatSettings.from_environment({"HF_TOKEN": "h", "LLM_TIMEOUT_S": text})


def test_an_answer_that_never_ends_is_refused(chat: FakeChat) -> None:
    chat.always = Answer("x" * 2_000_000)
    agent = agent_of(chat)
    play(agent, 1)
    assert "longer than" in str(agent.last_error)


def test_an_answer_can_be_kept_for_several_steps(chat: FakeChat) -> None:
    agent = agent_of(chat, decide_every=5)
    chat.answers = [said('{"batch_size": 10}'), said('{"batch_size": 20}')]
    assert [action.batch_size for action in play(agent, 10)] == [10] * 5 + [20] * 5
    assert agent.calls == 2


def test_decide_every_must_be_positive(chat: FakeChat) -> None:
    with pytest.raises(InvalidValueError, match="decide_every"):
        agent_of(chat, decide_every=0)


def test_without_a_key_it_says_so() -> None:
    with pytest.raises(InferenceGymError, match=r"HF_TOKEN or OPENAI_API_KEY"):
        get_agent("serving", "llm", "task1")


def test_the_registry_reads_the_environment_variables(chat_key: FakeChat) -> None:
    agent = get_agent("serving", "llm", "task1")
    assert agent.act(make_env("task1").reset()) == ServeAction(batch_size=96)
    assert chat_key.requests[0]["model"] == "fake-model"
    assert chat_key.keys == ["Bearer secret-key"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"HF_TOKEN": "h"}, ("https://router.huggingface.co/v1", "h")),
        ({"OPENAI_API_KEY": "o"}, ("https://api.openai.com/v1", "o")),
        ({"HF_TOKEN": "h", "OPENAI_API_KEY": "o"}, ("https://router.huggingface.co/v1", "h")),
        (
            {"HF_TOKEN": "h", "OPENAI_API_KEY": "o", "API_BASE_URL": "http://here/v1/"},
            ("http://here/v1", "o"),
        ),
        ({"HF_TOKEN": "h", "API_BASE_URL": "http://here/v1"}, ("http://here/v1", "h")),
        ({"HF_TOKEN": " ", "OPENAI_API_KEY": "o"}, ("https://api.openai.com/v1", "o")),
    ],
)
def test_which_key_goes_where(variables: dict[str, str], expected: tuple[str, str]) -> None:
    settings = ChatSettings.from_environment(variables)
    assert (settings.base_url, settings.api_key) == expected
    assert "api_key" not in repr(settings)


@pytest.mark.parametrize(
    "address", ["localhost:8000", "http://", "https:///v1", "ftp://here/v1", "http://a\nb"]
)
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(InvalidValueError, match="API_BASE_URL") as caught:
        ChatSettings.from_environment({"OPENAI_API_KEY": "o", "API_BASE_URL": address})
    assert repr(address) in caught.value.message  # as it was given


@pytest.mark.parametrize("variable", ["HF_TOKEN", "OPENAI_API_KEY"])
@pytest.mark.parametrize("key", ["schlüssel", "sec\nret", "sec ret", "sec\udc80ret", "sec\x00ret"])
def test_a_key_that_no_header_holds_is_named_and_not_shown(variable: str, key: str) -> None:
    with pytest.raises(InvalidValueError, match=variable) as caught:
        ChatSettings.from_environment({variable: key})
    assert key[:3] not in str(caught.value).replace(variable, "")
    with pytest.raises(InvalidValueError, match="api_key"):
        ChatSettings("http://here/v1", "m", key)


@pytest.mark.parametrize("model", ["a\nb", "a b", "a\x1b[2J", "a\udcff"])
def test_a_model_is_one_word(model: str) -> None:
    with pytest.raises(InvalidValueError, match="MODEL_NAME"):
        ChatSettings.from_environment({"OPENAI_API_KEY": "o", "MODEL_NAME": model})


def test_errors_do_not_hold_the_key(chat: FakeChat) -> None:
    chat.always = Answer(json.dumps({"error": "bad key"}), 401)
    client = ChatClient(ChatSettings(chat.url, "m", "very-secret"))
    with pytest.raises(ChatError) as caught:
        client.complete([{"role": "user", "content": "hello"}])
    assert "401" in str(caught.value)
    assert "very-secret" not in str(caught.value)
