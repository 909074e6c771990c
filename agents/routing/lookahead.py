"""The look-ahead router: of all actions the one with the highest expected reward.

It uses what the observation shows, the published figures (accuracy, energy, carbon) and the fleet's own
formulas, and
carries the uncertainty through: how a difficulty estimate that errs shifts each model's chance, how sure it
was of the answer that it put into the cache, whether the knowledge base's passage is real and fresh. It
knows nothing that an operator could not know. ``carbon_price`` other than 1 makes it care more or less for
carbon, which traces the frontier of accuracy and carbon (:mod:`agents.routing.frontier`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import erf, exp, sqrt
from typing import NamedTuple

from env.routing.tasks import get_task
from grader.routing.search import best_action, start_of
from inferencegym.models.routing import CATEGORIES, ModelChoice, RoutingAction, RoutingObservation, Strategy
from simulator.routing import cache
from simulator.routing import kernel as fleet
from simulator.routing.classic import ClassicGame, ClassicQuery
from simulator.routing.classic_games import LARGE_FEE
from simulator.routing.stream import (
    IN_KB,
    KB_RELIABLE,
    KB_SEEN_RIGHT,
    KB_SEEN_WRONG,
    NEAR_MEAN,
    NEAR_RIGHT,
    NEAR_SIGMA,
    SAME_MEAN,
    SAME_SIGMA,
    day_share,
)

__all__ = ["LookAhead", "chance_below"]

SMALL, MEDIUM, LARGE = ModelChoice
LOAD_SWING = (0.45, 0.50, 0.40)
"""How much each model's load rises from the quietest to the busiest hour."""
CHANGE_PER_H = 0.2 / 24.0
"""Chance an hour that a right answer changes; a middle value of the tasks."""
SAME_PRIOR = 0.75
"""Share of cached neighbours that are the same question in other words."""
FORECAST_OPTIMISM = 1.03
"""The lowest of several forecasts is too low on average."""


class Expected(NamedTuple):
    """What an action should bring."""

    correct: float
    energy_wh: float
    latency_s: float
    held_h: float = 0.0


@dataclass(frozen=True, slots=True)
class _Fleet:
    """Chances and costs of each model for the query at hand."""

    right: tuple[float, ...]
    energy_wh: tuple[float, ...]
    latency_s: tuple[float, ...]


