"""Code that plays an episode on a server, ready to paste: made from an environment's registry entry."""

from __future__ import annotations

import json
from dataclasses import dataclass

from agents.registry import get_agent, rule_name
from server.bound import BoundEnv

__all__ = ["SERVER", "Snippet", "snippets_of"]

SERVER = "{server}"
"""Stands in a snippet for the address of the server, without a slash at its end."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """Text to paste. ``needs`` says what it takes to run it, with code between backticks."""

    title: str
    language: str
    needs: str
    text: str

    def at(self, server: str) -> str:
        """The text for a server's address."""
        return self.text.replace(SERVER, server)


def snippets_of(bound: BoundEnv) -> list[Snippet]:
    """The ways to play an environment. The action is the one that its rule starts with."""
    spec, task = bound.spec, bound.first_task
    action = _example_action(bound)
    module, _, model = spec.action_model.partition(":")
    name = "" if spec.name == "serving" else f', env="{spec.name}"'
    package = "Needs the package: `pip install .` in a checkout of the project."
    gym = "Needs the package with its extra gym: `pip install '.[gym]'` in a checkout of the project."
    return [
        Snippet(
            "curl",
            "bash",
            "Needs `curl`. One episode: start, a step, the grade so far.",
            _curl(bound, action),
        ),
        Snippet(
            "Python client",
            "python",
            package,
            f"""from inferencegym import InferenceGymClient

with InferenceGymClient("{SERVER}"{name}) as client:
    session = client.reset("{task}", seed=0)
    while not session.done:
        result = session.step({_arguments(action)})
    print(session.grade())
""",
        ),
        Snippet(
            "OpenEnv client",
            "python",
            package,
            f"""from inferencegym import InferenceGymEnv
from {module} import {model}

with InferenceGymEnv("{SERVER}"{name}).sync() as env:
    result = env.reset(task_id="{task}", seed=0)
    while not result.done:
        result = env.step({model}({_arguments(action)}))
    print(env.state())
""",
        ),
        Snippet(
            "gymnasium, on this server",
            "python",
            gym,
            f"""from inferencegym.gym import HTTPGymEnv

env = HTTPGymEnv("{SERVER}", task_id="{task}", env_id="{spec.name}")
{_GYM_LOOP}""",
        ),
        Snippet(
            "gymnasium, without a server",
            "python",
            gym,
            f"""import gymnasium
import inferencegym.gym

env = gymnasium.make("{spec.id}", task_id="{task}")
{_GYM_LOOP}""",
        ),
    ]


_GYM_LOOP = """observation, info = env.reset(seed=0)
done, total = False, 0.0
while not done:
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    done, total = terminated or truncated, total + reward
print("sum of rewards", total)
env.close()
"""


def _curl(bound: BoundEnv, action: dict[str, object]) -> str:
    start = json.dumps({"task_id": bound.first_task, "seed": 0})
    return f"""U={SERVER}{bound.spec.mount}
S=$(curl -s $U/reset -d '{start}' | sed 's/.*"session_id":"\\([^"]*\\)".*/\\1/')
curl -s $U/step -d '{{"session_id": "'$S'", "action": {json.dumps(action)}}}'; echo
curl -s $U/grader -d '{{"session_id": "'$S'"}}'; echo
"""


def _arguments(action: dict[str, object]) -> str:
    return ", ".join(f"{name}={value!r}".replace("'", '"') for name, value in action.items())


def _example_action(bound: BoundEnv) -> dict[str, object]:
    """What the environment's rule does first: an action that a person would take, every field in sight."""
    start = bound.start(None, 0, None, None)
    agent = get_agent(bound.spec.id, rule_name(bound.spec.id), start.task_id, 0)
    _, observation = bound.begin(start)
    agent.reset()
    return agent.act(observation).model_dump(mode="json", exclude_none=True)
