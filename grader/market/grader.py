"""Grader of InferenceGym/Market-v0: deterministic, stateless, trusting only what it replays.

====================  ======  ==============================================================================
part                  weight  of the episode's 200 hours
====================  ======  ==============================================================================
revenue               0.60    revenue ÷ (200 × fluid benchmark per hour), at most 1
low_wait_time         0.15    1 − mean wait ÷ 4 hours; mean wait: hours spent in line ÷ jobs that joined it
fairness              0.15    1 − 2 × GPUs that the price put out ÷ GPUs that joined
market_activity       0.10    1, and 0 when the market died
====================  ======  ==============================================================================

The figure ``put_out_share`` is the same share, at most 1: those put out may have joined before the episode.
Parts are clipped to [0, 1]; all but the first are multiplied by the share of the 200 hours that was played,
so that neither stopping early nor dying ever pays. The weights are those of the shipped objective, whatever
weights the reward had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from env.checks import invalid_value
from env.market.episode import make_env, parse_price
from env.market.tasks import get_market_task
from env.protocols import GradeResult, TaskName
from grader.log_entries import check_length, check_places, empty_grade, log_part
from inferencegym.errors import EpisodeDoneError, InvalidValueError
from inferencegym.models.base import Real, Whole
from inferencegym.models.market import GPUS_MAX, JOBS_PER_HOUR_MAX, LINE_CAPACITY, PRICE_LIMIT_HIGH
from simulator.kernels.sums import ordered_sum
from simulator.market.config import micro
from simulator.market.kernel import SCALE

__all__ = ["GRADER", "WEIGHTS", "HourFigures", "MarketGrader", "score_hours"]

WEIGHTS = {"revenue": 0.60, "low_wait_time": 0.15, "fairness": 0.15, "market_activity": 0.10}

WAIT_ZERO_H = 4.0
"""Mean wait that scores 0: max_avg_wait of the shipped objective."""
OUT_ZERO = 0.5
"""Share of GPUs put out that scores 0."""

_REVENUE_MAX = GPUS_MAX * PRICE_LIMIT_HIGH


class HourFigures(BaseModel):
    """The metrics that a grade uses, with the bounds of a step's ``metrics``."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, frozen=True)

    revenue: Real = Field(ge=0.0, le=_REVENUE_MAX)
    fluid_revenue: Real = Field(gt=0.0, le=_REVENUE_MAX)
    queue_depth: Whole = Field(ge=0, le=LINE_CAPACITY)
    joined: Whole = Field(ge=0, le=JOBS_PER_HOUR_MAX)
    joined_gpus: Whole = Field(ge=0, le=8 * JOBS_PER_HOUR_MAX)
    interrupted_gpus: Whole = Field(ge=0, le=GPUS_MAX)
    driven_off_gpus: Whole = Field(ge=0, le=8 * LINE_CAPACITY)
    dead: bool = Field(strict=True)


@dataclass(frozen=True, slots=True)
class Score:
    """A score with its parts and what the episode amounted to in units."""

    score: float
    breakdown: dict[str, float]
    figures: dict[str, float]


def score_hours(hours: Sequence[HourFigures], episode_length: int) -> Score:
    """Score the hours of one episode (at least one)."""
    played = len(hours) / episode_length
    # In whole micro-USD, as the engine counts: the sum is exact.
    revenue = sum(micro(hour.revenue) for hour in hours) / SCALE  # whole numbers
    joined, joined_gpus = sum(h.joined for h in hours), sum(h.joined_gpus for h in hours)  # whole numbers
    wait_h = sum(hour.queue_depth for hour in hours) / max(1, joined)  # whole numbers
    left = sum(hour.interrupted_gpus + hour.driven_off_gpus for hour in hours)  # whole numbers
    out = left / max(1, joined_gpus)
    died = any(hour.dead for hour in hours)
    breakdown = {
        "revenue": _clip(revenue / (episode_length * hours[-1].fluid_revenue)),
        "low_wait_time": played * _clip(1.0 - wait_h / WAIT_ZERO_H),
        "fairness": played * _clip(1.0 - out / OUT_ZERO),
        "market_activity": 0.0 if died else played,
    }
    score = ordered_sum(weight * breakdown[name] for name, weight in WEIGHTS.items())
    figures = {
        "revenue_usd": revenue,
        "mean_wait_h": wait_h,
        "put_out_share": min(1.0, out),
        "deaths": float(died),
    }
    return Score(_clip(score), {**breakdown, "completed": played}, figures)


