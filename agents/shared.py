"""Agents that any environment of the registry can offer; each imports what it needs when it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.llm.task_text import find_task
from inferencegym.errors import InferenceGymError
from inferencegym.registry import get_spec

__all__ = ["llm_agent", "ppo_agent"]

Factory = Callable[[str, int], Any]


def ppo_agent(env: str) -> Factory:
    """The policy that ``agents.ppo.demo`` trained on an environment (short name).

    What it returns raises InferenceGymError when a task has no policy, or the extra ``gym`` is missing.
    """

    def make(task_id: str, seed: int) -> Any:
        try:
            from agents.ppo.policy import load_agent
        except ModuleNotFoundError as missing:
            raise InferenceGymError(
                f"The agent ppo needs {missing.name}.", "Install the extra: pip install 'inferencegym[gym]'."
            ) from None
        return load_agent(env, find_task(get_spec(env), task_id).id)

    return make


def llm_agent(env: str) -> Factory:
    """A language model, named by environment variables, on an environment (short name).

    What it returns raises InferenceGymError without a key.
    """

    def make(task_id: str, seed: int) -> Any:
        from agents.llm.agent import LLMAgent

        return LLMAgent(env, task_id, seed)

    return make
