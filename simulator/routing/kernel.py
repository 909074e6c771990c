"""What a decision about one query of a stream brings: energy, carbon, latency, and whether the answer is
right.

The fleet is Llama-3.1-8B, -70B and -405B (FP8) on H100 GPUs. :func:`answer` works the outcome out and
changes nothing; :func:`commit` makes it happen. Both are plain arithmetic over rows of numbers: the vector
environment runs compiled copies of this source.

Energy per answer falls with the batch that shares each read of the weights. Two measured points of each model
(ML.ENERGY leaderboard, chat, H100: batch 8 and a large batch) give E(B) = fixed + shared / B.
"""

from __future__ import annotations

from enum import IntEnum
from math import log
from typing import Any

from simulator.routing.cache import LOOKUP_S, LOOKUP_WH, look_up, stores

__all__ = [
    "LOAD_START",
    "MODELS",
    "Hour",
    "Outcome",
    "Query",
    "State",
    "answer",
    "answer_energy_wh",
    "answer_seconds",
    "commit",
    "latency_penalty",
    "load_of",
    "queued",
]


class Query(IntEnum):
    """Columns of a row of queries."""

    ARRIVAL_H = 0
    TOPIC = 1
    NEIGHBOUR = 2
    RANK = 3
    """Difficulty of the question among those of its category, 0 to 1: model m answers it if rank < RIGHT_m.
    """
    RIGHT_SMALL = 4
    RIGHT_MEDIUM = 5
    RIGHT_LARGE = 6
    LENGTH = 7
    """Answer tokens as a share of the usual answer's."""
    DEADLINE_H = 8
    WAIT_H = 9
    """Hours that WAIT would hold it: to the lowest forecast within its deadline, at least one."""
    SAME_SIMILARITY = 10
    NEAR_SIMILARITY = 11
    NEAR_RIGHT = 12
    """1 when the neighbouring question's answer would do."""
    CHANGED_H = 13
    """When the right answer changed; far in the future if it does not."""
    IN_KB = 14
    KB_RIGHT = 15
    KB_REFRESHED_H = 16
    JUDGE_SMALL = 17
    JUDGE_MEDIUM = 18
    # What the agent sees of the rest.
    ESTIMATE = 19
    LENGTH_ESTIMATE = 20
    KB_SEEN = 21
    CARBON = 22
    CARBON_IF_WAIT = 23
    CATEGORY = 24


class Hour(IntEnum):
    """Columns of a row of hours."""

    CARBON = 0
    LOAD_SMALL = 1
    LOAD_MEDIUM = 2
    LOAD_LARGE = 3


class State(IntEnum):
    """Entries of the small state vector."""

    SHARE_SMALL = 0
    SHARE_MEDIUM = 1
    SHARE_LARGE = 2
    TIMEOUT_SMALL_H = 3
    TIMEOUT_MEDIUM_H = 4
    TIMEOUT_LARGE_H = 5
    CACHED = 6


class Outcome(IntEnum):
    """Entries of an outcome."""

    CORRECT = 0
    ENERGY_WH = 1
    CO2_G = 2
    LATENCY_S = 3
    """From the arrival; for a query held by WAIT from when it is taken up again, unless somebody waits."""
    LATE = 4
    CACHE_HIT = 5
    CACHE_WRONG = 6
    KB_USED = 7
    TIMEOUTS = 8
    USED_SMALL = 9
    USED_MEDIUM = 10
    USED_LARGE = 11
    DEAD_SMALL = 12
    DEAD_MEDIUM = 13
    DEAD_LARGE = 14
    HELD_H = 15
    HELD_HOUR = 16
    """Hour in which WAIT runs it; -1 without."""
    STORED = 17
    SCORE = 18
    CARBON_PENALTY = 19
    LATENCY_PENALTY = 20
    REWARD = 21


MODELS = 3
NONE, USE_CACHE, DO_CASCADE, EARLY_EXIT, WAIT, CALL_KB = range(6)

