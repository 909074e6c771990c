"""Streams of queries: everything about a day that does not depend on the agent, drawn from one generator.

Accuracy by category is published: "The Llama 3 Herd of Models" (arXiv 2407.21783), table 2, fine-tuned 8B /
70B / 405B. A question has a rank of difficulty within its category; a model answers it right when the rank
lies below the model's accuracy there, so that a larger model knows all that a smaller one does, and one
question always gets the same answer from one model.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np
import numpy.typing as npt

from inferencegym.models.routing import CATEGORIES, Category, Region
from simulator.kernels.sums import ordered_sum
from simulator.routing.grid import GRIDS, HORIZON_H, WAIT_MAX_H, draw_carbon, draw_forecast
from simulator.routing.kernel import ANSWER_TOKENS, MODELS, Query

__all__ = ["ACCURACY", "STREAM_HOURS", "Stream", "StreamConfig", "accuracy_of", "draw_stream"]

FloatArray = npt.NDArray[np.float64]

STREAM_HOURS = 24
NEVER_H = 1e6

ACCURACY: dict[Category, tuple[float, float, float]] = {
    "instruction": (0.804, 0.875, 0.886),  # IFEval
    "knowledge": (0.730, 0.860, 0.886),  # MMLU, 0-shot, CoT
    "maths": (0.845, 0.951, 0.968),  # GSM8K
    "science": (0.328, 0.467, 0.511),  # GPQA
    "code": (0.726, 0.805, 0.890),  # HumanEval
    "multilingual": (0.689, 0.869, 0.916),  # MGSM
}
_ACCURACY = np.array([ACCURACY[name] for name in CATEGORIES])

LENGTHS = np.array([1.0, 0.8, 1.2, 1.1, 1.3, 0.8])
"""Usual answer by category, as a share of ``ANSWER_TOKENS``; this and the next are our assumptions."""
IN_KB = np.array([0.30, 0.60, 0.02, 0.30, 0.10, 0.02])
LENGTH_SIGMA = 0.35
HELD_LENGTH = 4.0
RARE_HELD = 0.9
"""Queries that may wait are reports and batch jobs: longer answers, and questions that hardly repeat, nine in
ten of the rarest. Our assumption."""
DEADLINES_H = (2.0, float(WAIT_MAX_H))
SAME_MEAN, SAME_SIGMA = 0.93, 0.06
NEAR_MEAN, NEAR_SIGMA = 0.70, 0.055
NEAR_RIGHT = 0.3
"""Similarity of one question worded twice, of two neighbouring questions, and how often the answer to one
does for the other. With them a cache that is always asked hits and errs as published (arXiv 2411.05276: 62
to 69 % hits, over 97 % of them right); docs/environments/routing.md has what was measured."""
KB_SEEN_RIGHT, KB_SEEN_WRONG = 0.95, 0.08
KB_RELIABLE = 0.95
LENGTH_NOISE = 0.2


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """What kind of day it is.

    ``zipf`` is the exponent of how often the questions come; ``held_share`` the part of them that may wait;
    ``changing_share`` that whose right answer changes once in the day; ``outages`` the mean number a model
    and day; ``crowd`` adds hours of sudden load; ``estimate_sigma`` is the error of the difficulty
    estimate.
    """

    regions: tuple[Region, ...]
    mix: tuple[float, ...]
    queries: int = 300
    topics: int = 120
    zipf: float = 1.0
    held_share: float = 0.0
    changing_share: float = 0.0
    kb_refresh_h: float = 6.0
    outages: float = 0.0
    crowd: bool = False
    cache_capacity: int = 48
    estimate_sigma: float = 0.15


@dataclass(frozen=True, slots=True)
class Stream:
    """A day. ``queries`` (N, 25), ``hours`` (36, 4) and ``down`` (144, 3) are the rows of routing_fleet."""

    region: Region
    start_hour: int
    queries: FloatArray
    hours: FloatArray
    down: FloatArray


def accuracy_of(category: Category) -> tuple[float, float, float]:
    """Share of a category's queries that SMALL, MEDIUM and LARGE answer correctly."""
    return ACCURACY[category]


def day_share(hour: Any) -> Any:
    """Traffic over the local day: 0 at 4 h, 1 at 16 h."""
    return 0.5 - 0.5 * np.cos(2.0 * pi * (np.asarray(hour) - 4.0) / 24.0)


