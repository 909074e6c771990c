"""The name by which documents know :mod:`agents.llm.trl_environment`; nothing else imports this."""

from agents.llm.trl_environment import *  # noqa: F403
from agents.llm.trl_environment import __all__
