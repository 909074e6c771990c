"""One hour of a GPU market, in integers: the kernel that every engine of the market shares.

Money, rates, shares and multipliers are whole numbers at ``SCALE`` (one dollar is 1,000,000). The functions
are plain Python over sequences of integers: over lists they are the plain engine
(:mod:`simulator.market.engine`), and compiled copies of the same source step many markets at once
(:mod:`simulator.market.rows`). No intermediate value leaves 63 bits.

Randomness comes in as *words*: whole numbers below 2**63, ``SCHEDULE_WORDS`` of them for an episode's events
and ``WORDS_PER_HOUR`` for every hour, whatever happens in it. The first part of an hour's words draws the
number of arrivals, then one word is one job. So the jobs of an hour do not depend on the price, and a change
of the arrival rate in one hour leaves all other hours as they were.
"""

from __future__ import annotations

from typing import Any

from inferencegym.models.market import LINE_CAPACITY

__all__ = [
    "COUNTS",
    "EPISODE_HOURS_MAX",
    "EVENTS_MAX",
    "HOUR_COUNTS",
    "JOB_GPUS",
    "MAX_JOBS_PER_HOUR",
    "MAX_RATE",
    "OPENING_HOURS",
    "PERIOD_HOURS_MIN",
    "POISSON_WORDS",
    "SCALE",
    "SCHEDULE_WORDS",
    "SETUP",
    "WORDS_PER_HOUR",
    "exp_minus",
    "forget_silence",
    "job_gpus",
    "job_hours",
    "job_limit",
    "plan_hours",
    "poisson",
    "trade_hour",
    "uniform",
]

SCALE = 1_000_000
"""Unit of all fixed-point numbers."""

POISSON_CHUNK = 2 * SCALE
"""Largest mean that Knuth's product is run for at once. At this scale e^-14 is 0.8 of a unit: the product of
uniforms then reaches 0 before the limit, and plain Knuth sticks near 13.4 whatever the mean."""
EXP_MINUS_CHUNK = 135_335
"""e^-2."""
MAX_RATE = 64 * SCALE
"""Largest arrival rate, jobs per hour."""
MAX_JOBS_PER_HOUR = 128
"""Arrivals of an hour end here: 8 standard deviations above the largest mean."""
POISSON_WORDS = MAX_JOBS_PER_HOUR + MAX_RATE // POISSON_CHUNK
WORDS_PER_HOUR = POISSON_WORDS + MAX_JOBS_PER_HOUR

EPISODE_HOURS_MAX = 1000
EVENTS_MAX = 8
PERIOD_HOURS_MIN = 10
PERIODS_MAX = EPISODE_HOURS_MAX // PERIOD_HOURS_MIN
SCHEDULE_WORDS = EVENTS_MAX * PERIODS_MAX
"""One word for every period of every event."""
HOURS_PER_DAY = 24
OPENING_HOURS = HOURS_PER_DAY
"""Hours at the opening price before an episode begins, so that it begins with a business and not with an
empty house."""

JOB_GPUS = (1, 2, 4, 8)
"""GPUs that a job can ask for."""

_EXP_UNIT = 10**12
_FIELD_BITS = 21
_FIELD = (1 << _FIELD_BITS) - 1
_SHARE_BITS = 31

# Entries of the sequence ``setup``.
SETUP = ("gpus", "patience_h", "min_price", "max_price")
GPUS, PATIENCE, MIN_PRICE, MAX_PRICE = range(len(SETUP))

# Entries of the sequence ``counts``: what carries over, then what happened in the hour.
COUNTS = (
    "running_jobs",
    "running_gpus",
    "waiting_jobs",
    "zero_streak",
    "silence",
    "dead",
    "price",
    "revenue",
    "arrived",
    "priced_out",
    "turned_away",
    "joined",
    "joined_gpus",
    "started",
    "finished",
    "interrupted",
    "interrupted_gpus",
    "driven_off",
    "driven_off_gpus",
    "gave_up",
)
(
    RUNNING,
    BUSY,
    WAITING,
    STREAK,
    SILENCE,
    DEAD,
    PRICE,
    REVENUE,
    ARRIVED,
    PRICED_OUT,
    TURNED_AWAY,
    JOINED,
    JOINED_GPUS,
    STARTED,
    FINISHED,
    INTERRUPTED,
    INTERRUPTED_GPUS,
    DRIVEN_OFF,
    DRIVEN_OFF_GPUS,
    GAVE_UP,
) = range(len(COUNTS))
HOUR_COUNTS = REVENUE
"""From this entry on ``counts`` start at 0 every hour."""

ACCEPTING_SHARE = 4
"""A fair price is one that at least a quarter of the customers would pay."""
DEATH_SILENCE = 16 * SCALE
"""Customers expected at a fair price, none of whom came: the market is dead. Luck alone does that with
probability e^-16 from any given hour on, 2 in 100,000 episodes of 200 hours."""


