"""``python -m agents.studies.routing_waiting``: what waiting for cleaner hours brings, paired by day.

A router plays each day twice: as it is, and answering at once wherever it would wait.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agents.command_line import plain_errors
from agents.compare.compare import Mean, parse_seeds
from agents.registry import get_agent
from env.protocols import Agent
from env.routing.episode import make_env
from inferencegym.models.routing import RoutingAction, RoutingObservation, Strategy
from inferencegym.options import OptionParser

__all__ = ["AtOnce", "gains", "main"]


class AtOnce:
    """Another agent that answers at once, on the same model, where it would wait."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def reset(self) -> None:
        """Start the other one over."""
        self._agent.reset()

    def act(self, observation: RoutingObservation) -> RoutingAction:
        """The other one's action, without WAIT."""
        action: RoutingAction = self._agent.act(observation)
        waits = action.strategy == Strategy.WAIT
        return action.model_copy(update={"strategy": Strategy.NONE}) if waits else action


def gains(name: str, task_id: str, seeds: Sequence[int]) -> tuple[Mean, Mean, Mean]:
    """With minus without WAIT a day: sum of rewards, g CO₂, and the g CO₂ of the days without."""
    days = np.array(
        [
            _day(get_agent("routing", name, task_id, seed), task_id, seed)
            + _day(AtOnce(get_agent("routing", name, task_id, seed)), task_id, seed)
            for seed in seeds
        ]
    )
    return Mean.of(days[:, 0] - days[:, 2]), Mean.of(days[:, 1] - days[:, 3]), Mean.of(days[:, 3])


def _day(agent: Agent, task_id: str, seed: int) -> tuple[float, float]:
    env, total = make_env(task_id, seed), 0.0
    observation = env.reset()
    agent.reset()
    while not env.done:
        observation, reward, _, _ = env.step(agent.act(observation))
        total += reward
    return total, float(env.state()["co2_g"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = OptionParser(description="What waiting for cleaner hours brings, paired by day.")
    parser.add_argument("--seeds", default="100-119", help="a range, a list, or a count (default 100-119)")
    options = parser.parse_args(arguments)
    with plain_errors(parser):
        seeds = parse_seeds(options.seeds)
    print("| task | router | reward a day | g CO₂ a day | share |\n| --- | --- | ---: | ---: | ---: |")
    for task_id in ("stream_2", "stream_3"):
        for name in ("lookahead", "heuristic"):
            reward, co2_g, without = gains(name, task_id, seeds)
            cells = (f"{mean.value:+.3f} ± {mean.half_width or 0.0:.3f}" for mean in (reward, co2_g))
            print(f"| {task_id} | `{name}` | {' | '.join(cells)} | {co2_g.value / without.value:+.1%} |")


if __name__ == "__main__":
    main()
