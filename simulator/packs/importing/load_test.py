"""What a load generator reports of one run, and whether its figures can be of one run at all.

Little's law says how many requests were in flight on average: throughput times latency. The load that the
tool says it applied (so many clients, so many prompts, a rate) says how many should have been. Where the two
are far apart something is not what its name says, and a run that lies is of no use, whichever of its figures
does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

__all__ = [
    "CLOSED_LOOP_SHARE",
    "LATENCY_FACTOR",
    "LEAST_TPOT_MS",
    "LEAST_TTFT_MS",
    "LoadTest",
    "Names",
    "contradiction",
    "too_many_failed",
]

MAX_FAILED_SHARE = 0.05
"""Share of failed requests above which a run says little about the engine."""

CLOSED_LOOP_SHARE = 0.8
"""Share of the permitted concurrency that must be in flight on average for a run to count as limited by it.
Below, the arrivals limit it, or ramping up and down fills much of the run."""

INCONSISTENT_IN_FLIGHT = 1.1
"""Throughput times latency above this multiple of the concurrency cannot come from one run."""

UNEXPLAINED_SHARE = 0.5
"""Requests in flight as a share of those permitted, plus throughput as a share of the rate asked for. With n
prompts at a rate r and a latency L the two are L and n/r over their sum, 1 together; in a closed loop the
first alone is nearly 1. Below a half nothing that the tool says it did explains the figures."""

LATENCY_FACTOR = 1.5
"""Between a stated mean latency and TTFT + TPOT x (output - 1) of the means. They differ where long outputs
are slower or faster per token than short ones, in runs of vLLM at hand by up to 2 %."""

MEDIAN_BELOW = 100.0
"""Times a mean may be its median: TTFTs with a queue at the start reach 3 in runs at hand."""

_UNITS = {1e3: "seconds", 1e-3: "microseconds"}
"""What a figure may be in instead of milliseconds."""

_PLAUSIBLE_TTFT_MS, _PLAUSIBLE_TPOT_MS = (5.0, 1e5), (1.0, 1e3)
"""Times that are met in practice: another unit is thought of where a figure lies outside, and would lie
inside."""

LEAST_TPOT_MS, LEAST_TTFT_MS = 0.2, 1.0
"""Times that nothing which is served stays below, ms: the kernels of twenty layers take as long to start, and
a prompt passes HTTP, a tokenizer and a scheduler besides."""


class Names(NamedTuple):
    """What the tool calls the values, for messages."""

    ttft: str = "ttft_ms"
    tpot: str = "tpot_ms"
    latency: str = "latency_s"
    concurrency: str = "concurrency"
    requests: str = "requests"
    most_in_flight: str = "most in flight"
    throughput: str = "throughput"
    output: str = "output_tokens"


_PLAIN = Names()


@dataclass(frozen=True, slots=True)
class LoadTest:
    """Averages that a load generator reports of one run.

    ``median_*`` are None where the tool reports averages alone; ``throughput_rps`` may be missing when
    ``concurrency`` is there. ``unusable`` is the reader's own reason to leave the run out.

    Attributes:
        request_rate_rps: that was asked for; infinite where all prompts are sent as soon as ``concurrency``
            lets them; None where it is not said, which with a concurrency means the same.
        requests: sent in the run, failed ones included.
        most_in_flight: largest number of requests in flight that the tool saw, or an upper bound of it.
        mean_latency_ms: from sending a request to its last token.
        failed_by: the fields that tell ``failed_share``.
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
    failed_by: str = ""
    request_rate_rps: float | None = None
    requests: float | None = None
    most_in_flight: float | None = None
    mean_latency_ms: float | None = None
    unusable: str = ""
    names: Names = _PLAIN

    @property
    def in_flight(self) -> float | None:
        """Mean number of requests in flight by Little's law."""
        return self.in_flight_if(1.0, 1.0)

    @property
    def permitted(self) -> float:
        """Requests that can have been in flight together: clients, prompts, or the most that were seen."""
        limits = (self.concurrency, self.requests, self.most_in_flight)
        return min((limit for limit in limits if limit is not None), default=inf)

    @property
    def all_at_once(self) -> bool:
        """Were all prompts sent together? Said by the load, or seen in how many were in flight."""
        if self.requests is None or self.requests > (self.concurrency or inf):
            return False
        if self.requests == 1.0 or self.request_rate_rps == inf:
            return True
        if self.request_rate_rps is None and self.concurrency is not None:
            return True
        return self.in_flight is not None and self.in_flight >= CLOSED_LOOP_SHARE * self.requests

    def latency_if(self, ttft_factor: float, tpot_factor: float) -> float:
        """Mean latency by TTFT and TPOT, ms, with each in another unit."""
        decode_ms = self.mean_tpot_ms * tpot_factor * (self.output_tokens - 1.0)
        return self.mean_ttft_ms * ttft_factor + decode_ms

    def in_flight_if(self, ttft_factor: float, tpot_factor: float) -> float | None:
        """As :attr:`in_flight`, with TTFT and TPOT in other units."""
        if self.throughput_rps is None:
            return None
        return self.throughput_rps * self.latency_if(ttft_factor, tpot_factor) / 1e3


def contradiction(run: LoadTest) -> str:
    """Why the figures cannot be of one run, in the units that they claim; nothing where they can."""
    return _against_medians(run) or _against_latency(run) or _against_load(run) or _against_practice(run)


def too_many_failed(share: float, failed_by: str) -> str:
    """Why a run of which so many requests failed is of no use, or nothing; ``failed_by`` names the fields."""
    if share <= MAX_FAILED_SHARE:
        return ""
    by = f" ({failed_by})" if failed_by else ""
    return f"{share:.0%} of its requests failed{by}; at most {MAX_FAILED_SHARE:.0%} may"


