"""A language model as an agent of any environment, over an OpenAI-compatible chat service.

The prompt holds the task's own text, the action's fields with their bounds, and the observation in words
with its units. A service that fails or a reply that holds no valid action costs a fallback action by the
environment's reactive rule, never the episode; ``fallbacks`` counts them, ``last_error`` says why, and
``report`` tells it to whoever shows the score. After three failures of the service in a row the rule plays
the rest of the episode.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from typing import Any

from pydantic import BaseModel

from agents.llm.api import ChatClient, ChatError, ChatSettings
from agents.llm.reply import parse_reply
from agents.llm.task_text import describe_observation, find_task, open_fields, task_text
from agents.registry import get_agent, rule_name
from env.protocols import Agent, AgentReport
from inferencegym.errors import InferenceGymError, InvalidValueError
from inferencegym.registry import get_spec

__all__ = ["LLMAgent"]

FAILURES_MAX = 3
"""Calls in a row that the service may fail before it is left alone for the rest of the episode: a dead one
would otherwise cost its time limit at every one of 200 steps. A reply without a valid action is no failure of
the service."""

_log = logging.getLogger(__name__)

_RULES = """\
You control a running system, one action per step. Reply with one JSON object that holds the action fields
you choose, and nothing else. Fields you leave out take their defaults, so repeat those you want to keep."""


class LLMAgent:
    """Asks a language model for every action.

    Args:
        env_id: id or short name of the environment.
        task_id: task that is played.
        seed: seeds the fallback agent.
        chat: the service; by default the one that the environment variables name (:mod:`agents.llm.api`).
        decide_every: steps for which an answer is kept, by default the variable ``LLM_DECIDE_EVERY``, else
            1: ask at every step.
        memory: earlier steps that the prompt repeats.

    Raises:
        UnknownNameError: no such environment or task.
        InferenceGymError: no key of a chat service in the environment variables.
    """

    def __init__(
        self,
        env_id: str,
        task_id: str,
        seed: int = 0,
        *,
        chat: ChatClient | None = None,
        decide_every: int | None = None,
        memory: int = 3,
    ) -> None:
        self._decide_every = _decide_every() if decide_every is None else decide_every
        if self._decide_every < 1:
            raise InvalidValueError("decide_every", decide_every, "a whole number from 1 up")
        spec = get_spec(env_id)
        task = find_task(spec, task_id)
        self.chat = ChatClient(ChatSettings.from_environment()) if chat is None else chat
        self.fallback: Agent = get_agent(env_id, rule_name(env_id), task_id, seed)
        self._model: type[BaseModel] = spec.part("action_model")
        self._fields = open_fields(spec, task)
        self._system = f"{task_text(spec, task)}\n\n{_RULES}"
        self._history: deque[str] = deque(maxlen=memory)
        self.reset()

    def reset(self) -> None:
        """Forget the episode and its counters."""
        self.fallback.reset()
        self._history.clear()
        self._action: BaseModel | None = None
        self._step = self._failures = 0
        self._reason = ""
        self.calls = 0
        """Questions put to the service in this episode."""
        self.fallbacks = 0
        """Steps of this episode that the rule decided."""
        self.last_error: str | None = None
        """Why the rule decided the last step; None when the model did."""
        self.notes: tuple[str, ...] = ()
        """What was overlooked in the last reply."""

    def act(self, observation: BaseModel) -> Any:
        """The model's action, or the rule's."""
        rule = self.fallback.act(observation)  # every step: it may keep a state of its own
        self.last_error, self.notes = None, ()
        due = self._step % self._decide_every == 0
        self._step += 1
        if due or self._action is None:
            action = self._decide(observation)
            self._action = action
            if action is None:
                self.fallbacks += 1
                self._reason = self._reason or str(self.last_error)
                _log.info("step %d: the rule decides: %s", self._step, self.last_error)
                return rule
        return self._action

    def report(self) -> AgentReport:
        """How many steps of this episode the rule decided, and why the first of them."""
        note = ""
        if self.fallbacks:
            note = f"the rule decided {self.fallbacks} of {self._step} steps, first because: {self._reason}"
            if self._failures >= FAILURES_MAX:
                note += f" (the service was given up after {FAILURES_MAX} failures in a row)"
        return AgentReport({"fallbacks": float(self.fallbacks)}, note)

    def close(self) -> None:
        """Close the connections to the service."""
        self.chat.close()

    def _decide(self, observation: BaseModel) -> BaseModel | None:
        """The model's action; None when there is none, with ``last_error`` saying why."""
        if self._failures >= FAILURES_MAX:
            self.last_error = f"not asked any more in this episode: {FAILURES_MAX} calls in a row failed"
            return None
        self.calls += 1
        try:
            text = self.chat.complete(self._messages(observation))
            self._failures = 0
            action, self.notes = parse_reply(text, self._model, self._fields)
        except InferenceGymError as error:
            self._failures += isinstance(error, ChatError)
            self.last_error = error.message
            return None
        self._remember(observation, action)
        return action

    def _messages(self, observation: BaseModel) -> list[dict[str, str]]:
        parts = ["Earlier steps, observation -> your action:", *self._history] if self._history else []
        parts.append(f"Observation now:\n{describe_observation(observation)}\n\nYour action as JSON:")
        return [
            {"role": "system", "content": self._system},
            {"role": "user", "content": "\n".join(parts)},
        ]

    def _remember(self, observation: BaseModel, action: BaseModel) -> None:
        seen = observation.model_dump_json()
        chosen = action.model_dump_json(include=set(self._fields))
        self._history.append(f"{seen} -> {chosen}")


def _decide_every() -> int:
    text = os.environ.get("LLM_DECIDE_EVERY", "").strip() or "1"
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise InvalidValueError("LLM_DECIDE_EVERY", text, "a whole number from 1 up")
    return int(text)