class LookAhead:
    """See the module's docstring.

    Args:
        task_id: id or alias.
        carbon_price: factor on the reward's carbon penalty.
    """

    def __init__(self, task_id: str, carbon_price: float = 1.0) -> None:
        self._task = get_task(task_id)
        self._carbon_price = carbon_price
        config = self._task.stream
        self._sigma = config.estimate_sigma if config else 0.0
        self._sure: dict[str, float] = {}

    def reset(self) -> None:
        """Forget what was cached."""
        self._sure.clear()

    def act(self, observation: RoutingObservation) -> RoutingAction:
        """The action with the highest expected reward."""
        if self._task.stream is None:
            return self._classic(observation)
        models = self._models(observation)
        best, value, sure = RoutingAction(), float("-inf"), 0.0
        for action, expected in self._options(observation, models):
            worth = self._worth(observation, action, expected)
            if worth > value:
                best, value, sure = action, worth, expected.correct
        self._sure[observation.query_id] = sure
        return best

    def _classic(self, seen: RoutingObservation) -> RoutingAction:
        """The best action for this query alone: a classic game shows everything."""
        able = (seen.category_accuracy.small, seen.category_accuracy.medium)
        needs = next((size for size in (SMALL, MEDIUM) if able[size] > 0.0), LARGE)
        query = ClassicQuery(seen.query_id, seen.query_text, needs, seen.kb_available)
        fee = LARGE_FEE if self._task.info.id == "task_2" else 0.0
        cached = frozenset(seen.cache_contents)
        game = ClassicGame((query,), (seen.carbon_intensity, seen.carbon_if_wait), cached, fee)
        return best_action(game, start_of(game))

    def _models(self, seen: RoutingObservation) -> _Fleet:
        shares = (seen.category_accuracy.small, seen.category_accuracy.medium, seen.category_accuracy.large)
        loads = (seen.model_load.small, seen.model_load.medium, seen.model_load.large)
        length = seen.answer_tokens_estimate / fleet.ANSWER_TOKENS
        return _Fleet(
            tuple(chance_below(share, seen.difficulty_estimate, self._sigma) for share in shares),
            tuple(length * fleet.answer_energy_wh(m, loads[m]) for m in ModelChoice),
            tuple(fleet.answer_seconds(m, loads[m], length) for m in ModelChoice),
        )

    def _options(self, seen: RoutingObservation, models: _Fleet) -> Iterator[tuple[RoutingAction, Expected]]:
        """Every action that differs in effect, with what it should bring."""
        up = (seen.models_up.small, seen.models_up.medium, seen.models_up.large)
        for model in ModelChoice:
            if not up[model] and any(up):
                continue  # a timeout first, and then what another choice gives anyway
            alone = Expected(models.right[model], models.energy_wh[model], models.latency_s[model])
            yield RoutingAction(model_choice=model), alone
            yield _action(Strategy.CALL_KB, model), self._knowledge_base(seen, models, alone)
            if seen.deadline_h > 0.0:
                yield _action(Strategy.WAIT, model), self._wait(seen, model, alone)
            if model > SMALL:
                part = fleet.EARLY_EXIT_SHARE
                smaller = models.right[model - 1]
                early = Expected(smaller, part * alone.energy_wh, part * alone.latency_s)
                yield _action(Strategy.EARLY_EXIT, model), early
                if all(up[: model + 1]):
                    cascade = RoutingAction(strategy=Strategy.DO_CASCADE, model_choice=model, exit_flag=True)
                    yield cascade, _cascade(models, model)
        if seen.cache_similarity >= cache.CACHE_THRESHOLD and seen.cache_age_h <= cache.CACHE_TTL_H:
            cached = Expected(self._cached(seen), cache.LOOKUP_WH, cache.LOOKUP_S)
            yield _action(Strategy.USE_CACHE, MEDIUM), cached

    def _cached(self, seen: RoutingObservation) -> float:
        """Chance that the cached answer is right: the same question, answered right, and not out of date."""
        same = SAME_PRIOR * _density(seen.cache_similarity, SAME_MEAN, SAME_SIGMA)
        near = (1.0 - SAME_PRIOR) * _density(seen.cache_similarity, NEAR_MEAN, NEAR_SIGMA)
        fits = (same * max(0.0, 1.0 - CHANGE_PER_H * seen.cache_age_h) + near * NEAR_RIGHT) / (same + near)
        return self._sure.get(seen.cache_contents[0], 0.0) * fits

    def _knowledge_base(self, seen: RoutingObservation, models: _Fleet, alone: Expected) -> Expected:
        """Found or not, by how often the retriever errs; what is not found goes to the model."""
        known = float(IN_KB[CATEGORIES.index(seen.category)])
        hit, miss = (
            (KB_SEEN_RIGHT, KB_SEEN_WRONG) if seen.kb_available else (1 - KB_SEEN_RIGHT, 1 - KB_SEEN_WRONG)
        )
        found = known * hit / (known * hit + (1.0 - known) * miss)
        load = seen.model_load.small
        fresh = KB_RELIABLE * max(0.0, 1.0 - CHANGE_PER_H * seen.kb_age_h)
        energy = fleet.KB_ENERGY * fleet.answer_energy_wh(0, load)
        latency = fleet.KB_LATENCY * fleet.answer_seconds(0, load, 1.0)
        return Expected(
            found * fresh + (1.0 - found) * alone.correct,
            cache.LOOKUP_WH + found * energy + (1.0 - found) * alone.energy_wh,
            cache.LOOKUP_S + found * latency + (1.0 - found) * alone.latency_s,
        )

    def _wait(self, seen: RoutingObservation, model: ModelChoice, alone: Expected) -> Expected:
        held_h = seen.wait_h + seen.waiting // fleet.LANE_PER_HOUR
        loads = (seen.model_load.small, seen.model_load.medium, seen.model_load.large)
        change = day_share(seen.hour + held_h) - day_share(seen.hour)
        hour_load = loads[model] + LOAD_SWING[model] * float(change)
        place = seen.waiting % fleet.LANE_PER_HOUR + 1
        load = min(max(hour_load, fleet.LANE_LOAD) + fleet.HELD_LOAD * place, fleet.LOAD_MAX)
        energy = fleet.answer_energy_wh(model, load) / fleet.answer_energy_wh(model, loads[model])
        return Expected(alone.correct, alone.energy_wh * energy, alone.latency_s, held_h)

    def _worth(self, seen: RoutingObservation, action: RoutingAction, expected: Expected) -> float:
        """The reward's own arithmetic over expectations."""
        waits = action.strategy == Strategy.WAIT
        carbon = FORECAST_OPTIMISM * seen.carbon_if_wait if waits else seen.carbon_intensity
        co2_g = expected.energy_wh * carbon * 0.001
        penalty = self._carbon_price * min(fleet.CARBON_PRICE_PER_G * co2_g, fleet.CARBON_CAP)
        if seen.deadline_h > 0.0:
            late = expected.held_h > seen.deadline_h
            latency = fleet.LATENCY_CAP if late else fleet.WAIT_PRICE * expected.held_h / seen.deadline_h
        else:
            latency = fleet.latency_penalty(expected.latency_s)
        return expected.correct - penalty - latency


def chance_below(share: float, estimate: float, sigma: float) -> float:
    """Chance that a rank, uniform on [0, 1] and seen with a Gaussian error, lies below ``share``."""

    def mass(value: float) -> float:
        return 0.5 * (1.0 + erf((value - estimate) / (sigma * sqrt(2.0))))

    return (mass(share) - mass(0.0)) / (mass(1.0) - mass(0.0))


def _density(value: float, mean: float, sigma: float) -> float:
    return exp(-0.5 * ((value - mean) / sigma) ** 2) / sigma


def _action(strategy: Strategy, model: ModelChoice) -> RoutingAction:
    return RoutingAction(strategy=strategy, model_choice=model)


def _cascade(models: _Fleet, last: ModelChoice) -> Expected:
    """A cascade that stops at the first answer that the check accepts; larger models know what smaller ones
    do."""
    reached, correct, energy, latency = 1.0, 0.0, 0.0, 0.0
    right_here, wrong_here = models.right[SMALL], 1.0 - models.right[SMALL]
    for model in range(last + 1):
        if model:
            gained = (
                wrong_here
                * (models.right[model] - models.right[model - 1])
                / max(1e-9, 1.0 - models.right[model - 1])
            )
            right_here, wrong_here = right_here + gained, wrong_here - gained
        energy += reached * models.energy_wh[model]
        latency += reached * models.latency_s[model]
        if model == last:
            return Expected(correct + right_here, energy, latency)
        correct += fleet.JUDGE_ACCEPTS_RIGHT * right_here
        right_here *= 1.0 - fleet.JUDGE_ACCEPTS_RIGHT
        wrong_here *= 1.0 - fleet.JUDGE_ACCEPTS_WRONG
        reached = right_here + wrong_here
    raise AssertionError("a cascade has a last model")