BATCH_SMALL, BATCH_LARGE = 8.0, 128.0
"""Sequences in a batch at which energy was measured; for "large" we take 128."""
ENERGY_BATCH_8_WH = (0.049, 0.37, 1.42)
ENERGY_LARGE_BATCH_WH = (0.0077, 0.036, 0.21)
"""Per chat answer: Llama-3.1-8B, -70B, -405B FP8 (ML.ENERGY leaderboard, H100)."""
_SPAN = 1.0 / BATCH_SMALL - 1.0 / BATCH_LARGE
SHARED_WH = (
    (ENERGY_BATCH_8_WH[0] - ENERGY_LARGE_BATCH_WH[0]) / _SPAN,
    (ENERGY_BATCH_8_WH[1] - ENERGY_LARGE_BATCH_WH[1]) / _SPAN,
    (ENERGY_BATCH_8_WH[2] - ENERGY_LARGE_BATCH_WH[2]) / _SPAN,
)
FIXED_WH = (
    ENERGY_LARGE_BATCH_WH[0] - SHARED_WH[0] / BATCH_LARGE,
    ENERGY_LARGE_BATCH_WH[1] - SHARED_WH[1] / BATCH_LARGE,
    ENERGY_LARGE_BATCH_WH[2] - SHARED_WH[2] / BATCH_LARGE,
)

ANSWER_TOKENS = 300.0
"""Usual answer, tokens: what the energy figures are taken to be for."""
TOKEN_S = (0.0080, 0.0175, 0.0255)
"""Seconds a token at light load: weights (16 GB on one H100, 141 GB on four, 410 GB on eight) read at 60 % of
3.35 TB/s a GPU (data sheet H100 SXM)."""
BUSY_SLOWDOWN = 0.5
"""A full batch makes each token this much slower; our assumption."""

OWN_LOAD = (0.2, 0.35, 0.5)
"""Load that the stream itself adds to a model when all of it goes there: the stream is a sample of the
service's traffic, and the larger the model the fewer answers its GPUs give. Our assumption."""
SHARE_STEP = 0.05
LOAD_START = 1.0 / 3.0
LOAD_MAX = 0.95
LANE_LOAD, HELD_LOAD = 0.45, 0.02
"""Held queries run in one batch with what else the service holds back, and that fills idle hours: a model's
load is then LANE_LOAD at least, and each held query of the hour adds HELD_LOAD. About what queries meet when
they arrive, so that waiting saves by cleaner power and hardly by fuller batches; our assumption."""
LANE_PER_HOUR = 8
"""Held queries that run in one hour; those above go to the next."""

KB_ENERGY, KB_LATENCY = 0.5, 1.5
"""Of the knowledge base, as shares of SMALL's usual answer: the ratios of the classic tasks."""
TIMEOUT_S = 10.0
JUDGE_ACCEPTS_RIGHT, JUDGE_ACCEPTS_WRONG = 0.92, 0.25
"""How often the check between two stages of a cascade lets an answer pass; our assumption."""
EARLY_EXIT_SHARE = 0.6

CARBON_PRICE_PER_G = 2.0
CARBON_CAP = 0.6
LATENCY_PRICE_PER_S = 0.02
LATENCY_KNEE_S, LATENCY_GONE_S = 10.0, 3600.0
LATENCY_CAP = 0.4
"""Each second costs alike up to ten, the limit of keeping a user's attention (Nielsen, Usability Engineering,
1993); from there each doubling does, so that slow and slower differ, up to LATENCY_CAP at an hour."""
LATENCY_TAIL = (LATENCY_CAP - LATENCY_PRICE_PER_S * LATENCY_KNEE_S) / log(LATENCY_GONE_S / LATENCY_KNEE_S)
WAIT_PRICE = 0.005
"""What using up the whole of a deadline costs: whoever names one has said that the time until then matters
little; as much as a quarter of a second of somebody who waits."""


def load_of(model: int, hour: Any, share: float, held: float) -> float:
    """Share of a model's capacity in use; ``held`` queries of the hour's batch of held ones, 0 outside it."""
    load = hour[1 + model] + OWN_LOAD[model] * share
    if held > 0.0:
        load = max(load, LANE_LOAD) + HELD_LOAD * held
    return min(load, LOAD_MAX)