def draw_stream(
    config: StreamConfig,
    rng: np.random.Generator,
    region: Region | None = None,
    start_hour: int | None = None,
) -> Stream:
    """A day of ``config``. Region and start are drawn even when they are given, so that all else stays."""
    drawn_region = config.regions[int(rng.integers(len(config.regions)))]
    drawn_start = int(rng.integers(24))
    place = region or drawn_region
    start = drawn_start if start_hour is None else start_hour
    topics = _draw_topics(config, rng)
    queries = np.zeros((config.queries, len(Query)))
    arrivals = _draw_arrivals(config.queries, start, rng)
    queries[:, Query.ARRIVAL_H] = arrivals
    _fill_questions(config, queries, topics, rng)
    hours = np.zeros((HORIZON_H, 1 + MODELS))
    hours[:, 0] = draw_carbon(GRIDS[place], start, rng)
    _fill_waits(queries, hours[:, 0], draw_forecast(hours[:, 0], rng))
    _fill_loads(config, hours, start, rng)
    return Stream(place, start, queries, hours, _draw_outages(config, rng))


@dataclass(frozen=True, slots=True)
class _Topics:
    category: npt.NDArray[np.int64]
    rank: FloatArray
    neighbour: npt.NDArray[np.int64]
    length: FloatArray
    deadline_h: FloatArray
    changed_h: FloatArray
    in_kb: FloatArray


def _draw_topics(config: StreamConfig, rng: np.random.Generator) -> _Topics:
    count = config.topics
    category = rng.choice(len(CATEGORIES), count, p=np.asarray(config.mix) / ordered_sum(config.mix))
    share = _popularity(config)
    rarest_first = np.cumsum(share[::-1])[::-1]
    may_wait = (rng.random(count) < RARE_HELD) & (rarest_first * RARE_HELD <= config.held_share)
    patient = rng.random(count) < 0.5
    length = LENGTHS[category] * np.exp(rng.normal(0.0, LENGTH_SIGMA, count))
    changes = rng.random(count) < config.changing_share
    return _Topics(
        category=category,
        rank=rng.random(count),
        neighbour=_neighbours(category),
        length=np.where(may_wait, HELD_LENGTH, 1.0) * length,
        deadline_h=np.where(may_wait, np.where(patient, DEADLINES_H[1], DEADLINES_H[0]), 0.0),
        changed_h=np.where(changes, rng.uniform(0.0, STREAM_HOURS, count), NEVER_H),
        in_kb=(rng.random(count) < IN_KB[category]).astype(np.float64),
    )


def _popularity(config: StreamConfig) -> FloatArray:
    """Share of the queries that ask each question, the most popular first."""
    weights = 1.0 / np.arange(1, config.topics + 1) ** config.zipf
    shares: FloatArray = weights / weights.sum()
    return shares


