"""The control plane of a fleet: what becomes of a request for more or fewer replicas, and of those that die.

Plain functions over rows of :class:`~simulator.autoscaling.rows.Fleets`, as in
:mod:`simulator.autoscaling.kernel`, which calls them at the start of each interval.
"""

from __future__ import annotations

from typing import Any

from inferencegym.models.autoscaling import MAX_REPLICAS, MIN_REPLICAS
from simulator.autoscaling.plan import COLD_DRAWS, WARM_UP_INTERVALS
from simulator.autoscaling.rows import COUNT, WAIT_BINS

__all__ = [
    "DRAINING",
    "PENDING",
    "READY",
    "REVERSAL_INTERVALS",
    "begin_update",
    "clear_fleet",
    "note_change",
    "reconcile",
    "remove",
    "replace_old",
    "strike",
    "take_request",
]

PENDING, READY, DRAINING = 1, 2, 3
"""Phases of a replica."""

REVERSAL_INTERVALS = 20
"""A change against the last one within 5 minutes is a flip: HPA's scale-down stabilisation window."""

LIVE, NOW, TARGET = COUNT["live"], COUNT["now"], COUNT["target"]
LAUNCHED, STARTING, OLD = COUNT["launched"], COUNT["pending"], COUNT["old"]
PAUSED, DIRECTION, CHANGED = COUNT["paused"], COUNT["direction"], COUNT["changed"]


def clear_fleet(fleets: Any, i: int, initial: int) -> None:
    """Start of an episode: ``initial`` replicas ready and warm, not a request anywhere."""
    count = fleets.count[i]
    for index in range(len(count)):
        count[index] = 0
    count[LIVE] = count[TARGET] = initial
    count[CHANGED] = -REVERSAL_INTERVALS - 1
    for slot in range(initial):
        fleets.phase[i][slot] = READY
        fleets.old[i][slot] = 0
        fleets.running[i][slot] = 0
        fleets.clock[i][slot] = 1e6
        fleets.progress[i][slot] = 0.0
    for index in range(WAIT_BINS):
        fleets.waiting[i][index] = 0
    fleets.carry[i][0] = fleets.carry[i][1] = 0.0
    for layer in range(MAX_REPLICAS + 1):
        fleets.needed[i][layer] = WARM_UP_INTERVALS - 1 if layer <= initial else -1_000_000


def take_request(fleets: Any, i: int, move: int, total: int) -> int:
    """Set the target. ``total`` 0 means: none was given, follow ``move``. Returns the change."""
    count = fleets.count[i]
    before = count[TARGET]
    if fleets.pause[i][count[NOW]] == 1:
        count[PAUSED] = 1
    if total > 0:
        count[PAUSED] = 0  # setting a total by hand is what ends a pause
        count[TARGET] = total
    elif count[PAUSED] == 0:
        count[TARGET] = min(max(before + move, MIN_REPLICAS), MAX_REPLICAS)
    return count[TARGET] - before


def note_change(count: Any, change: int) -> int:
    """1 when the change turns against the last one soon after it, a flip."""
    if change == 0:
        return 0
    direction = 1 if change > 0 else -1
    recent = count[NOW] - count[CHANGED] <= REVERSAL_INTERVALS
    flip = 1 if recent and direction == -count[DIRECTION] else 0
    count[DIRECTION] = direction
    count[CHANGED] = count[NOW]
    return flip


def remove(fleets: Any, i: int, slot: int) -> None:
    """Take a replica out; the last one moves to its place."""
    count = fleets.count[i]
    last = count[LIVE] - 1
    if fleets.phase[i][slot] == PENDING:
        count[STARTING] -= 1
    if fleets.old[i][slot] == 1:
        count[OLD] -= 1
    fleets.phase[i][slot] = fleets.phase[i][last]
    fleets.old[i][slot] = fleets.old[i][last]
    fleets.running[i][slot] = fleets.running[i][last]
    fleets.clock[i][slot] = fleets.clock[i][last]
    fleets.progress[i][slot] = fleets.progress[i][last]
    count[LIVE] = last


def retire(fleets: Any, i: int, slot: int) -> None:
    """A pending replica goes at once; a ready one drains first."""
    if fleets.phase[i][slot] == PENDING:
        remove(fleets, i, slot)
    else:
        if fleets.old[i][slot] == 1:
            fleets.old[i][slot] = 0
            fleets.count[i][OLD] -= 1
        fleets.phase[i][slot] = DRAINING


def launch(fleets: Any, i: int) -> None:
    count = fleets.count[i]
    slot = count[LIVE]
    fleets.phase[i][slot] = PENDING
    fleets.old[i][slot] = 0
    fleets.running[i][slot] = 0
    fleets.clock[i][slot] = fleets.cold[i][count[LAUNCHED] % COLD_DRAWS]
    fleets.progress[i][slot] = 0.0
    count[LAUNCHED] += 1
    count[STARTING] += 1
    count[LIVE] = slot + 1


def strike(fleets: Any, i: int) -> int:
    """Kill the replicas that the plan says; returns the requests that die with them."""
    count = fleets.count[i]
    now, phase = count[NOW], fleets.phase[i]
    ready = 0
    for slot in range(count[LIVE]):
        if phase[slot] == READY:
            ready += 1
    deaths = fleets.crashes[i][now] + int(fleets.zone[i][now] * ready + 0.5)
    failed, slot = 0, 0
    while deaths > 0 and slot < count[LIVE]:
        if phase[slot] == READY:
            failed += fleets.running[i][slot]
            remove(fleets, i, slot)
            deaths -= 1
        else:
            slot += 1
    return failed


def surplus_slot(fleets: Any, i: int) -> int:
    """Whom to take away: the pending replica that is furthest from ready, else the one least busy."""
    phase, clock, running = fleets.phase[i], fleets.clock[i], fleets.running[i]
    chosen, best = -1, -1.0
    for slot in range(fleets.count[i][LIVE]):
        if fleets.old[i][slot] == 1 or phase[slot] == DRAINING:
            continue
        # Any pending replica (above 1e6) goes before any ready one.
        rank = 2e6 + clock[slot] if phase[slot] == PENDING else 1e6 - running[slot]
        if rank > best:
            chosen, best = slot, rank
    return chosen


def begin_update(fleets: Any, i: int) -> None:
    """A new version is rolled out: every replica is to be replaced."""
    count = fleets.count[i]
    for slot in range(count[LIVE]):
        if fleets.phase[i][slot] != DRAINING and fleets.old[i][slot] == 0:
            fleets.old[i][slot] = 1
            count[OLD] += 1


def reconcile(fleets: Any, i: int) -> None:
    """Start or retire replicas until as many as the target are there, old ones of an update not counted."""
    count, phase, old = fleets.count[i], fleets.phase[i], fleets.old[i]
    if fleets.update[i][count[NOW]] == 1:
        begin_update(fleets, i)
    present, starting = 0, 0
    for slot in range(count[LIVE]):
        if phase[slot] != DRAINING and old[slot] == 0:
            present += 1
            if phase[slot] == PENDING:
                starting += 1
    for _ in range(present, count[TARGET]):
        launch(fleets, i)
        starting += 1
    for _ in range(count[TARGET], present):
        retire(fleets, i, surplus_slot(fleets, i))
    if starting == 0:
        while count[OLD] > 0:
            replace_old(fleets, i)


def replace_old(fleets: Any, i: int) -> None:
    """A replica of the new version is ready: one of the old version goes."""
    for slot in range(fleets.count[i][LIVE]):
        if fleets.old[i][slot] == 1:
            retire(fleets, i, slot)
            return
