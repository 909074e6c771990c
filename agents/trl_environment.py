"""The name by which documents know :mod:`agents.llm.trl_environment`; nothing else imports this."""

from agents.llm.trl_environment import *  # noqa: F403