def answer_energy_wh(model: int, load: float) -> float:
    """Energy of a usual answer."""
    batch = BATCH_SMALL + (BATCH_LARGE - BATCH_SMALL) * load
    return FIXED_WH[model] + SHARED_WH[model] / batch


def answer_seconds(model: int, load: float, length: float) -> float:
    """Time of an answer: waiting for a place, then its tokens."""
    usual = ANSWER_TOKENS * TOKEN_S[model]
    return usual * (load * load * load * load / (1.0 - load)) + usual * length * (1.0 + BUSY_SLOWDOWN * load)


def latency_penalty(seconds: float) -> float:
    """What it costs to keep somebody waiting: linear up to the knee, then logarithmic, at most the cap."""
    if seconds <= LATENCY_KNEE_S:
        return LATENCY_PRICE_PER_S * seconds
    tail = LATENCY_TAIL * log(seconds / LATENCY_KNEE_S)
    return min(LATENCY_PRICE_PER_S * LATENCY_KNEE_S + tail, LATENCY_CAP)


def queued(held: Any, booked: int) -> int:
    """Held queries ahead of one that is booked for an hour: each LANE_PER_HOUR of them push it an hour on.
    The last hour takes what is left."""
    hour = booked
    while hour < len(held) - 1 and held[hour] >= LANE_PER_HOUR:
        hour += 1
    return LANE_PER_HOUR * (hour - booked) + min(int(held[hour]), LANE_PER_HOUR - 1)


def answer(
    query: Any,
    hours: Any,
    down: Any,
    held: Any,
    cached_h: Any,
    cached_right: Any,
    state: Any,
    strategy: int,
    model: int,
    exit_flag: bool,
    out: Any,
) -> None:
    """Fill ``out`` (columns of :class:`Outcome`) with what a decision brings.

    Args:
        query: row of :class:`Query`.
        hours: rows of :class:`Hour`, from the start of the stream.
        down: rows of a quarter of an hour, 1.0 for each model that is dead.
        held: number of held queries that run in each hour.
        cached_h, cached_right: by topic, when an answer was cached (-1: none; if held, the hour to come
            in which it runs) and whether it was right.
        state: see :class:`State`.
    """
    for column in range(22):
        out[column] = 0.0
    out[16] = -1.0
    now = query[0]
    hour = int(now)
    if strategy == USE_CACHE:
        look_up(query, cached_h, cached_right, out)
    elif strategy == CALL_KB:
        ask_knowledge_base(query, hours[hour], state, out)
    if out[5] == 0.0 and out[7] == 0.0:
        waiting = 0.0
        slot = int(now * 4.0)
        if strategy == WAIT:
            booked = hour + int(query[9])
            ahead = queued(held, booked)
            hour = booked + ahead // LANE_PER_HOUR
            waiting = ahead % LANE_PER_HOUR + 1.0
            out[16] = float(hour)
            slot = 4 * hour
            out[15] = max(0.0, hour - now)
        if strategy == DO_CASCADE:
            run_cascade(query, hours[hour], down[slot], state, model, exit_flag, out)
        elif strategy == EARLY_EXIT:
            run_model(query, hours[hour], down[slot], state, model, EARLY_EXIT_SHARE, waiting, out)
        else:
            run_model(query, hours[hour], down[slot], state, model, 1.0, waiting, out)
    weigh(query, hours[hour][0], out)


def ask_knowledge_base(query: Any, hour: Any, state: Any, out: Any) -> None:
    """A passage answers, if there is one. It may be older than the last change of the right answer."""
    out[1] = LOOKUP_WH
    out[3] = LOOKUP_S
    if query[14] > 0.0:
        load = load_of(0, hour, state[0], 0.0)
        out[7] = 1.0
        out[1] += KB_ENERGY * answer_energy_wh(0, load)
        out[3] += KB_LATENCY * answer_seconds(0, load, 1.0)
        stale = query[16] < query[13] and query[13] <= query[0]
        if query[15] > 0.0 and not stale:
            out[0] = 1.0


