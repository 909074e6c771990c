"""Agents of any environment by name.

An environment's agents are the mapping behind ``EnvSpec.agents``: name to factory ``(task_id, seed) ->
Agent``. Factories import what they need when they are called, so that listing agents costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agents.llm.task_text import find_task
from env.checks import checked_seed
from env.protocols import Agent, TaskName
from inferencegym.errors import UnknownNameError
from inferencegym.registry import get_spec

__all__ = ["agent_names", "get_agent", "rule_name"]

_RULES = ("reactive", "heuristic", "baseline")
"""Names of agents that need neither training nor a service, the better one first."""


def agent_names(env_id: str) -> tuple[str, ...]:
    """Names of an environment's agents, simplest first."""
    return tuple(_agents(env_id))


def get_agent(env_id: str, name: str, task_id: TaskName, seed: int = 0) -> Agent:
    """A new agent, ready for ``reset``.

    Args:
        env_id: id or short name of the environment.
        name: name of the agent there.
        task_id: task that it will play.
        seed: seeds the agent's own draws; an episode's seed is a good choice.

    Raises:
        UnknownNameError: no such environment, agent or task; lists near matches.
        InvalidValueError: a seed outside what is allowed.
        InferenceGymError: the agent lacks something, for example a key or trained parameters.
    """
    agents = _agents(env_id)
    if not isinstance(name, str) or name not in agents:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UnknownNameError("agent", name, agents)
    task = find_task(get_spec(env_id), task_id)
    return agents[name](task.id, checked_seed(seed))


def rule_name(env_id: str) -> str:
    """Name of the environment's best agent that needs neither training nor a service."""
    agents = _agents(env_id)
    return next((name for name in _RULES if name in agents), next(iter(agents)))


def _agents(env_id: str) -> Mapping[str, Callable[[str, int], Agent]]:
    return get_spec(env_id).part("agents")
