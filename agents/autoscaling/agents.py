"""Reference agents of InferenceGym/Autoscaling-v0 by name.

===========  ========================================================================================
name         policy
===========  ========================================================================================
random       a random move every interval
no_op        never does anything
scale_up     one more every interval, for ever
static       the best constant total for the task, found on seeds that no table uses
baseline     the threshold rule
hpa          Kubernetes' HorizontalPodAutoscaler on utilisation, documented defaults
kpa          Knative's pod autoscaler on concurrency, documented defaults
saturation   KV occupancy and queue, as llm-d judges saturation
forecast     level and trend of arrivals, looked ahead by a cold start
oracle       dynamic programming on a future that it knows; not a fair player
ppo          the network that PPO trained (:mod:`agents.ppo.demo`)
llm          a language model behind a chat service (needs a key, see :mod:`agents.llm.api`)
===========  ========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.autoscaling import controllers
from agents.shared import llm_agent, ppo_agent
from env.autoscaling.tasks import get_autoscaling_task
from inferencegym.errors import InferenceGymError
from inferencegym.models.autoscaling import AutoscalingAction

__all__ = ["AGENTS", "STATIC_REPLICAS"]

Factory = Callable[[str, int], Any]

STATIC_REPLICAS = {"balanced": 14, "high_traffic": 10, "failure_heavy": 24}
"""Constant totals with the best mean score."""


def _plain(make: Callable[[], Any]) -> Factory:
    """A factory of agents that need to know neither task nor seed."""

    def factory(task_id: str, seed: int) -> Any:
        get_autoscaling_task(task_id)
        return make()

    return factory


def random_agent(task_id: str, seed: int) -> controllers.RandomMoves:
    """Random moves; the seed of the episode also seeds the draws."""
    get_autoscaling_task(task_id)
    return controllers.RandomMoves(seed)


def static_agent(task_id: str, seed: int) -> controllers.Constant:
    """The best constant total. Raises InferenceGymError where none was measured."""
    task_id = get_autoscaling_task(task_id).info.id
    if task_id not in STATIC_REPLICAS:
        raise InferenceGymError(
            f"There is no measured constant for {task_id}.", f"It is there for {', '.join(STATIC_REPLICAS)}."
        )
    return controllers.Constant(AutoscalingAction(target_replicas=STATIC_REPLICAS[task_id]))


def oracle_agent(task_id: str, seed: int) -> Any:
    """Plans for (task, seed)."""
    from agents.autoscaling.oracle import Oracle

    return Oracle(task_id, seed)


AGENTS: dict[str, Factory] = {
    "random": random_agent,
    "no_op": _plain(controllers.Constant),
    "scale_up": _plain(lambda: controllers.Constant(AutoscalingAction(action="scale_up"))),
    "static": static_agent,
    "baseline": _plain(controllers.Threshold),
    "hpa": _plain(controllers.HPA),
    "kpa": _plain(controllers.KPA),
    "saturation": _plain(controllers.Saturation),
    "forecast": _plain(controllers.Forecast),
    "oracle": oracle_agent,
    "ppo": ppo_agent("autoscaling"),
    "llm": llm_agent("autoscaling"),
}
"""Factories ``(task_id, seed) -> agent``."""
