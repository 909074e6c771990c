"""Trains a visitor's pricing policy in a process of its own: one at a time, in order of coming, and no longer
than somebody waits for it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from inferencegym.errors import InferenceGymError, InvalidValueError
from server.dashboard.market_lab.retrain_order import Order, Standing, Trained
from server.guard.clients import LOCAL, is_loopback

__all__ = [
    "BEAT_S",
    "COMPILED",
    "GENERATIONS_MAX",
    "LIMITS",
    "POPULATION_MAX",
    "POPULATION_MIN",
    "Limits",
    "Progress",
    "Queue",
    "check_size",
    "retrain",
]

COMPILED = find_spec("numba") is not None
"""Whether training runs on machine code: numba comes with the extra ``gym``."""

TRAININGS_AT_ONCE = 1
"""On the whole server, whatever mount a visitor looks at: small machines have two cores."""
QUEUE_MAX = 12
EACH_MAX = 2
"""Places in the line that one address may take."""
TIME_LIMIT_S = 300.0
BEAT_S = 0.4
"""How often progress is told. A closed tab is noticed at the next time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of a search that a visitor may ask for, and those proposed.

    Args:
        generations, population: proposed.
        seeds: training episodes of every candidate.
        hours: candidates × seeds × hours at most.
    """

    generations: int
    population: int
    seeds: int
    hours: int


LIMITS = Limits(40, 24, 24, 20_000_000) if COMPILED else Limits(10, 12, 12, 1_000_000)
"""Measured on one core: 700,000 hours a second compiled and 32,000 plain. The proposed sizes take some 7 and
9 s of CPU time for the search and its report at 200 hours (compiling, once a version, some 15 s more)."""
GENERATIONS_MAX, POPULATION_MIN, POPULATION_MAX = 50, 4, 30


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a training has come. ``ahead``: visitors whose training comes first."""

    ahead: int
    generation: int
    generations: int
    best: float | None


@dataclass(frozen=True, eq=False)
class Ticket:
    """A place in the line."""

    visitor: str


class Queue:
    """Whose turn it is."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._tickets: list[Ticket] = []

    def join(self, visitor: str = LOCAL) -> Ticket:
        """A ticket at the end of the line.

        Raises InferenceGymError when the line is full, or full of this visitor; programs on this machine
        may fill it.
        """
        if not is_loopback(visitor) and sum(each.visitor == visitor for each in self._tickets) >= EACH_MAX:
            raise InferenceGymError(
                f"From your address {EACH_MAX} trainings run or wait already.", "Wait for one, or cancel it."
            )
        if len(self._tickets) >= QUEUE_MAX:
            raise InferenceGymError(
                f"{QUEUE_MAX} visitors are training or waiting for it.", "Try again later."
            )
        ticket = Ticket(visitor)
        self._tickets.append(ticket)
        return ticket

    def ahead(self, ticket: Ticket) -> int:
        """How many must leave before it is this ticket's turn; 0 when it is."""
        return max(0, self._tickets.index(ticket) + 1 - self._at_once)

    def leave(self, ticket: Ticket) -> None:
        """Out of the line, at any place."""
        self._tickets.remove(ticket)


QUEUE = Queue(TRAININGS_AT_ONCE)


def check_size(generations: int, population: int, hours: int, limits: Limits = LIMITS) -> None:
    """Raises InvalidValueError for a search that would take too long, with what would do."""
    each = limits.seeds * hours
    most = (limits.hours // each - population) // max(1, population - 2)
    if generations > most:
        what = f"{generations} of {population} candidates, {hours} h long"
        allowed = (
            f"at most {most} generations of this population and length" if most > 0 else "a shorter length"
        )
        raise InvalidValueError("Generations", what, allowed)


async def retrain(
    order: Order, queue: Queue = QUEUE, visitor: str = LOCAL
) -> AsyncGenerator[Progress | Trained]:
    """Wait for one's turn and train; tells the progress at every beat, and at last the result.

    Closing the generator at any time ends the process and gives the turn to the next.

    Raises InferenceGymError when the training failed or took too long.
    """
    ticket = queue.join(visitor)
    try:
        while ahead := queue.ahead(ticket):
            yield Progress(ahead, 0, order.generations, None)
            await asyncio.sleep(BEAT_S)
        async with aclosing(_train(order)) as steps:
            async for step in steps:
                yield step
    finally:
        queue.leave(ticket)


async def _train(order: Order) -> AsyncGenerator[Progress | Trained]:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", f"{__package__}.retrain_worker")
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(asdict(order)).encode())
        process.stdin.close()
        async with aclosing(_heard(process, order)) as steps:
            async for step in steps:
                yield step
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        # To the end of its pipes, so that nothing of it is left open.
        await process.communicate()


async def _heard(process: asyncio.subprocess.Process, order: Order) -> AsyncGenerator[Progress | Trained]:
    assert process.stdout is not None
    progress = Progress(0, 0, order.generations, None)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + TIME_LIMIT_S
    reading = asyncio.ensure_future(process.stdout.readline())
    try:
        while loop.time() < deadline:
            yield progress
            await asyncio.wait([reading], timeout=BEAT_S)
            if not reading.done():
                continue
            line: dict[str, Any] | None = json.loads(reading.result() or b"null")
            if line is None:
                raise await _failure(process)
            if "parameters" in line:
                yield _trained(line)
                return
            progress = Progress(0, line["generation"], order.generations, line["best"])
            reading = asyncio.ensure_future(process.stdout.readline())
    finally:
        reading.cancel()
        await asyncio.wait([reading])
    raise InferenceGymError(
        f"The training was stopped after {TIME_LIMIT_S / 60:g} minutes.",
        "Choose fewer generations, a smaller population or a shorter length.",
    )


async def _failure(process: asyncio.subprocess.Process) -> InferenceGymError:
    assert process.stderr is not None
    said = (await process.stderr.read()).decode(errors="replace").strip().splitlines()
    return InferenceGymError(
        f"The training failed: {said[-1] if said else 'its process ended'}.", "Try again."
    )


def _trained(line: dict[str, Any]) -> Trained:
    standings = [
        Standing(one["policy"], tuple(one["reward"]), tuple(one["behind"]), one["death_rate"])
        for one in line["standings"]
    ]
    return Trained(tuple(line["parameters"]), line["fitness"], line["held_out_seeds"], standings)
