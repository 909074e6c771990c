"""The physics of a fleet: 15 seconds of requests, replicas and a control plane.

Every second, in this order: replicas start, finish requests and drain; requests arrive; those that waited
too long give up; the gateway hands waiting requests, oldest first, to ready replicas in proportion to their
free places. Requests are whole and none is lost: arrived = served + timed out + failed + queued + running.

Plain functions over rows of :class:`~simulator.autoscaling.rows.Fleets`, lists or arrays.
:mod:`simulator.autoscaling.engine` runs them as they are or as machine code, with the same numbers.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any

from inferencegym.models.autoscaling import MAX_REPLICAS, MIN_REPLICAS, RATIO_MAX
from simulator.autoscaling.control import (
    PENDING,
    READY,
    note_change,
    reconcile,
    remove,
    replace_old,
    strike,
    take_request,
)
from simulator.autoscaling.plan import DISPERSION, HEALTHY_CPU, INTERVAL_S
from simulator.autoscaling.rows import COUNT, MEASURED, RESULT, TIMEOUT_S, WAIT_BINS

__all__ = [
    "ERROR_BUDGET",
    "OUTAGE_SHARE",
    "TPOT_SLO_MS",
    "TTFT_SLO_MS",
    "arrive_and_admit",
    "play_interval",
]

TTFT_SLO_MS = 2000.0
"""p95 time to first token: what MLPerf Inference asks of Llama-3.1-8B in its Server scenario (as a p99)."""

TPOT_SLO_MS = 50.0
"""Time per output token: 20 tokens/s, some four times the speed of reading."""

ERROR_BUDGET = 0.01
"""Share of requests that may fail."""

OUTAGE_SHARE = 0.5
"""Share of failed requests from which an interval is an outage."""

TREND_INTERVALS = 20
"""Five minutes."""

_MEASURED = len(MEASURED)
_ROUNDING = 1e-9
"""Less than a request's share of the places, more than an error of rounding."""

_SIX_SECONDS = 6
"""Panic window of Knative's autoscaler: a tenth of its stable window of 60 s."""

LIVE, NOW, QUEUED, OLD, TARGET = (COUNT[n] for n in ("live", "now", "queued", "old", "target"))
READY_COUNT, STARTING = COUNT["ready"], COUNT["pending"]
DRAINING_COUNT, WARMING = COUNT["draining"], COUNT["warming"]
LATENCY, CPU, ERROR_RATE, TRAFFIC = (RESULT[n] for n in ("latency", "cpu", "error_rate", "traffic"))
QUEUE, ARRIVAL_RATE, KV = RESULT["queue_depth"], RESULT["arrival_rate_rps"], RESULT["kv_occupancy"]
RATE_5M, TREND = RESULT["arrival_rate_5m_rps"], RESULT["arrival_trend_rps_per_min"]
CONCURRENCY, CONCURRENCY_6S, CPU_STEADY = (RESULT[n] for n in ("concurrency", "concurrency_6s", "cpu_steady"))
ARRIVED, SERVED, TIMED_OUT = RESULT["arrived"], RESULT["served"], RESULT["timed_out"]
FAILED, CORRUPTED, RUNNING = RESULT["failed"], RESULT["corrupted"], RESULT["running"]
P50, P95, TPOT = RESULT["ttft_p50_ms"], RESULT["ttft_p95_ms"], RESULT["tpot_ms"]
READY_AT_END, PENDING_AT_END = RESULT["replicas_ready"], RESULT["replicas_pending"]
DRAINING_AT_END, TARGET_AT_END = RESULT["replicas_draining"], RESULT["replicas_target"]
CHANGE, REVERSAL, REPLICA_SECONDS = (RESULT[n] for n in ("target_change", "reversal", "replica_seconds"))
REQUIRED, CHEAPEST = RESULT["required_replicas"], RESULT["cheapest_replica_seconds"]
OUTAGE, HEALTHY = RESULT["outage"], RESULT["healthy"]


# --- one second --------------------------------------------------------------------------------------------


