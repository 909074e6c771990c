"""Measured figures of a real deployment, and what a load test's averages say about the running batch.

A benchmark tool reports what a *client* saw: TTFT, TPOT and throughput at some concurrency or request rate.
A trace pack is indexed by what the *engine* did: how many sequences decoded together. Little's law leads from
one to the other; :func:`from_load_test` applies it and drops what it cannot use, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from simulator.packs.importing.load_test import CLOSED_LOOP_SHARE, LoadTest, contradiction, too_many_failed

__all__ = ["Collected", "LeftOut", "LoadTest", "Measurement", "Measurements", "from_load_test"]

MAX_PREFILL_AHEAD = 0.25
"""Requests, on average, that an arrival finds waiting for their first token, up to which the median TTFT is
taken for one without a queue: at least three of four arrivals then find nobody ahead."""

STARTING_SHARE = 0.5
"""Clients as a share of all requests above which most TTFTs are of the start, when all clients ask at once,
and so is the median."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One operating point. At least one of the three measured values is there.

    Attributes:
        where: file and line or key, for messages.
        tier: index of the quantisation tier.
        batch: sequences that decode together as one of them sees it, itself included.
        prompt_tokens: mean prompt length.
        output_tokens: mean output length.
        colocated: TPOT contains the prefills of other requests on the same GPU.
        tpot_ms: time per output token after the first.
        ttft_ms: time to first token of a request that waits for nobody.
        latency_s: of a whole offline batch: all prompts prefilled, then all outputs decoded.
        fields: what the file calls ``tpot_ms`` and ``ttft_ms``, for messages.
        prefills_seen: share of the others whose prefill falls into the decoding of one sequence: all in a
            steady state; of prompts that are sent together those behind it in the queue, half on average.
    """

    where: str
    tier: int
    batch: float
    prompt_tokens: float
    output_tokens: float
    colocated: bool
    tpot_ms: float | None = None
    ttft_ms: float | None = None
    latency_s: float | None = None
    prefills_seen: float = 1.0
    fields: tuple[str, str] = ("tpot_ms", "ttft_ms")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A result, or a part of one, that is valid and yet of no use here."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class Measurements:
    """Everything that the readers got out of the files."""

    points: tuple[Measurement, ...]
    left_out: tuple[LeftOut, ...] = ()
    model: str | None = None
    engine: str | None = None
    files: tuple[str, ...] = ()


@dataclass(slots=True)
class Collected:
    """What a reader has gathered so far of one file."""

    points: list[Measurement] = field(default_factory=list[Measurement])
    left_out: list[LeftOut] = field(default_factory=list[LeftOut])
    models: dict[str, str] = field(default_factory=dict[str, str])
    """Model name to the place that named it first."""
    engines: set[str] = field(default_factory=set[str])

    def leave_out(self, where: str, reason: str) -> None:
        """Note what is not used, and why."""
        self.left_out.append(LeftOut(where, reason))

    def add_load_test(self, run: LoadTest) -> None:
        """Turn a run into an operating point, or note why not."""
        points, left_out = from_load_test(run)
        self.points += points
        self.left_out += left_out


def from_load_test(run: LoadTest) -> tuple[Sequence[Measurement], Sequence[LeftOut]]:
    """The operating point behind a load test's averages.

    A decoding sequence sees itself and the others that decode. In a closed loop of ``c`` clients each of the
    other ``c - 1`` decodes for the share of its time that is not TTFT, and so it is with ``c`` prompts that
    are sent together; with arrivals at a rate, the others number throughput times decoding time (Little's
    law). The same count tells how many prefills of others fall into one sequence's decoding, which is what
    TPOT has to be freed from.
    """
    reason = _useless(run) or contradiction(run) or run.unusable
    seen = None if reason else _seen_by_one(run)
    if seen is not None and seen.batch > run.permitted:
        reason = (
            f"{run.names.throughput} x {run.names.tpot} x (output - 1) is a batch of {seen.batch:.1f}, and "
            f"only {run.permitted:g} requests can have been in flight together: nearly all of them were, and "
            "there is no steady state"
        )
    if reason or seen is None:
        return (), (LeftOut(run.where, reason),)
    queue = _queue(run, seen)
    point = Measurement(
        where=run.where,
        tier=run.tier,
        batch=seen.batch,
        prompt_tokens=run.prompt_tokens,
        output_tokens=run.output_tokens,
        colocated=True,
        tpot_ms=seen.tpot_ms,
        ttft_ms=None if queue else run.median_ttft_ms or run.mean_ttft_ms,
        prefills_seen=0.5 if run.all_at_once else 1.0,
        fields=_fields(run, seen),
    )
    return (point,), [LeftOut(run.where, told) for told in (queue, _failures(run)) if told]


class _Seen(NamedTuple):
    """What a decoding sequence sees: itself and the others that decode, and its TPOT.

    ``waiting`` others have not got their first token.
    """

    batch: float
    waiting: float
    tpot_ms: float


def _fields(run: LoadTest, seen: _Seen) -> tuple[str, str]:
    """What the file calls the TPOT and the TTFT that are used: means, or their medians."""
    tpot, ttft = run.names.tpot, run.names.ttft
    return (
        tpot if seen.tpot_ms == run.mean_tpot_ms else tpot.replace("mean", "median"),
        ttft if run.median_ttft_ms is None else ttft.replace("mean", "median"),
    )


def _useless(run: LoadTest) -> str:
    """Why even consistent figures say nothing."""
    if failed := too_many_failed(run.failed_share, run.failed_by):
        return failed
    if run.output_tokens < 2.0:
        return (
            f"outputs of {run.output_tokens:.1f} tokens ({run.names.output}) have no time per output token; "
            "2 or more are needed"
        )
    share = 1.0 if run.in_flight is None or run.requests is None else run.in_flight / run.requests
    if run.all_at_once and not contradiction(run) and share < CLOSED_LOOP_SHARE:
        return (
            f"all {run.requests:g} prompts ({run.names.requests}) were sent at once and {share:.0%} of them "
            "were in flight on average: its batch shrinks all the time, and there is no steady state to read "
            f"(from {CLOSED_LOOP_SHARE:.0%} on there is); limit the concurrency"
        )
    return ""


def _seen_by_one(run: LoadTest) -> _Seen:
    if clients := _clients(run):
        # Medians: what ramping up and down does to a run touches few of its requests.
        tpot_ms, ttft_ms = run.median_tpot_ms or run.mean_tpot_ms, run.median_ttft_ms or run.mean_ttft_ms
        decode_ms = tpot_ms * (run.output_tokens - 1.0)
        decoding = (clients - 1.0) * decode_ms / (decode_ms + ttft_ms)
        return _Seen(1.0 + decoding, clients - 1.0 - decoding, tpot_ms)
    assert run.throughput_rps is not None, "a reader gives throughput or concurrency"
    # Means: Little's law is about means, so the batch it gives belongs to the mean TPOT.
    decoding = run.throughput_rps * run.mean_tpot_ms * (run.output_tokens - 1.0) / 1e3
    return _Seen(1.0 + decoding, run.throughput_rps * run.mean_ttft_ms / 1e3, run.mean_tpot_ms)


def _clients(run: LoadTest) -> float | None:
    """Sequences that were always in flight, or None where arrivals decided that."""
    if run.permitted == 1.0:
        return 1.0
    if run.all_at_once:
        return run.requests
    if run.concurrency is None or run.in_flight is None:
        return run.concurrency
    return run.concurrency if run.in_flight >= CLOSED_LOOP_SHARE * run.concurrency else None


def _queue(run: LoadTest, seen: _Seen) -> str:
    """Why TTFT is not the time of one prefill, or nothing."""
    ttft, clients = run.names.ttft, _clients(run)
    if clients == 1.0:
        return ""
    if run.all_at_once:
        return (
            f"TTFT is not used ({ttft}), TPOT is: all {run.requests:g} prompts were sent at once, so that "
            "TTFT is a queue of prefills and not one of them"
        )
    if clients is not None and run.requests is not None and clients > STARTING_SHARE * run.requests:
        return (
            f"TTFT is not used ({ttft}), TPOT is: {clients:g} of its {run.requests:g} requests were sent at "
            "once when it began, so that most TTFTs are that queue; send twice as many as clients, or more"
        )
    if seen.waiting > MAX_PREFILL_AHEAD:
        return (
            f"TTFT is not used ({ttft}), TPOT is: an arrival finds {seen.waiting:.1f} requests waiting for "
            f"their first token, so that TTFT is mostly a queue (up to {MAX_PREFILL_AHEAD:g} are allowed)"
        )
    return ""


def _failures(run: LoadTest) -> str:
    """A word about those that failed where the rest is used."""
    if run.failed_share == 0.0:
        return ""
    by = f" ({run.failed_by})" if run.failed_by else ""
    return f"{run.failed_share:.1%} of its requests failed{by} and are not in its figures, the rest is used"
