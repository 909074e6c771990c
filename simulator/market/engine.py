"""A GPU market hour by hour: the plain engine over lists of integers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from inferencegym.errors import InvalidValueError
from inferencegym.models.market import LINE_CAPACITY
from simulator.market.config import MarketSetup
from simulator.market.kernel import (
    COUNTS,
    EPISODE_HOURS_MAX,
    MAX_RATE,
    OPENING_HOURS,
    POISSON_WORDS,
    SCALE,
    SCHEDULE_WORDS,
    WORDS_PER_HOUR,
    forget_silence,
    job_gpus,
    job_hours,
    job_limit,
    plan_hours,
    poisson,
    trade_hour,
)

__all__ = ["Demand", "HourCounts", "Job", "MarketEngine", "accepting_share", "fluid_revenue"]


class HourCounts(NamedTuple):
    """What an hour left behind and what happened in it; money in micro-USD. Fields as in ``COUNTS``."""

    running_jobs: int
    running_gpus: int
    waiting_jobs: int
    zero_streak: int
    silence: int
    dead: int
    price: int
    revenue: int
    arrived: int
    priced_out: int
    turned_away: int
    joined: int
    joined_gpus: int
    started: int
    finished: int
    interrupted: int
    interrupted_gpus: int
    driven_off: int
    driven_off_gpus: int
    gave_up: int


assert HourCounts._fields == COUNTS


class Job(NamedTuple):
    """A job that looks at the price: what it needs, and the most it pays (micro-USD per GPU-hour)."""

    gpus: int
    hours: int
    limit: int


class Demand:
    """Everybody who will look at the price in an episode, whatever that price is.

    Args:
        setup: the market. source: a bit generator, for example ``numpy.random.PCG64(seed)``; its raw 64-bit
        stream is used, which
            NumPy keeps the same for ever.
        hours: length of the episode, the opening hours included.
    """

    def __init__(self, setup: MarketSetup, source: np.random.BitGenerator, hours: int) -> None:
        if not 1 <= hours <= EPISODE_HOURS_MAX:
            raise InvalidValueError("hours", hours, f"a whole number from 1 to {EPISODE_HOURS_MAX}")
        self.setup = setup
        self.hours = hours
        raw = source.random_raw(SCHEDULE_WORDS + hours * WORDS_PER_HOUR) >> np.uint64(1)
        schedule: list[int] = raw[:SCHEDULE_WORDS].tolist()
        self.word_rows = raw[SCHEDULE_WORDS:].astype(np.int64).reshape(hours, WORDS_PER_HOUR)
        """Random words, one row an hour."""
        self.rates: list[int] = [0] * hours
        """Expected arrivals of each hour, at SCALE."""
        self.willing: list[int] = [0] * hours
        """Factor on the limits of each hour's arrivals, at SCALE."""
        events = setup.events
        plan_hours(
            setup.arrival_rate,
            setup.hourly_arrivals,
            [event.period_h for event in events],
            [event.duration_h for event in events],
            [event.arrivals for event in events],
            [event.limits for event in events],
            schedule,
            (self.rates, self.willing),
        )

    def words(self, hour: int) -> list[int]:
        """The random words of an hour."""
        return self.word_rows[hour].tolist()

    def jobs(self, hour: int) -> list[Job]:
        """The latent jobs of an hour: all who look at the price, those who will not pay it included."""
        setup, words = self.setup, self.words(hour)
        return [
            Job(
                job_gpus(word, setup.size_shares),
                job_hours(word, setup.length_shares, setup.lengths),
                job_limit(word, setup.limits) * self.willing[hour] // SCALE,
            )
            for word in words[POISSON_WORDS:][: poisson(self.rates[hour], words, 0)]
        ]

    def change(self, first: int, hours: int, arrivals: int = SCALE, limits: int = SCALE) -> None:
        """Multiply rates and limits of some hours; every other hour keeps its jobs."""
        for hour in range(first, min(first + hours, self.hours)):
            self.rates[hour] = min(self.rates[hour] * arrivals // SCALE, MAX_RATE)
            self.willing[hour] = self.willing[hour] * limits // SCALE


class MarketEngine:
    """One provider's market. ``open`` first, then ``trade`` hour by hour.

    Args:
        setup: the market.
        demand: who looks at the price.
    """

    def __init__(self, setup: MarketSetup, demand: Demand) -> None:
        self.setup = setup
        self.demand = demand
        self.hour = 0
        self._constants = [setup.gpus, setup.patience_h, setup.min_price, setup.max_price]
        # Jobs that run: GPUs, hours left, limit. Jobs in line: GPUs, hours, limit, hours waited.
        self._jobs: list[list[int]] = [[0] * setup.gpus for _ in range(3)]
        self._jobs += [[0] * LINE_CAPACITY for _ in range(4)]
        self._counts = [0] * len(COUNTS)

    @property
    def over(self) -> bool:
        """No hour is left, or the market is dead."""
        return self.hour >= self.demand.hours or bool(self._counts[COUNTS.index("dead")])

    def open(self) -> HourCounts:
        """Play the opening hours at the opening price; returns the last."""
        for _ in range(OPENING_HOURS):
            self.trade(self.setup.opening_price)
        forget_silence(self._counts)
        return HourCounts._make(self._counts)

    def trade(self, price: int) -> HourCounts:
        """Play an hour at ``price`` (micro-USD per GPU-hour, within the bounds)."""
        setup, demand, hour = self.setup, self.demand, self.hour
        trade_hour(
            self._constants,
            setup.limits,
            setup.size_shares,
            setup.length_shares,
            setup.lengths,
            price,
            demand.rates[hour],
            demand.willing[hour],
            demand.words(hour),
            0,
            *self._jobs,
            counts=self._counts,
        )
        self.hour += 1
        return HourCounts._make(self._counts)

    def snapshot(self) -> Any:
        """Copy of all that changes."""
        return self.hour, [list(row) for row in (*self._jobs, self._counts)]

    def restore(self, snapshot: Any) -> None:
        """Back to a snapshot of this engine."""
        self.hour, rows = snapshot
        for mine, kept in zip((*self._jobs, self._counts), rows, strict=True):
            mine[:] = kept


def accepting_share(setup: MarketSetup, price: int, willing: int = SCALE) -> int:
    """Share of customers (at SCALE) whose limit is at least ``price``."""
    limits = [limit * willing // SCALE for limit in setup.limits]
    segments = len(limits) - 1
    if price <= limits[0]:
        return SCALE
    for place in range(segments):
        low, high = limits[place], limits[place + 1]
        if price <= high:
            below = place * SCALE + (price - low) * SCALE // max(1, high - low)
            return SCALE - below // segments
    return 0


_PRICES = 64


@lru_cache(maxsize=256)
def _fluid_hours(setup: MarketSetup) -> dict[tuple[int, int], int]:
    """What is known already of :func:`_fluid_hour`, by rate and willingness."""
    return {}


def _fluid_hour(setup: MarketSetup, rate: int, willing: int) -> int:
    """Most that an hour can bring when arrivals come as their mean and for ever: micro-USD."""
    best = 0
    gpu_hours = rate * setup.job_gpu_hours // SCALE
    for step in range(_PRICES + 1):
        price = setup.min_price + (setup.max_price - setup.min_price) * step // _PRICES
        busy = min(setup.gpus * SCALE, gpu_hours * accepting_share(setup, price, willing) // SCALE)
        best = max(best, price * busy // SCALE)
    return best


def fluid_revenue(setup: MarketSetup, rates: Sequence[int], willing: Sequence[int]) -> int:
    """Mean revenue per hour (micro-USD) of the fluid benchmark over hours of given rates and willingness.

    The benchmark of revenue management (Gallego and van Ryzin, 1994): demand flows at its expected rate, and
    every hour has the price that is best for it for ever. Here jobs outlast the hour they came in, so that it
    is a yardstick rather than a bound.
    """
    known, total = _fluid_hours(setup), 0
    for kind in zip(rates, willing, strict=True):
        if kind not in known:
            known[kind] = _fluid_hour(setup, *kind)
        total += known[kind]
    return total // len(rates)