def start_replicas(fleets: Any, i: int) -> None:
    """In an update: one second nearer to ready; each new replica that gets there relieves an old one."""
    count, phase, clock = fleets.count[i], fleets.phase[i], fleets.clock[i]
    started = fresh = 0
    for slot in range(count[LIVE]):
        if phase[slot] == PENDING:
            clock[slot] -= 1.0
            if clock[slot] <= 0.0:
                phase[slot] = READY
                clock[slot] = 0.0
                started += 1
                if fleets.old[i][slot] == 0:
                    fresh += 1
    count[STARTING] -= started
    for _ in range(min(fresh, count[OLD])):
        replace_old(fleets, i)


def work(table: Any, rules: Any, fleets: Any, i: int, allowed: int) -> Any:
    """Replicas start, finish requests and, when they drain and are empty, go.

    Returns finished requests, free places, ready replicas, their utilisation as reported (in requests/s) and
    running requests, ready replicas past their start-up and their utilisation, running requests of all
    replicas and the sum of their time per output token.
    """
    count, phase, clock = fleets.count[i], fleets.phase[i], fleets.clock[i]
    running, progress = fleets.running[i], fleets.progress[i]
    rate, tpot, limit = table.rate_rps, table.tpot_ms, table.limit
    finished = free = ready = ready_running = settled = all_running = 0
    reported = steady = tokens_ms = 0.0
    slot = 0
    while slot < count[LIVE]:
        kind, inside = phase[slot], running[slot]
        if kind == PENDING:
            if count[OLD] == 0:
                clock[slot] -= 1.0
                if clock[slot] <= 0.0:
                    phase[slot] = kind = READY
                    clock[slot] = 0.0
                    count[STARTING] -= 1
            if kind == PENDING:
                slot += 1
                continue
        pace = rate[inside]
        all_running += inside
        tokens_ms += inside * tpot[inside]
        if inside > 0:
            work = progress[slot] + pace
            done = min(int(work), inside)
            progress[slot] = work - done if inside > done else 0.0
            finished += done
            running[slot] = left = inside - done
        else:
            left = 0
        if kind == READY:
            ready += 1
            ready_running += inside
            free += min(limit - left, allowed)
            if clock[slot] < rules.warm_up_s:
                reported += rules.start_up_cpu * table.peak_rps
            else:
                reported += pace
                steady += pace
                settled += 1
            clock[slot] += 1.0
        elif left == 0:
            remove(fleets, i, slot)
            continue
        slot += 1
    return finished, free, ready, reported, ready_running, settled, steady, all_running, tokens_ms


def spread(table: Any, fleets: Any, i: int, admitted: int, free: int, allowed: int) -> None:
    """Hand ``admitted`` requests to ready replicas in proportion to their free places."""
    phase, running, limit = fleets.phase[i], fleets.running[i], table.limit
    places = given = 0
    ratio = admitted / free
    for slot in range(fleets.count[i][LIVE]):
        if phase[slot] == READY:
            places += min(limit - running[slot], allowed)
            share = int(places * ratio + _ROUNDING)  # all of them when places are free
            running[slot] += share - given
            given = share


def arrive_and_admit(waiting: Any, waits: Any, queued: int, second: int, arrivals: int, room: int) -> Any:
    """The gateway's queue in one second: returns requests queued, admitted and given up."""
    waiting[second % WAIT_BINS] = arrivals
    late = (second + 1) % WAIT_BINS  # arrived 31 seconds ago
    gave_up = waiting[late]
    if gave_up > 0:
        waits[WAIT_BINS - 1] += gave_up
        waiting[late] = 0
    queued += arrivals - gave_up
    admitted = min(queued, room)
    left = admitted
    age = TIMEOUT_S if queued > arrivals else 0
    while left > 0:
        place = (second - age) % WAIT_BINS
        taken = min(waiting[place], left)
        if taken > 0:
            waiting[place] -= taken
            waits[age] += taken
            left -= taken
        age -= 1
    return queued - admitted, admitted, gave_up


# --- one interval ------------------------------------------------------------------------------------------