def run_model(
    query: Any, hour: Any, down: Any, state: Any, model: int, part: float, waiting: float, out: Any
) -> None:
    """One model answers, or after its timeout the next larger one that lives, or the next smaller one."""
    if down[model] > 0.0:
        out[8] += 1.0
        out[12 + model] = 1.0
        out[3] += TIMEOUT_S
        model = stand_in(down, model)
        if model < 0:
            return
    load = load_of(model, hour, state[model], waiting)
    out[9 + model] = 1.0
    out[1] += part * query[7] * answer_energy_wh(model, load)
    out[3] += part * answer_seconds(model, load, query[7])
    # Stopped part-way, a model does what the next smaller one can.
    able = model if part == 1.0 else model - 1
    out[0] = 1.0 if able >= 0 and query[3] < query[4 + able] else 0.0
    out[17] = 1.0


def stand_in(down: Any, model: int) -> int:
    """The model that answers for a dead one; -1 when all are dead."""
    for other in range(model + 1, MODELS):
        if down[other] == 0.0:
            return other
    for step in range(1, model + 1):
        if down[model - step] == 0.0:
            return model - step
    return -1


def run_cascade(query: Any, hour: Any, down: Any, state: Any, last: int, exit_flag: bool, out: Any) -> None:
    """Models in order of size. With the flag a check looks at each answer, and is not always right."""
    for model in range(last + 1):
        if down[model] > 0.0:
            out[8] += 1.0
            out[12 + model] = 1.0
            out[3] += TIMEOUT_S
            # For the last one only a larger model stands in: what a smaller one says is known by now.
            other = stand_in(down, model)
            if model == last and other > model:
                run_model(query, hour, down, state, other, 1.0, 0.0, out)
        else:
            run_model(query, hour, down, state, model, 1.0, 0.0, out)
            if exit_flag and model < last:
                accepts = JUDGE_ACCEPTS_RIGHT if out[0] > 0.0 else JUDGE_ACCEPTS_WRONG
                if query[17 + model] < accepts:
                    return


def weigh(query: Any, carbon: float, out: Any) -> None:
    """Carbon, lateness and the reward: score - carbon penalty - latency penalty, in [-1, 1]."""
    out[2] = out[1] * carbon * 0.001
    deadline = query[8]
    if deadline > 0.0:
        if out[15] > deadline:
            out[4] = 1.0
        out[20] = LATENCY_CAP if out[4] > 0.0 else WAIT_PRICE * out[15] / deadline
    else:
        out[3] += 3600.0 * out[15]
        if out[15] > 0.0:
            out[4] = 1.0
        out[20] = LATENCY_CAP if out[4] > 0.0 else latency_penalty(out[3])
    out[20] = 0.0 - out[20]
    out[19] = 0.0 - min(CARBON_PRICE_PER_G * out[2], CARBON_CAP)
    # Whoever could not wait has gone: the answer is worth nothing.
    out[18] = 0.0 if out[15] > 0.0 and deadline == 0.0 else out[0]
    out[21] = out[18] + out[19] + out[20]


def commit(
    query: Any, held: Any, cached_h: Any, cached_right: Any, state: Any, capacity: int, out: Any
) -> None:
    """Make an outcome happen: loads, timeouts, held queries, and the answer into the cache."""
    stored = query[0]
    if out[16] >= 0.0:
        held[int(out[16])] += 1.0
        stored = out[16]
    for model in range(MODELS):
        state[model] += SHARE_STEP * (out[9 + model] - state[model])
        if out[12 + model] > 0.0 and out[16] < 0.0:
            state[3 + model] = query[0]
    if stores(query, cached_h, out):
        topic = int(query[1])
        if cached_h[topic] < 0.0:
            state[6] += 1.0
        cached_h[topic] = stored
        cached_right[topic] = out[0]
        if state[6] > capacity:
            oldest = topic
            for other in range(len(cached_h)):
                if 0.0 <= cached_h[other] < cached_h[oldest]:
                    oldest = other
            cached_h[oldest] = -1.0
            state[6] -= 1.0
