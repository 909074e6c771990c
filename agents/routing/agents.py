"""Reference agents of InferenceGym/Routing-v0 by name.

============  =======================================================================================
name          policy
============  =======================================================================================
random        uniform over strategies, models and flag, afresh every query
baseline      the default action for ever: MEDIUM alone
always_small  SMALL alone
always_large  LARGE alone
always_cache  the cache for every query, MEDIUM where it misses
heuristic     rules that an operator would write down: cache, knowledge base, cleaner hours, then a cascade
lookahead     the highest expected reward of all actions, from what is observed and the published figures
optimal       the exact optimum of a classic game; on a stream a clairvoyant router, query by query
ppo           the network that PPO trained (:mod:`agents.ppo.demo`)
llm           a language model behind a chat service (needs a key, see :mod:`agents.llm.api`)
============  =======================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from agents.shared import llm_agent, ppo_agent
from env.routing.episode import make_env
from env.routing.tasks import get_task
from grader.routing.anchors import clairvoyant_action
from inferencegym.models.routing import ModelChoice, RoutingAction, RoutingObservation, Strategy

__all__ = ["AGENTS", "Constant", "Heuristic", "Optimal", "UniformRandom"]

CACHE_SIMILARITY = 0.8
CACHE_AGE_MAX_H = 8.0
KB_AGE_MAX_H = 8.0
MARGIN = 0.0
"""What a model's accuracy must exceed the difficulty estimate by."""
CARBON_FALL = 0.9
"""A query that may wait does so when the forecast is below this share of the present carbon intensity."""


class UniformRandom:
    """Draws every field afresh; the seed of the episode also seeds the draws."""

    def __init__(self, task_id: str, seed: int) -> None:
        get_task(task_id)
        self._seed = seed
        self.reset()

    def reset(self) -> None:
        """Start the draws over."""
        self._rng = np.random.default_rng(self._seed)

    def act(self, observation: RoutingObservation) -> RoutingAction:
        """Any action."""
        strategy, model, flag = (int(self._rng.integers(count)) for count in (6, 3, 2))
        return RoutingAction(
            strategy=Strategy(strategy), model_choice=ModelChoice(model), exit_flag=bool(flag)
        )


class Constant:
    """One action for ever."""

    def __init__(self, action: RoutingAction) -> None:
        self.action = action

    def reset(self) -> None:
        """Nothing to forget."""

    def act(self, observation: RoutingObservation) -> RoutingAction:
        """The action."""
        return self.action


class Heuristic:
    """A fresh and near cached answer; else a fresh passage; else, where a model above SMALL is needed and
    carbon falls within the deadline, waiting; else a cascade that stops at the first answer that passes the
    check.

    A classic game shows how hard a query is: there the smallest model that will do, without a cascade.
    """

    def __init__(self, task_id: str, seed: int) -> None:
        self._guesses = get_task(task_id).stream is not None

    def reset(self) -> None:
        """Nothing to forget."""

    def act(self, observation: RoutingObservation) -> RoutingAction:
        """See the class."""
        seen = observation
        model = smallest_able(seen)
        if seen.cache_similarity >= CACHE_SIMILARITY and seen.cache_age_h <= CACHE_AGE_MAX_H:
            return RoutingAction(strategy=Strategy.USE_CACHE, model_choice=model)
        if seen.kb_available and seen.kb_age_h <= KB_AGE_MAX_H:
            return RoutingAction(strategy=Strategy.CALL_KB, model_choice=model)
        falls = seen.carbon_if_wait < CARBON_FALL * seen.carbon_intensity
        needed = model > ModelChoice.SMALL or not self._guesses
        if falls and needed and seen.wait_h <= seen.deadline_h:
            return RoutingAction(strategy=Strategy.WAIT, model_choice=model)
        up = seen.models_up
        if self._guesses and up.small and up.medium:
            last = ModelChoice.LARGE if up.large else ModelChoice.MEDIUM
            return RoutingAction(strategy=Strategy.DO_CASCADE, model_choice=last, exit_flag=True)
        return RoutingAction(model_choice=model)


def smallest_able(seen: RoutingObservation) -> ModelChoice:
    """The smallest living model whose accuracy lies above the difficulty; MEDIUM when none is that good."""
    able = (seen.category_accuracy.small, seen.category_accuracy.medium, seen.category_accuracy.large)
    up = (seen.models_up.small, seen.models_up.medium, seen.models_up.large)
    for model in ModelChoice:
        if up[model] and able[model] >= seen.difficulty_estimate + MARGIN:
            return model
    return ModelChoice.MEDIUM if up[ModelChoice.MEDIUM] else ModelChoice.SMALL


class Optimal:
    """Plays beside a copy of the very episode, which task and seed give it: an upper reference, no policy.

    Only for episodes without a config: the copy runs where the seed says.
    """

    def __init__(self, task_id: str, seed: int) -> None:
        self._env = make_env(task_id, seed)

    def reset(self) -> None:
        """Start the copy over."""
        self._env.reset()

    def act(self, observation: RoutingObservation) -> RoutingAction:
        """The best action, knowing everything; the copy takes it too."""
        assert self._env.play is not None
        action = clairvoyant_action(self._env.play)
        self._env.step(action)
        return action


def _constant(action: RoutingAction) -> Callable[[str, int], Constant]:
    def make(task_id: str, seed: int) -> Constant:
        get_task(task_id)
        return Constant(action)

    return make


def lookahead_agent(task_id: str, seed: int) -> Any:
    """See :mod:`agents.routing.lookahead`."""
    from agents.routing.lookahead import LookAhead

    return LookAhead(task_id)


AGENTS: dict[str, Callable[[str, int], Any]] = {
    "random": UniformRandom,
    "baseline": _constant(RoutingAction()),
    "always_small": _constant(RoutingAction(model_choice=ModelChoice.SMALL)),
    "always_large": _constant(RoutingAction(model_choice=ModelChoice.LARGE)),
    "always_cache": _constant(RoutingAction(strategy=Strategy.USE_CACHE)),
    "heuristic": Heuristic,
    "lookahead": lookahead_agent,
    "optimal": Optimal,
    "ppo": ppo_agent("routing"),
    "llm": llm_agent("routing"),
}
"""Factories ``(task_id, seed) -> agent``."""
