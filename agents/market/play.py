"""Plays a pricing policy hour by hour on the plain engine, with everything that a trace or a chart needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from agents.market.files import load_parameters, read_parameters, static_price
from agents.market.policies import PriceParameters, gain_price, rule_price
from env.checks import checked_seed
from env.market.reward import TERMS, goal_of, weigh_hour
from inferencegym.errors import UnknownNameError
from inferencegym.models.market import EPISODE_HOURS
from simulator.market.config import MarketSetup
from simulator.market.engine import Demand, HourCounts, MarketEngine
from simulator.market.kernel import OPENING_HOURS

__all__ = [
    "POLICIES",
    "PlayedHour",
    "Policy",
    "gain_policy",
    "make_demand",
    "named_policy",
    "play_market",
    "rule_policy",
]

Policy = Callable[[HourCounts], int]
"""The next price (micro-USD per GPU-hour) after an hour. Proposals are clamped to the objective's bounds."""

POLICIES = ("hold", "rule", "untrained", "evolved", "static")


class PlayedHour(NamedTuple):
    """An hour of an episode; rewards at SCALE."""

    hour: int
    """1 for the first that the policy priced"""
    counts: HourCounts
    terms: tuple[int, ...]
    reward: int
    cumulative_reward: int


def rule_policy(setup: MarketSetup) -> Policy:
    """The rule."""
    return lambda last: rule_price(
        last.price, last.running_gpus, last.waiting_jobs, setup.gpus, setup.min_price, setup.max_price
    )


def gain_policy(setup: MarketSetup, parameters: PriceParameters) -> Policy:
    """The five-parameter policy."""
    values = parameters.values()
    return lambda last: gain_price(
        values, last.price, last.running_gpus, last.waiting_jobs, setup.gpus, setup.min_price, setup.max_price
    )


def named_policy(name: str, setup: MarketSetup, parameters: Path | None = None) -> Policy:
    """A policy by name. ``parameters`` names a file for ``evolved``, instead of the committed one.

    ``hold`` keeps the opening price; the rule is also known as ``baseline``, its name among the agents.

    Raises:
        UnknownNameError: no such policy.
        InferenceGymError: the scenario has no evolved parameters.
        InvalidValueError: a file that is not what it should be.
    """
    name = "rule" if name == "baseline" else name
    if name not in POLICIES:
        raise UnknownNameError("policy", name, POLICIES)
    if name == "rule":
        return rule_policy(setup)
    if name == "hold":
        return lambda last: last.price
    if name == "static":
        price = setup.clamped(static_price(setup.scenario))
        return lambda last: price
    if name == "untrained":
        return gain_policy(setup, PriceParameters.untrained(setup))
    found = load_parameters(setup.scenario) if parameters is None else read_parameters(parameters, setup)[0]
    return gain_policy(setup, found)


def make_demand(setup: MarketSetup, seed: int, hours: int = EPISODE_HOURS) -> Demand:
    """The customers of the episode of a seed: those that :class:`env.market.episode.MarketEnv` meets.

    Raises InvalidValueError for a bad seed or length.
    """
    return Demand(setup, np.random.PCG64(checked_seed(seed)), OPENING_HOURS + hours)


def play_market(setup: MarketSetup, policy: Policy, demand: Demand) -> Iterator[PlayedHour]:
    """Play to the end of ``demand`` or the market's death."""
    engine, goal, terms, total = MarketEngine(setup, demand), goal_of(setup), [0] * len(TERMS), 0
    counts = engine.open()
    while not engine.over:
        counts = engine.trade(setup.clamped(policy(counts)))
        reward = weigh_hour(goal, counts, terms)
        total += reward
        yield PlayedHour(engine.hour - OPENING_HOURS, counts, tuple(terms), reward, total)