def uniform(word: int) -> int:
    """A number from 1 to SCALE from the upper 32 bits of a word."""
    return ((word >> _SHARE_BITS) * SCALE >> 32) + 1


def exp_minus(mean: int) -> int:
    """e^-mean for ``mean`` from 0 to 2, all at SCALE: the reciprocal of the exponential series."""
    total, term, n = _EXP_UNIT, _EXP_UNIT, 1
    while term > 0:
        term = term * mean // (n * SCALE)
        total += term
        n += 1
    return (SCALE * _EXP_UNIT + total // 2) // total


def poisson(rate: int, words: Any, first: int) -> int:
    """A Poisson number with mean ``rate`` (at SCALE), from the words at ``first`` on.

    Knuth's product of uniforms (1969), in chunks of mean 2 at most, whose numbers add up.
    """
    count, place, end, left = 0, first, first + POISSON_WORDS, rate
    while left > 0:
        chunk = min(left, POISSON_CHUNK)
        left -= chunk
        limit = EXP_MINUS_CHUNK if chunk == POISSON_CHUNK else exp_minus(chunk)
        product = SCALE
        while place < end:
            product = product * uniform(words[place]) // SCALE
            place += 1
            if product <= limit:
                break
            count += 1
    return min(count, MAX_JOBS_PER_HOUR)


def job_limit(word: int, limits: Any) -> int:
    """The highest price a job pays: linear between the quantiles ``limits``, which lie evenly."""
    place = (word >> (2 * _FIELD_BITS)) * (len(limits) - 1)
    low = place >> _FIELD_BITS
    return limits[low] + ((limits[low + 1] - limits[low]) * (place & _FIELD) >> _FIELD_BITS)


def pick(field: int, shares: Any) -> int:
    """Index of the first cumulative share above a 21-bit field; the last share is SCALE."""
    value = field * SCALE >> _FIELD_BITS
    index = 0
    while value >= shares[index]:
        index += 1
    return index


def job_gpus(word: int, shares: Any) -> int:
    """GPUs that a job needs."""
    return JOB_GPUS[pick((word >> _FIELD_BITS) & _FIELD, shares)]


def job_hours(word: int, shares: Any, lengths: Any) -> int:
    """Hours that a job runs."""
    return lengths[pick(word & _FIELD, shares)]


def plan_hours(
    base: int, hourly: Any, periods: Any, durations: Any, arrivals: Any, limits: Any, words: Any, plan: Any
) -> None:
    """Fill ``plan`` (rates, willingness) for as many hours as it has: the day's course and the events.

    Args:
        base: jobs per hour.
        hourly: 24 factors on it by hour of the day.
        periods, durations: of each event, hours.
        arrivals, limits: factors on rate and willingness while it lasts.
        words: the episode's first ``SCHEDULE_WORDS``.
    """
    rates, willing = plan[0], plan[1]
    for hour in range(len(rates)):
        rate, factor = base * hourly[hour % HOURS_PER_DAY] // SCALE, SCALE
        for event in range(len(periods)):
            period, slack = hour // periods[event], periods[event] - durations[event] + 1
            start = period * periods[event] + (words[event * PERIODS_MAX + period] >> _SHARE_BITS) % slack
            if start <= hour < start + durations[event]:
                rate = rate * arrivals[event] // SCALE
                factor = factor * limits[event] // SCALE
        rates[hour] = min(rate, MAX_RATE)
        willing[hour] = factor


def put_out(price: int, gpus: Any, left: Any, limit: Any, counts: Any) -> None:
    """Running jobs whose limit the price exceeds stop, unfinished."""
    kept, busy = 0, 0
    for job in range(counts[RUNNING]):
        if limit[job] >= price:
            gpus[kept], left[kept], limit[kept] = gpus[job], left[job], limit[job]
            busy += gpus[job]
            kept += 1
        else:
            counts[INTERRUPTED_GPUS] += gpus[job]
    counts[INTERRUPTED] = counts[RUNNING] - kept
    counts[RUNNING], counts[BUSY] = kept, busy


def thin_line(price: int, setup: Any, gpus: Any, hours: Any, limit: Any, waited: Any, counts: Any) -> None:
    """Waiting jobs leave when the price exceeds their limit, or when they have waited too long."""
    kept = 0
    for job in range(counts[WAITING]):
        if limit[job] < price:
            counts[DRIVEN_OFF] += 1
            counts[DRIVEN_OFF_GPUS] += gpus[job]
        elif waited[job] >= setup[PATIENCE]:
            counts[GAVE_UP] += 1
        else:
            gpus[kept], hours[kept], limit[kept], waited[kept] = (
                gpus[job],
                hours[job],
                limit[job],
                waited[job],
            )
            kept += 1
    counts[WAITING] = kept


def receive(
    price: int,
    rate: int,
    willing: int,
    limits: Any,
    size_shares: Any,
    length_shares: Any,
    lengths: Any,
    words: Any,
    first: int,
    gpus: Any,
    hours: Any,
    limit: Any,
    waited: Any,
    counts: Any,
) -> None:
    """New jobs look at the price; those that accept it join the line."""
    arrived = poisson(rate, words, first)
    counts[ARRIVED] = arrived
    for job in range(arrived):
        word = words[first + POISSON_WORDS + job]
        highest = job_limit(word, limits) * willing // SCALE
        place = counts[WAITING]
        if highest < price:
            counts[PRICED_OUT] += 1
        elif place >= LINE_CAPACITY:
            counts[TURNED_AWAY] += 1
        else:
            gpus[place] = job_gpus(word, size_shares)
            hours[place] = job_hours(word, length_shares, lengths)
            limit[place] = highest
            waited[place] = 0
            counts[WAITING] += 1
            counts[JOINED] += 1
            counts[JOINED_GPUS] += gpus[place]


def listen(rate: int, counts: Any) -> None:
    """Count hours in which no customer accepted the price; too long a silence is the market's death."""
    if counts[ARRIVED] > counts[PRICED_OUT]:
        counts[STREAK] = 0
        counts[SILENCE] = 0
        return
    counts[STREAK] += 1
    counts[SILENCE] += rate // ACCEPTING_SHARE
    if counts[SILENCE] >= DEATH_SILENCE:
        counts[SILENCE] = DEATH_SILENCE
        counts[DEAD] = 1


def forget_silence(counts: Any) -> None:
    """What the opening price drove away is not counted against who takes over."""
    counts[STREAK] = 0
    counts[SILENCE] = 0
    counts[DEAD] = 0


def start_jobs(
    setup: Any,
    run_gpus: Any,
    run_left: Any,
    run_limit: Any,
    gpus: Any,
    hours: Any,
    limit: Any,
    waited: Any,
    counts: Any,
) -> None:
    """Start jobs in order of arrival; the first that does not fit holds up those behind it."""
    started = 0
    while started < counts[WAITING] and counts[BUSY] + gpus[started] <= setup[GPUS]:
        place = counts[RUNNING]
        run_gpus[place] = gpus[started]
        run_left[place] = hours[started]
        run_limit[place] = limit[started]
        counts[BUSY] += gpus[started]
        counts[RUNNING] += 1
        started += 1
    counts[STARTED] = started
    waiting = counts[WAITING] - started
    for job in range(waiting):
        gpus[job], hours[job] = gpus[job + started], hours[job + started]
        limit[job], waited[job] = limit[job + started], waited[job + started] + 1
    counts[WAITING] = waiting


def finish_jobs(gpus: Any, left: Any, limit: Any, counts: Any) -> None:
    """An hour of work is done; jobs with none left leave. ``running_gpus`` stays that of the hour."""
    kept = 0
    for job in range(counts[RUNNING]):
        if left[job] > 1:
            gpus[kept], left[kept], limit[kept] = gpus[job], left[job] - 1, limit[job]
            kept += 1
    counts[FINISHED] = counts[RUNNING] - kept
    counts[RUNNING] = kept


def trade_hour(
    setup: Any,
    limits: Any,
    size_shares: Any,
    length_shares: Any,
    lengths: Any,
    price: int,
    rate: int,
    willing: int,
    words: Any,
    first: int,
    run_gpus: Any,
    run_left: Any,
    run_limit: Any,
    gpus: Any,
    hours: Any,
    limit: Any,
    waited: Any,
    counts: Any,
) -> None:
    """One hour at ``price``.

    Args:
        setup: see ``SETUP``.
        limits: evenly spaced quantiles of the highest price that jobs pay.
        size_shares: cumulative shares of ``JOB_GPUS``.
        length_shares: cumulative shares of ``lengths``, hours.
        price: per GPU-hour, within the bounds of ``setup``.
        rate: expected arrivals of this hour.
        willing: factor on the limits of this hour's arrivals.
        words: random words; those of this hour begin at ``first``.
        run_gpus, run_left, run_limit: running jobs: GPUs, hours left, limit.
        gpus, hours, limit, waited: waiting jobs in order of arrival.
        counts: see ``COUNTS``; changed in place, like the jobs.
    """
    for index in range(HOUR_COUNTS, len(counts)):
        counts[index] = 0
    counts[PRICE] = price
    put_out(price, run_gpus, run_left, run_limit, counts)
    thin_line(price, setup, gpus, hours, limit, waited, counts)
    receive(
        price,
        rate,
        willing,
        limits,
        size_shares,
        length_shares,
        lengths,
        words,
        first,
        gpus,
        hours,
        limit,
        waited,
        counts,
    )
    listen(rate, counts)
    start_jobs(setup, run_gpus, run_left, run_limit, gpus, hours, limit, waited, counts)
    counts[REVENUE] = price * counts[BUSY]
    finish_jobs(run_gpus, run_left, run_limit, counts)