def play_interval(table: Any, rules: Any, fleets: Any, i: int, move: int, total: int) -> None:
    """Serve 15 seconds of fleet ``i`` after a request: ``move`` (-1, 0, 1), or ``total`` replicas if above 0.

    Writes rows ``i`` of ``result`` and ``history`` and advances the clock. Must not be called after the last
    interval.
    """
    count, result, waits = fleets.count[i], fleets.result[i], fleets.waits[i]
    carry, now = fleets.carry[i], count[NOW]
    change = take_request(fleets, i, move, total)
    result[CHANGE] = change
    result[REVERSAL] = note_change(count, change)
    for index in range(WAIT_BINS):
        waits[index] = 0
    failed = strike(fleets, i)
    reconcile(fleets, i)
    expected = fleets.rate[i][now]
    spread_of_arrivals = sqrt(DISPERSION * expected)
    arrived = served = timed_out = corrupted = admitted_in_all = 0
    cpu = cpu_steady = kv = ready_seconds = replica_seconds = tokens_ms = token_weight = 0.0
    ttft_ms = inside_sum = inside_late = 0.0
    steady_seconds = 0
    for tick in range(INTERVAL_S):
        second = now * INTERVAL_S + tick
        carry[0] += table.prefill_rps
        allowed = int(carry[0])
        carry[0] -= allowed
        if count[OLD] > 0 and count[STARTING] > 0:
            start_replicas(fleets, i)
        done, free, ready, busy, ready_running, settled, steady, running, tokens = work(
            table, rules, fleets, i, allowed
        )
        arrivals = max(int(expected + spread_of_arrivals * fleets.noise[i][second] + 0.5), 0)
        count[QUEUED], admitted, gave_up = arrive_and_admit(
            fleets.waiting[i], waits, count[QUEUED], second, arrivals, free
        )
        if admitted > 0:
            spread(table, fleets, i, admitted, free, allowed)
            ttft_ms += admitted * table.ttft_ms[min((ready_running + admitted) // ready, table.limit)]
        carry[1] += done * fleets.sick[i][now]
        spoilt = int(carry[1])
        carry[1] -= spoilt
        arrived += arrivals
        served += done - spoilt
        corrupted += spoilt
        timed_out += gave_up
        admitted_in_all += admitted
        inside = running - done + admitted + count[QUEUED]
        inside_sum += inside
        if tick >= INTERVAL_S - _SIX_SECONDS:
            inside_late += inside
        replica_seconds += count[LIVE]
        ready_seconds += ready
        tokens_ms += tokens
        token_weight += running
        if ready > 0:
            cpu += busy / (ready * table.peak_rps)
            kv += ready_running / (ready * table.limit)
        else:
            cpu += 1.0  # nobody serves: saturated, not idle
        if settled > 0:
            cpu_steady += steady / (settled * table.peak_rps)
            steady_seconds += 1
    # Waits are known to the second: quantiles interpolate inside one, as Prometheus' histogram_quantile does.
    base_ms = ttft_ms / admitted_in_all if admitted_in_all > 0 else table.ttft_ms[0]
    result[ARRIVED] = arrived
    result[SERVED] = served
    result[TIMED_OUT] = timed_out
    result[FAILED] = failed
    result[CORRUPTED] = corrupted
    result[P50] = base_ms + 1000.0 * wait_quantile(waits, fleets.waiting[i], now, 0.50)
    result[P95] = base_ms + 1000.0 * wait_quantile(waits, fleets.waiting[i], now, 0.95)
    result[TPOT] = tokens_ms / token_weight if token_weight > 0.0 else table.tpot_ms[0]
    result[REPLICA_SECONDS] = replica_seconds
    result[CPU] = cpu / INTERVAL_S
    result[CPU_STEADY] = cpu_steady / steady_seconds if steady_seconds > 0 else result[CPU]
    result[KV] = min(kv / INTERVAL_S * table.kv_share[table.limit], 1.0)
    result[QUEUE] = count[QUEUED]
    result[ARRIVAL_RATE] = arrived / INTERVAL_S
    result[CONCURRENCY] = inside_sum / INTERVAL_S
    result[CONCURRENCY_6S] = inside_late / _SIX_SECONDS
    capacity = ready_seconds * table.peak_rps
    result[TRAFFIC] = min(arrived / capacity, RATIO_MAX) if capacity > 0.0 else RATIO_MAX
    count_replicas(fleets, i, rules.warm_up_s)
    judge(table, rules, fleets, i)
    fleets.rates[i][now] = result[ARRIVAL_RATE]
    result[RATE_5M], result[TREND] = trend(fleets.rates[i], now)
    for column in range(_MEASURED):
        fleets.history[i][now][column] = result[column]
    count[NOW] = now + 1


def trend(rates: Any, now: int) -> Any:
    """Mean of the arrival rate over the last five minutes (requests/s) and its slope (requests/s a minute).

    The slope is that of the least-squares line, as Prometheus' deriv() gives it; 0 for a single interval.
    """
    count = min(now + 1, TREND_INTERVALS)
    middle = 0.5 * (count - 1)
    total = moment = spread_of_times = 0.0
    for back in range(count):
        at = middle - back
        rate = rates[now - back]
        total += rate
        moment += at * rate
        spread_of_times += at * at
    slope = moment / spread_of_times if count > 1 else 0.0
    return total / count, slope * (60.0 / INTERVAL_S)


def wait_quantile(waits: Any, waiting: Any, now: int, share: float) -> float:
    """Seconds waited by ``share`` of those who got their first token or gave up; the longest wait so far if
    nobody did. Whoever waited k > 0 seconds waited k - 1/2 to k + 1/2; who was admitted at once did not wait.
    """
    total = 0
    for age in range(WAIT_BINS):
        total += waits[age]
    if total == 0:
        last = (now + 1) * INTERVAL_S - 1
        for age in range(TIMEOUT_S, 0, -1):
            if waiting[(last - age) % WAIT_BINS] > 0:
                return float(age)
        return 0.0
    due = share * total
    below = 0.0
    for age in range(WAIT_BINS):
        inside = waits[age]
        if below + inside >= due:
            return 0.0 if age == 0 else age - 0.5 + (due - below) / inside
        below += inside
    return float(WAIT_BINS - 1)


def count_replicas(fleets: Any, i: int, warm_up_s: float) -> None:
    """Replicas by phase at the end of the interval."""
    count, result, phase = fleets.count[i], fleets.result[i], fleets.phase[i]
    ready = pending = draining = warming = running = 0
    for slot in range(count[LIVE]):
        running += fleets.running[i][slot]
        if phase[slot] == READY:
            ready += 1
            if fleets.clock[i][slot] < warm_up_s:
                warming += 1
        elif phase[slot] == PENDING:
            pending += 1
        else:
            draining += 1
    count[READY_COUNT] = ready
    count[STARTING] = pending
    count[DRAINING_COUNT] = draining
    count[WARMING] = warming
    result[RUNNING] = running
    result[READY_AT_END] = ready
    result[PENDING_AT_END] = pending
    result[DRAINING_AT_END] = draining
    result[TARGET_AT_END] = count[TARGET]


def judge(table: Any, rules: Any, fleets: Any, i: int) -> None:
    """Ratios to the objectives, and what the cheapest schedule pays for this interval."""
    count, result = fleets.count[i], fleets.result[i]
    now, needed = count[NOW], fleets.needed[i]
    wrong = result[TIMED_OUT] + result[FAILED] + result[CORRUPTED]
    due = wrong + result[SERVED]
    errors = wrong / due if due > 0.0 else 0.0
    result[ERROR_RATE] = min(errors / ERROR_BUDGET, RATIO_MAX)
    result[LATENCY] = min(max(result[P95] / TTFT_SLO_MS, result[TPOT] / TPOT_SLO_MS), RATIO_MAX)
    result[OUTAGE] = 1.0 if errors >= OUTAGE_SHARE or count[READY_COUNT] == 0 else 0.0
    fine = result[LATENCY] <= 1.0 and result[ERROR_RATE] <= 1.0 and result[CPU_STEADY] <= HEALTHY_CPU
    result[HEALTHY] = 1.0 if fine else 0.0
    demand: float = result[ARRIVED] / (INTERVAL_S * HEALTHY_CPU * table.peak_rps)
    required = min(max(ceil(demand), MIN_REPLICAS), MAX_REPLICAS)
    # The k-th replica is needed again: it was kept on through the gap or started anew, whichever costs less.
    cheapest = float(INTERVAL_S * required)
    for layer in range(1, required + 1):
        gap = now - 1 - needed[layer]
        if gap > 0:
            cheapest += min(float(INTERVAL_S * gap), rules.mean_cold_start_s)
        needed[layer] = max(now, needed[layer])  # all there are count as needed before the first action
    result[REQUIRED] = required
    result[CHEAPEST] = cheapest
