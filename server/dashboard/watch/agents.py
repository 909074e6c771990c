"""Which agents the page lets its visitors watch."""

from __future__ import annotations

from agents.registry import agent_names
from inferencegym.errors import InferenceGymError

__all__ = ["PAID", "AgentOffError", "agents_shown", "check_agent"]

PAID = frozenset({"llm"})
"""Agents whose steps somebody pays for: each is a call of the chat service whose key the server has."""


class AgentOffError(InferenceGymError):
    """An agent that this server lets nobody play on its page."""

    code = "agent_off"
    status = 403

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The agent {name!r} does not play on this page: each of its steps is a paid call.",
            "The operator allows it with INFERENCEGYM_WEB_LLM=true; on your own machine: inferencegym run.",
        )


def agents_shown(env_id: str, paid: bool) -> list[str]:
    """Names of an environment's agents, simplest first, without the paid ones unless ``paid`` allows them."""
    return [name for name in agent_names(env_id) if paid or name not in PAID]


def check_agent(name: object, paid: bool) -> None:
    """Raises AgentOffError: a visitor asks, by whatever way, for an agent that is off."""
    if name in PAID and not paid:
        raise AgentOffError(str(name))
