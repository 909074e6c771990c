"""Reference agents of InferenceGym/Market-v0 by name.

=========  ============================================================================================
name       policy
=========  ============================================================================================
random     a price drawn uniformly between the bounds, afresh every hour
zero       the lowest price for ever
hold       nothing: the price stays what it was at the start, the scenario's opening price
static     the best constant price of a sweep on training seeds (:mod:`agents.market_sweep`)
baseline   the rule: 5 % up when busy or a line forms, 5 % down when idle (``inferencegym market`` says rule)
untrained  the five-parameter policy in the middle of every range, where evolution starts
evolved    the five parameters that a genetic algorithm found for the task (:mod:`agents.market.train`)
ppo        the network that PPO trained (:mod:`agents.ppo.demo`)
llm        a language model behind a chat service (needs a key, see :mod:`agents.llm.api`)
=========  ============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from agents.market.files import load_parameters, static_price
from agents.market.policies import PriceParameters, gain_price, rule_price
from agents.shared import llm_agent, ppo_agent
from env.market.tasks import get_market_task
from inferencegym.models.market import MarketObservation, PriceAction
from simulator.market.config import load_market, micro
from simulator.market.kernel import SCALE

__all__ = ["AGENTS", "GainAgent", "PriceAgent", "RuleAgent"]


class PriceAgent:
    """An agent that proposes a price in whole micro-USD; the bounds are those of the observation."""

    def reset(self) -> None:
        """Start an episode."""

    def act(self, observation: MarketObservation) -> PriceAction:
        """The price of the next hour."""
        low, high = micro(observation.min_price), micro(observation.max_price)
        price = self.propose(
            micro(observation.price),
            observation.running_gpus,
            observation.queue_depth,
            observation.gpus,
            low,
            high,
        )
        return PriceAction(price=min(max(price, low), high) / SCALE)

    def propose(self, price: int, busy: int, waiting: int, gpus: int, low: int, high: int) -> int:
        """The next price after an hour at ``price`` (see :func:`agents.market.policies.gain_price`)."""
        raise NotImplementedError


class ConstantAgent(PriceAgent):
    """One price for ever; held at the bounds."""

    def __init__(self, price: int) -> None:
        self._price = price

    def propose(self, price: int, busy: int, waiting: int, gpus: int, low: int, high: int) -> int:
        """The price."""
        return self._price


class HoldAgent(PriceAgent):
    """The last price again, so that the opening price stands for ever."""

    def propose(self, price: int, busy: int, waiting: int, gpus: int, low: int, high: int) -> int:
        """The last price."""
        return price


class RandomAgent(PriceAgent):
    """Uniform between the bounds."""

    def __init__(self, seed: int) -> None:
        # Not PCG64(seed): that is the stream that the customers are drawn from.
        self._rng = np.random.default_rng((seed, 1))

    def propose(self, price: int, busy: int, waiting: int, gpus: int, low: int, high: int) -> int:
        """The next draw."""
        return int(self._rng.integers(low, high, endpoint=True))


class RuleAgent(PriceAgent):
    """The rule."""

    def propose(self, price: int, busy: int, waiting: int, gpus: int, low: int, high: int) -> int:
        """See :func:`agents.market.policies.rule_price`."""
        return rule_price(price, busy, waiting, gpus, low, high)


class GainAgent(PriceAgent):
    """The five-parameter policy."""

    def __init__(self, parameters: PriceParameters) -> None:
        self._values = parameters.values()

    def propose(self, price: int, busy: int, waiting: int, gpus: int, low: int, high: int) -> int:
        """See :func:`agents.market.policies.gain_price`."""
        return gain_price(self._values, price, busy, waiting, gpus, low, high)


def random_agent(task_id: str, seed: int) -> RandomAgent:
    """Random prices; the seed of the episode also seeds the draws."""
    get_market_task(task_id)
    return RandomAgent(seed)


def zero_agent(task_id: str, seed: int) -> ConstantAgent:
    """The lowest price."""
    get_market_task(task_id)
    return ConstantAgent(0)


def hold_agent(task_id: str, seed: int) -> HoldAgent:
    """The opening price, which is the median of what customers would pay."""
    get_market_task(task_id)
    return HoldAgent()


def static_agent(task_id: str, seed: int) -> ConstantAgent:
    """The best constant price of the sweep."""
    return ConstantAgent(static_price(get_market_task(task_id).id))


def baseline_agent(task_id: str, seed: int) -> RuleAgent:
    """The rule."""
    get_market_task(task_id)
    return RuleAgent()


def untrained_agent(task_id: str, seed: int) -> GainAgent:
    """The five-parameter policy before any training."""
    return GainAgent(PriceParameters.untrained(load_market().setup(get_market_task(task_id).id)))


def evolved_agent(task_id: str, seed: int) -> GainAgent:
    """The committed evolved policy of the task."""
    return GainAgent(load_parameters(get_market_task(task_id).id))


AGENTS: dict[str, Callable[[str, int], Any]] = {
    "random": random_agent,
    "zero": zero_agent,
    "hold": hold_agent,
    "static": static_agent,
    "baseline": baseline_agent,
    "untrained": untrained_agent,
    "evolved": evolved_agent,
    "ppo": ppo_agent("market"),
    "llm": llm_agent("market"),
}
"""Factories ``(task_id, seed) -> agent``."""
