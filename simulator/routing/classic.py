"""The classic routing rules: what one decision about one query brings. Pure arithmetic, no randomness.

reward = score − carbon_penalty − latency_penalty + bonuses, with

- score 1 when the strategy reaches something able to answer, else 0;
- carbon_penalty = min(carbon × energy, 0.8);
- latency_penalty = 0.1 × latency;
- bonuses: +0.5 for a cache hit, +0.1 for a successful early exit, and in task 2 −0.2 when the large model
  ran.

Units are the contract's own: energy .1 / .3 / .6 and latency 1 / 2 / 5 for SMALL / MEDIUM / LARGE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from inferencegym.models.routing import ModelChoice, RoutingAction, Strategy
from simulator.kernels.sums import ordered_sum

__all__ = ["ClassicGame", "ClassicOutcome", "ClassicQuery", "ClassicState", "after", "decide"]

ENERGY = (0.1, 0.3, 0.6)
LATENCY = (1.0, 2.0, 5.0)
KB_ENERGY, KB_LATENCY = 0.05, 1.5
CARBON_CAP = 0.8
LATENCY_PRICE = 0.1
CACHE_BONUS = 0.5
EARLY_EXIT_BONUS = 0.1
EARLY_EXIT_SHARE = 0.6
"""Part of a model's energy and latency that an early exit takes. Self-speculative and early-exit decoders
report speed-ups of 1.3 to 2.2 (LayerSkip, arXiv 2404.16710); 1 / 0.6 = 1.7 lies in the middle."""
WAIT_LATENCY = 1.0
"""One slot of waiting takes as long as the small model's answer."""


@dataclass(frozen=True, slots=True)
class ClassicQuery:
    """A query, the smallest model able to answer it, and whether the knowledge base can."""

    id: str
    text: str
    needs: ModelChoice
    in_kb: bool = False


@dataclass(frozen=True, slots=True)
class ClassicGame:
    """A fixed sequence of queries.

    ``carbon`` is the intensity of each slot. A query takes one slot and WAIT one more, so there are two
    slots a query. ``large_fee`` is subtracted when the large model ran.
    """

    queries: tuple[ClassicQuery, ...]
    carbon: tuple[float, ...]
    cached: frozenset[str] = frozenset()
    large_fee: float = 0.0


class ClassicState(NamedTuple):
    """Everything that the future depends on."""

    position: int
    slot: int
    cached: frozenset[str]


class ClassicOutcome(NamedTuple):
    """What a decision brought: the signed terms sum to the reward."""

    score: float
    carbon_penalty: float
    latency_penalty: float
    cache_bonus: float
    early_exit_bonus: float
    large_fee: float
    energy: float
    carbon: float
    latency: float
    by_model: bool

    @property
    def reward(self) -> float:
        """Sum of the terms, in their order."""
        return (
            self.score
            + self.carbon_penalty
            + self.latency_penalty
            + self.cache_bonus
            + self.early_exit_bonus
            + self.large_fee
        )


def decide(game: ClassicGame, state: ClassicState, action: RoutingAction) -> ClassicOutcome:
    """The outcome of an action on the query at hand; nothing is changed."""
    query = game.queries[state.position]
    carbon = game.carbon[state.slot]
    model = action.model_choice
    if action.strategy == Strategy.USE_CACHE:
        # The lookup is free and reaches no model, so a miss answers nothing.
        hit = query.id in state.cached
        return _outcome(game, correct=hit, carbon=carbon, cache_bonus=CACHE_BONUS if hit else 0.0)
    if action.strategy == Strategy.CALL_KB:
        return _outcome(game, query.in_kb, carbon, KB_ENERGY, KB_LATENCY)
    if action.strategy == Strategy.EARLY_EXIT:
        correct = model > query.needs
        bonus = EARLY_EXIT_BONUS if correct else 0.0
        energy, latency = EARLY_EXIT_SHARE * ENERGY[model], EARLY_EXIT_SHARE * LATENCY[model]
        return _outcome(game, correct, carbon, energy, latency, early_exit_bonus=bonus, models=(model,))
    if action.strategy == Strategy.DO_CASCADE:
        last = min(model, query.needs) if action.exit_flag else model
        ran = tuple(ModelChoice(size) for size in range(last + 1))
        energy, latency = (
            ordered_sum(ENERGY[size] for size in ran),
            ordered_sum(LATENCY[size] for size in ran),
        )
        return _outcome(game, model >= query.needs, carbon, energy, latency, models=ran)
    waited = action.strategy == Strategy.WAIT
    if waited:
        carbon = game.carbon[state.slot + 1]
    latency = LATENCY[model] + (WAIT_LATENCY if waited else 0.0)
    return _outcome(game, model >= query.needs, carbon, ENERGY[model], latency, models=(model,))


def after(
    game: ClassicGame, state: ClassicState, action: RoutingAction, outcome: ClassicOutcome
) -> ClassicState:
    """The state of the next query: correct answers of models and knowledge base are cached."""
    slots = 2 if action.strategy == Strategy.WAIT else 1
    query = game.queries[state.position].id
    cached = state.cached | {query} if outcome.score > 0.0 else state.cached
    return ClassicState(state.position + 1, state.slot + slots, cached)


def _outcome(
    game: ClassicGame,
    correct: bool,
    carbon: float,
    energy: float = 0.0,
    latency: float = 0.0,
    *,
    cache_bonus: float = 0.0,
    early_exit_bonus: float = 0.0,
    models: tuple[ModelChoice, ...] = (),
) -> ClassicOutcome:
    return ClassicOutcome(
        score=1.0 if correct else 0.0,
        carbon_penalty=0.0 - min(carbon * energy, CARBON_CAP),
        latency_penalty=0.0 - LATENCY_PRICE * latency,
        cache_bonus=cache_bonus,
        early_exit_bonus=early_exit_bonus,
        large_fee=0.0 - (game.large_fee if ModelChoice.LARGE in models else 0.0),
        energy=energy,
        carbon=carbon * energy,
        latency=latency,
        by_model=bool(models),
    )