def _against_medians(run: LoadTest) -> str:
    """Fewer than half of the requests take longer than twice the mean, so that no median is above that."""
    for name, mean, median in (
        (run.names.ttft, run.mean_ttft_ms, run.median_ttft_ms),
        (run.names.tpot, run.mean_tpot_ms, run.median_tpot_ms),
    ):
        if median is not None and not mean / MEDIAN_BELOW <= median <= 2.0 * mean:
            return (
                f"{name} is {mean:.4g}, its median {median:.4g}: one of them is in another unit, or they do "
                "not belong to one run"
            )
    return ""


def _against_latency(run: LoadTest) -> str:
    stated = run.mean_latency_ms
    if stated is None or _near(run.latency_if(1.0, 1.0), stated):
        return ""
    names = run.names
    guess = _other_unit(run, lambda ttft, tpot: _near(run.latency_if(ttft, tpot), stated))
    if _near(run.latency_if(1.0, 1.0), 1e3 * stated):
        guess = f"{names.latency} looks like seconds, where milliseconds belong"
    return (
        f"{names.ttft} + {names.tpot} x (output - 1) is {run.latency_if(1.0, 1.0):.4g} ms, {names.latency} "
        f"says {stated:.4g} ms: {guess or 'its figures do not belong to one run'}"
    )


def _against_load(run: LoadTest) -> str:
    in_flight, permitted = run.in_flight, run.permitted
    if in_flight is None or permitted == inf:
        return ""
    names = run.names
    latency = f"({names.ttft} + {names.tpot} x (output - 1))"
    said = f"{names.throughput} x {latency} is {in_flight:.3g} requests in flight"
    of = f"{permitted:g} ({_limit_name(run)})"
    unit = _other_unit(run, lambda ttft, tpot: _fits(run.in_flight_if(ttft, tpot), permitted))
    if in_flight > INCONSISTENT_IN_FLIGHT * permitted:
        return f"{said}, more than the concurrency of {of}: {unit or 'its figures do not belong to one run'}"
    if _explained(run, in_flight / permitted) or (run.all_at_once and not unit):
        return ""  # prompts sent together whose answers differ much in length: no steady state, and no lie
    why = unit or "its figures do not belong to one run, or few requests were left for most of it"
    return f"{said}, far below the concurrency of {of}, and no rate of arrivals explains it: {why}"


def _against_practice(run: LoadTest) -> str:
    """Times that no server has, which no load need contradict: at a rate, few in flight are no wonder."""
    names = run.names
    for factor, unit in _UNITS.items():
        ttft_odd = _odd(run.mean_ttft_ms, factor, _PLAUSIBLE_TTFT_MS)
        if ttft_odd and _odd(run.mean_tpot_ms, factor, _PLAUSIBLE_TPOT_MS):
            return (
                f"{names.ttft} is {run.mean_ttft_ms:.4g} and {names.tpot} {run.mean_tpot_ms:.4g}: they look "
                f"like {unit}, where milliseconds belong"
            )
    for name, value, least in (
        (names.ttft, run.mean_ttft_ms, LEAST_TTFT_MS),
        (names.tpot, run.mean_tpot_ms, LEAST_TPOT_MS),
    ):
        if value < least:
            return f"{name} is {value:.4g}: it looks like seconds, where milliseconds belong"
    return ""


def _explained(run: LoadTest, share: float) -> bool:
    """Does something hold the run back that leaves so small a share in flight?"""
    rate = run.request_rate_rps
    if rate is None and run.concurrency is None:
        return True  # the file does not say what the load was
    arrived = 0.0 if rate is None or rate == inf else (run.throughput_rps or 0.0) / rate
    return share + arrived >= UNEXPLAINED_SHARE


def _limit_name(run: LoadTest) -> str:
    limits = {
        run.names.concurrency: run.concurrency,
        run.names.requests: run.requests,
        run.names.most_in_flight: run.most_in_flight,
    }
    return next(name for name, limit in limits.items() if limit == run.permitted)


def _other_unit(run: LoadTest, fits: Callable[[float, float], bool]) -> str:
    """Which of the two times would make sense in another unit, or nothing."""
    names = run.names
    for factor, unit in _UNITS.items():
        tpot_odd = _odd(run.mean_tpot_ms, factor, _PLAUSIBLE_TPOT_MS)
        ttft_odd = _odd(run.mean_ttft_ms, factor, _PLAUSIBLE_TTFT_MS)
        for ttft, tpot, odd, who in (
            (factor, factor, tpot_odd, f"{names.ttft} and {names.tpot} look like {unit}"),
            (1.0, factor, tpot_odd, f"{names.tpot} looks like {unit}"),
            (factor, 1.0, ttft_odd, f"{names.ttft} looks like {unit}"),
        ):
            if odd and fits(ttft, tpot):
                return f"{who}, where milliseconds belong"
    return ""


def _odd(value: float, factor: float, plausible: tuple[float, float]) -> bool:
    low, high = plausible
    return not low <= value <= high and low <= value * factor <= high


def _near(latency_ms: float, stated_ms: float) -> bool:
    return stated_ms / LATENCY_FACTOR <= latency_ms <= stated_ms * LATENCY_FACTOR


def _fits(in_flight: float | None, permitted: float) -> bool:
    return in_flight is not None and (
        UNEXPLAINED_SHARE * permitted <= in_flight <= INCONSISTENT_IN_FLIGHT * permitted
    )