def _neighbours(category: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The next question of the same category, around in a circle (a lone question is its own)."""
    order = np.argsort(category, kind="stable")
    first = np.searchsorted(category[order], np.arange(len(CATEGORIES) + 1))
    following = np.arange(1, len(category) + 1)
    filled = first[:-1] < first[1:]
    following[first[1:][filled] - 1] = first[:-1][filled]
    neighbour = np.empty_like(order)
    neighbour[order] = order[following]
    return neighbour


def _draw_arrivals(count: int, start: int, rng: np.random.Generator) -> FloatArray:
    """Sorted hours in [0, 24), denser by day."""
    grid = np.linspace(0.0, STREAM_HOURS, 24 * 4 + 1)
    rate = 0.25 + 0.75 * day_share(start + grid)
    total = np.concatenate(([0.0], np.cumsum(0.5 * (rate[1:] + rate[:-1]))))
    hours: FloatArray = np.sort(np.interp(rng.random(count), total / total[-1], grid))
    return np.minimum(hours, np.nextafter(STREAM_HOURS, 0.0))


def _fill_questions(
    config: StreamConfig, queries: FloatArray, topics: _Topics, rng: np.random.Generator
) -> None:
    count = len(queries)
    topic = rng.choice(config.topics, count, p=_popularity(config))
    category = topics.category[topic]
    queries[:, Query.TOPIC] = topic
    queries[:, Query.NEIGHBOUR] = topics.neighbour[topic]
    queries[:, Query.RANK] = topics.rank[topic]
    queries[:, Query.RIGHT_SMALL : Query.RIGHT_LARGE + 1] = _ACCURACY[category]
    queries[:, Query.LENGTH] = topics.length[topic]
    queries[:, Query.DEADLINE_H] = topics.deadline_h[topic]
    queries[:, Query.SAME_SIMILARITY] = np.clip(rng.normal(SAME_MEAN, SAME_SIGMA, count), 0.0, 1.0)
    queries[:, Query.NEAR_SIMILARITY] = np.clip(rng.normal(NEAR_MEAN, NEAR_SIGMA, count), 0.0, 1.0)
    queries[:, Query.NEAR_RIGHT] = rng.random(count) < NEAR_RIGHT
    queries[:, Query.CHANGED_H] = topics.changed_h[topic]
    queries[:, Query.IN_KB] = topics.in_kb[topic]
    queries[:, Query.KB_RIGHT] = rng.random(count) < KB_RELIABLE
    arrival = queries[:, Query.ARRIVAL_H]
    queries[:, Query.KB_REFRESHED_H] = np.floor(arrival / config.kb_refresh_h) * config.kb_refresh_h
    queries[:, Query.JUDGE_SMALL] = rng.random(count)
    queries[:, Query.JUDGE_MEDIUM] = rng.random(count)
    noise = rng.normal(0.0, config.estimate_sigma, count)
    queries[:, Query.ESTIMATE] = np.clip(queries[:, Query.RANK] + noise, 0.0, 1.0)
    guess = queries[:, Query.LENGTH] * np.exp(rng.normal(0.0, LENGTH_NOISE, count))
    queries[:, Query.LENGTH_ESTIMATE] = ANSWER_TOKENS * guess
    seen = np.where(queries[:, Query.IN_KB] > 0.0, KB_SEEN_RIGHT, KB_SEEN_WRONG)
    queries[:, Query.KB_SEEN] = rng.random(count) < seen
    queries[:, Query.CATEGORY] = category


def _fill_waits(queries: FloatArray, carbon: FloatArray, forecast: FloatArray) -> None:
    """For how long WAIT would hold each query: until the hour of the lowest forecast within its deadline."""
    arrival = queries[:, Query.ARRIVAL_H]
    hour = arrival.astype(np.int64)
    leads = np.arange(1, WAIT_MAX_H + 1)
    in_time = (hour[:, None] + leads) - arrival[:, None] <= queries[:, Query.DEADLINE_H][:, None]
    in_time[:, 0] = True  # who cannot wait for the next hour would be late then
    offered = np.where(in_time, forecast[hour][:, 1:], np.inf)
    lead = offered.argmin(axis=1)
    queries[:, Query.WAIT_H] = lead + 1
    queries[:, Query.CARBON] = carbon[hour]
    queries[:, Query.CARBON_IF_WAIT] = offered[np.arange(len(hour)), lead]


def _fill_loads(config: StreamConfig, hours: FloatArray, start: int, rng: np.random.Generator) -> None:
    """Load that the rest of the service puts on each model; our assumption."""
    share = day_share((start + np.arange(HORIZON_H)) % 24)
    for model, (least, more) in enumerate(((0.10, 0.45), (0.10, 0.50), (0.10, 0.40))):
        hours[:, 1 + model] = least + more * share
    crowds = rng.integers(0, STREAM_HOURS, 2)
    length = rng.integers(1, 4, 2)
    if config.crowd:
        for first, last in zip(crowds, crowds + length, strict=True):
            hours[first:last, 1:] += 0.25
    hours[:, 1:] = np.minimum(hours[:, 1:], 0.9)


def _draw_outages(config: StreamConfig, rng: np.random.Generator) -> FloatArray:
    """Quarters of an hour in which a model is dead."""
    down = np.zeros((4 * HORIZON_H, MODELS))
    for model in range(MODELS):
        for _ in range(int(rng.poisson(config.outages))):
            first = int(4 * rng.uniform(0.0, STREAM_HOURS))
            down[first : first + int(rng.integers(2, 13)), model] = 1.0
    return down
