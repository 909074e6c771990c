"""Measured figures of a real deployment, and what a load test's averages say about the running batch.

A benchmark tool reports what a *client* saw: TTFT, TPOT and throughput at some concurrency or request rate.
A trace pack is indexed by what the *engine* did: how many sequences decoded together. Little's law leads from
one to the other; :func:`from_load_test` applies it and drops what it cannot use, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, inf

__all__ = ["Collected", "LeftOut", "LoadTest", "Measurement", "Measurements", "from_load_test"]

CLOSED_LOOP_SHARE = 0.8
"""Share of the permitted concurrency that must be in flight on average for a run to count as limited by it.
Below, the arrivals limit it, or ramping up and down fills much of the run."""

MAX_PREFILL_AHEAD = 0.25
"""Requests, on average, that an arrival finds waiting for their first token, up to which the median TTFT is
taken for one without a queue: at least three of four arrivals then find nobody ahead."""

INCONSISTENT_IN_FLIGHT = 1.1
"""Throughput times latency above this multiple of the concurrency cannot come from one run."""

CONTRADICTED_SHARE = 0.7
"""Throughput times latency below this share of what a closed loop of so many requests keeps in flight, its
last wave included, cannot come from one run."""

MAX_FAILED_SHARE = 0.05
"""Share of failed requests above which a run says little about the engine."""


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


@dataclass(frozen=True, slots=True)
class LoadTest:
    """Averages that a load generator reports of one run.

    ``median_*`` are None where the tool reports averages alone; ``throughput_rps`` may be missing when
    ``concurrency`` is there. ``unusable`` is the reader's own reason to leave the run out.
    """

    where: str
    tier: int
    prompt_tokens: float
    output_tokens: float
    mean_ttft_ms: float
    mean_tpot_ms: float
    median_ttft_ms: float | None = None
    median_tpot_ms: float | None = None
    throughput_rps: float | None = None
    concurrency: float | None = None
    failed_share: float = 0.0
    requests: float | None = None
    """Requests sent in all; never more of them were in flight."""
    most_at_once: float | None = None
    """Requests that the tool saw in flight at the same time at the most."""
    rate_unlimited: bool = False
    """No arrivals limited the run: requests were sent as soon as the concurrency allowed, or all at once."""

    @property
    def bound(self) -> float:
        """Requests that can have been in flight together at the most."""
        return min(each for each in (self.requests, self.most_at_once, self.concurrency, inf) if each)

    @property
    def all_at_once(self) -> bool:
        """Every prompt was sent in the first instant."""
        return self.rate_unlimited and self.concurrency is None


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
    other ``c - 1`` decodes for the share of its time that is not TTFT; with arrivals at a rate, the others
    number throughput times decoding time (Little's law). The same count tells how many prefills of others
    fall into one sequence's decoding, which is what TPOT has to be freed from.
    """
    if run.failed_share > MAX_FAILED_SHARE:
        reason = f"{run.failed_share:.0%} of its requests failed; at most {MAX_FAILED_SHARE:.0%} may"
        return (), (LeftOut(run.where, reason),)
    if run.output_tokens < 2.0:
        reason = (
            f"outputs of {run.output_tokens:.1f} tokens have no time per output token; 2 or more are needed"
        )
        return (), (LeftOut(run.where, reason),)
    decode_ms = run.mean_tpot_ms * (run.output_tokens - 1.0)
    in_flight = (
        None if run.throughput_rps is None else run.throughput_rps * (run.mean_ttft_ms + decode_ms) / 1e3
    )
    clients = run.bound if run.all_at_once and run.bound < inf else run.concurrency
    reason = _contradiction(run, in_flight)
    if reason:
        return (), (LeftOut(run.where, reason),)
    if clients is not None and in_flight is not None and in_flight > INCONSISTENT_IN_FLIGHT * clients:
        reason = (
            f"throughput times latency is {in_flight:.1f} requests in flight, more than the concurrency of "
            f"{clients:g}: its figures do not belong to one run"
        )
        return (), (LeftOut(run.where, reason),)
    closed = clients is not None and (in_flight is None or in_flight >= CLOSED_LOOP_SHARE * clients)
    if closed and clients is not None:
        # Medians: what ramping up and down does to a run touches few of its requests.
        tpot_ms, ttft_ms = run.median_tpot_ms or run.mean_tpot_ms, run.median_ttft_ms or run.mean_ttft_ms
        decode_ms = tpot_ms * (run.output_tokens - 1.0)
        decoding = (clients - 1.0) * decode_ms / (decode_ms + ttft_ms)
        waiting = clients - 1.0 - decoding
    else:
        assert run.throughput_rps is not None, "a reader gives throughput or concurrency"
        # Means: Little's law is about means, so the batch it gives belongs to the mean TPOT.
        tpot_ms, ttft_ms = run.mean_tpot_ms, run.median_ttft_ms or run.mean_ttft_ms
        decoding = run.throughput_rps * decode_ms / 1e3
        waiting = run.throughput_rps * run.mean_ttft_ms / 1e3
    burst = run.all_at_once and run.bound > 1.0
    queued = burst or waiting > MAX_PREFILL_AHEAD
    point = Measurement(
        where=run.where,
        tier=run.tier,
        batch=min(1.0 + decoding, run.bound),
        prompt_tokens=run.prompt_tokens,
        output_tokens=run.output_tokens,
        colocated=True,
        tpot_ms=tpot_ms,
        ttft_ms=None if queued else ttft_ms,
    )
    why = (
        "all prompts were sent at once (request_rate inf without max_concurrency), so that TTFT is mostly a "
        "queue"
        if burst
        else f"an arrival finds {waiting:.1f} requests waiting for their first token, so that TTFT is mostly "
        f"a queue (up to {MAX_PREFILL_AHEAD:g} are allowed)"
    )
    reason = f"TTFT is not used, TPOT is: {why}"
    return (point,), ((LeftOut(run.where, reason),) if queued else ())


def _contradiction(run: LoadTest, in_flight: float | None) -> str:
    """Why a closed loop that nothing but its concurrency limits did not keep it busy, or nothing."""
    clients = run.bound
    if not run.rate_unlimited or run.concurrency is None or in_flight is None or clients == inf:
        return ""
    waves = ceil(run.requests / clients) if run.requests else 1
    expected = run.requests / waves if run.requests else clients
    if in_flight >= CONTRADICTED_SHARE * expected:
        return ""
    seconds = CONTRADICTED_SHARE * expected <= 1e3 * in_flight <= INCONSISTENT_IN_FLIGHT * clients
    why = "its times look like seconds under names in ms" if seconds else "its figures are not of one run"
    return (
        f"throughput times latency is {in_flight:.3g} requests in flight, where a concurrency of {clients:g} "
        f"without a limit on the rate keeps {expected:.3g}: {why}"
    )