class MarketGrader:
    """Scores episodes of the market in [0, 1]."""

    def grade_log(
        self, task_id: TaskName, log: Sequence[Mapping[str, Any]], *, verified: bool = False
    ) -> GradeResult:
        """Grade /step replies, or their ``{action, reward, metrics}``.

        Raises:
            UnknownNameError: no such task.
            InvalidValueError: an entry is malformed (named by index and field), the log goes on after the
                market's death, or there are more entries than an episode has steps.
        """
        task = get_market_task(task_id)
        check_length("episode_log", log, task.episode_length, least=0)
        if not log:
            return empty_grade(WEIGHTS)
        check_places(task.id, log)
        hours = [_figures(index, entry) for index, entry in enumerate(log)]
        for index, hour in enumerate(hours[:-1]):
            if hour.dead:
                raise InvalidValueError(
                    f"episode_log[{index}].metrics.dead", True, "true in the last entry only"
                )
        return _grade(hours, task.episode_length, verified)

    def grade_replay(
        self,
        task_id: TaskName,
        seed: int,
        actions: Sequence[Mapping[str, Any]],
        config: Mapping[str, Any] | None = None,
    ) -> GradeResult:
        """Play (task, seed, actions) again and grade what happened: the result is ``verified``.

        Raises as ``grade_log``, and for a bad seed or config, and actions after the market's death.
        """
        task = get_market_task(task_id)
        check_length("actions", actions, task.episode_length)
        parsed = [parse_price(action, f"actions[{index}]") for index, action in enumerate(actions)]
        env = make_env(task_id, seed, config)
        env.reset()
        hours: list[HourFigures] = []
        for index, action in enumerate(parsed):
            try:
                info = env.step(action)[3]
            except InvalidValueError as error:
                raise InvalidValueError(
                    error.field.replace("action", f"actions[{index}]", 1), action.price, error.allowed
                ) from None
            except EpisodeDoneError:
                raise InvalidValueError(
                    f"actions[{index}]",
                    action.model_dump(exclude_none=True),
                    f"at most {index} actions: the market died",
                ) from None
            hours.append(HourFigures.model_validate(info["metrics"]))
        return _grade(hours, task.episode_length, verified=True)


GRADER = MarketGrader()
"""The registry's grader: stateless, shared."""


def _figures(index: int, entry: Any) -> HourFigures:
    """What the grade needs of one log entry: a /step reply, or {action, reward, metrics}."""
    where = f"episode_log[{index}]"
    try:
        return HourFigures.model_validate(log_part(where, entry, "metrics"))
    except ValidationError as error:
        raise invalid_value(f"{where}.metrics", error, HourFigures) from None


_ADVICE = {
    "revenue": "sell more hours, or the same hours dearer: lower the price while GPUs idle, raise it while "
    "they are all at work",
    "low_wait_time": "raise the price sooner when a line forms",
    "fairness": "move the price in smaller steps: each rise puts out those who joined below it",
    "market_activity": "lower the price as soon as an hour has brought nobody",
}


_NOTHING = 0.0005
"""A loss that the three decimals of a score do not show."""


def _grade(hours: Sequence[HourFigures], episode_length: int, verified: bool) -> GradeResult:
    found = score_hours(hours, episode_length)
    died = bool(found.figures["deaths"])
    return GradeResult(
        found.score, found.breakdown, _feedback(found, died), verified, len(hours), found.figures, ended=died
    )


def _feedback(found: Score, died: bool) -> str:
    parts = found.breakdown
    weakest = max(WEIGHTS, key=lambda name: WEIGHTS[name] * (1.0 - parts[name]))
    text = f"Score {found.score:.3f} with {parts['revenue']:.0%} of the fluid benchmark's revenue. "
    if died:
        text += f"The market died after {parts['completed']:.0%} of the episode: nobody accepted the price. "
    elif parts["completed"] < 1.0:
        text += f"Only {parts['completed']:.0%} of the episode was played; the score is scaled by it. "
    if WEIGHTS[weakest] * (1.0 - parts[weakest]) < _NOTHING:
        return f"{text}Next to nothing is lost on any part."
    return f"{text}Most is lost on {weakest} ({parts[weakest]:.2f}): {_ADVICE[weakest]}."


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))
