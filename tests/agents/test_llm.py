"""The language-model agent against a local chat service: good replies, bad ones, none at all."""

from __future__ import annotations

import json

import pytest

from agents.llm import FAILURES_MAX, REST_STEPS, LLMAgent
from agents.llm_api import ChatClient, ChatError, ChatSettings
from agents.registry import get_agent
from env.serving import make_env
from inferencegym.errors import InferenceGymError, InvalidValueError
from inferencegym.models import ServeAction
from tests.agents.fake_chat import Answer, FakeChat, said


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
    ],
)
def test_a_bad_answer_costs_a_step_by_the_rule(chat: FakeChat, answer: Answer) -> None:
    agent = agent_of(chat)
    chat.answers = [answer] * (2 if answer.status in (500, 429) else 1)
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
    rests = [REST_STEPS, 2 * REST_STEPS, 4 * REST_STEPS, 8 * REST_STEPS]  # left alone, ever longer
    assert sum(rests[:3]) < 200 < sum(rests)
    assert agent.calls == 4 * FAILURES_MAX
    agent.reset()
    assert (agent.calls, agent.fallbacks) == (0, 0)


def test_a_silent_service_is_left_after_its_time(chat: FakeChat) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        client = ChatClient(ChatSettings(url, "m", "key", timeout_s=0.2))
        with pytest.raises(ChatError, match=r"0\.2 s"):
            client.complete([{"role": "user", "content": "hello"}])


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


def test_an_address_that_is_none() -> None:
    with pytest.raises(InvalidValueError, match="API_BASE_URL"):
        ChatSettings.from_environment({"OPENAI_API_KEY": "o", "API_BASE_URL": "localhost:8000"})


def test_errors_do_not_hold_the_key(chat: FakeChat) -> None:
    chat.always = Answer(json.dumps({"error": "bad key"}), 401)
    client = ChatClient(ChatSettings(chat.url, "m", "very-secret"))
    with pytest.raises(ChatError) as caught:
        client.complete([{"role": "user", "content": "hello"}])
    assert "401" in str(caught.value)
    assert "very-secret" not in str(caught.value)
