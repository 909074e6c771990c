"""Load tests whose figures cannot be of one run, or not in the units that they claim."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from simulator.packs.importing.load_test import LoadTest, contradiction
from simulator.packs.importing.measurements import Measurement, from_load_test

RUN = LoadTest(
    where="run",
    tier=0,
    prompt_tokens=512.0,
    output_tokens=101.0,
    mean_ttft_ms=20.0,
    mean_tpot_ms=10.0,
    throughput_rps=8 / 1.02,
    concurrency=8.0,
    request_rate_rps=inf,
    requests=80.0,
)
"""Eight clients, each answered in 1.02 s."""

BURST = replace(RUN, concurrency=None, requests=8.0)


def point_of(run: LoadTest) -> Measurement:
    points, _ = from_load_test(run)
    assert len(points) == 1
    return points[0]


def reason_of(run: LoadTest) -> str:
    points, left_out = from_load_test(run)
    assert not points
    (entry,) = left_out
    return entry.reason


def test_a_closed_loop_fits_its_own_concurrency() -> None:
    assert contradiction(RUN) == ""
    assert point_of(RUN).ttft_ms == 20.0


# --- prompts sent at once ----------------------------------------------------------------------------------


@pytest.mark.parametrize("requests", [2.0, 8.0, 12.0])
def test_prompts_sent_at_once_are_the_batch_and_their_ttft_is_a_queue(requests: float) -> None:
    run = replace(BURST, requests=requests, throughput_rps=requests / 1.07)
    points, left_out = from_load_test(run)
    assert points[0].batch == pytest.approx(requests, rel=0.06)
    assert points[0].batch <= requests
    assert (points[0].tpot_ms, points[0].ttft_ms) == (10.0, None)
    assert "sent at once" in left_out[0].reason


def test_one_prompt_is_batch_one_and_waits_for_nobody() -> None:
    alone = replace(BURST, requests=1.0, throughput_rps=1 / 1.06)
    for run in (alone, replace(alone, request_rate_rps=None), replace(alone, request_rate_rps=5.0)):
        assert (point_of(run).batch, point_of(run).ttft_ms) == (1.0, 20.0)


@pytest.mark.parametrize(
    "change",
    [
        {"concurrency": 8.0},
        {"concurrency": 100.0},
        {"concurrency": 100.0, "request_rate_rps": None},
        {"request_rate_rps": None},
        {"request_rate_rps": 1000.0},
    ],
)
def test_all_at_once_is_seen_however_it_is_said(change: dict[str, float | None]) -> None:
    run = replace(BURST, throughput_rps=8 / 1.06, **change)
    assert point_of(run).ttft_ms is None
    assert point_of(run).batch <= 8.0


def test_a_burst_of_very_different_answers_has_no_steady_state() -> None:
    assert "no steady state" in reason_of(replace(BURST, throughput_rps=8 / 2.1))
    assert "no steady state" in reason_of(replace(BURST, requests=800.0, throughput_rps=800 / 50.0))


def test_a_closed_loop_that_is_mostly_its_start_keeps_tpot_only() -> None:
    points, left_out = from_load_test(replace(RUN, requests=15.0))
    assert (points[0].ttft_ms, points[0].tpot_ms) == (None, 10.0)
    assert "8 of its 15 requests were sent at once" in left_out[0].reason
    assert point_of(replace(RUN, requests=16.0)).ttft_ms == 20.0


@pytest.mark.parametrize("limit", ["requests", "most_in_flight"])
def test_the_batch_is_never_above_what_was_in_flight(limit: str) -> None:
    """Open arrivals of which nearly all overlap: Little's law would put one more than all together."""
    few = replace(RUN, concurrency=None, request_rate_rps=None, requests=None, most_in_flight=None)
    run = replace(few, throughput_rps=3.9 / 1.02, **{limit: 4.0})
    points, left_out = from_load_test(run)
    assert all(point.batch <= 4.0 for point in points)
    assert left_out


# --- contradictions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [8.0, 3.0])
def test_a_closed_loop_is_contradicted_downwards(factor: float) -> None:
    run = replace(RUN, throughput_rps=8 / 1.02 / factor)
    for rate in (inf, None, 1e6):
        assert "far below the concurrency of 8" in reason_of(replace(run, request_rate_rps=rate))


def test_a_rate_that_was_asked_for_explains_few_in_flight() -> None:
    """One request a second of 1.02 s each: a permitted concurrency of 8 is no contradiction."""
    run = replace(RUN, throughput_rps=1.0, request_rate_rps=1.0)
    assert point_of(run).batch == pytest.approx(2.0)


def test_a_short_open_run_is_no_contradiction() -> None:
    """20 prompts at 10/s of 20 s each: they come in 2 s, leave in 22 s, and 18 of the 20 are in flight."""
    run = replace(RUN, mean_tpot_ms=200.0, throughput_rps=20 / 22, requests=20.0, request_rate_rps=10.0)
    assert contradiction(replace(run, concurrency=64.0)) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mean_ttft_ms": 0.02, "mean_tpot_ms": 0.01}, "ttft_ms and tpot_ms look like seconds"),
        ({"mean_tpot_ms": 0.01}, "tpot_ms looks like seconds"),
        ({"mean_ttft_ms": 2e4, "mean_tpot_ms": 1e4}, "ttft_ms and tpot_ms look like microseconds"),
        ({"mean_latency_ms": 1020.0, "mean_tpot_ms": 0.01}, "tpot_ms looks like seconds"),
        ({"mean_latency_ms": 1.02}, "latency_s looks like seconds"),
        ({"mean_latency_ms": 5000.0}, "do not belong to one run"),
        ({"median_tpot_ms": 0.01}, "another unit"),
        ({"median_tpot_ms": 25.0}, "tpot_ms is 10, its median 25"),
        ({"median_ttft_ms": 120.0}, "ttft_ms is 20, its median 120"),
    ],
)
def test_units_and_medians_that_do_not_fit_are_named(change: dict[str, float], said: str) -> None:
    assert said in reason_of(replace(RUN, **change))


def test_bursts_in_seconds_are_told_from_uneven_ones() -> None:
    run = replace(BURST, throughput_rps=8 / 1.06, mean_ttft_ms=0.02, mean_tpot_ms=0.01)
    assert "look like seconds" in reason_of(run)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"mean_ttft_ms": 0.02, "mean_tpot_ms": 0.01},
            "ttft_ms is 0.02 and tpot_ms 0.01: they look like seconds",
        ),
        ({"mean_ttft_ms": 3.0, "mean_tpot_ms": 0.25}, "they look like seconds"),
        ({"mean_ttft_ms": 2e5, "mean_tpot_ms": 2e4}, "they look like microseconds"),
        ({"mean_ttft_ms": 0.4}, "ttft_ms is 0.4: it looks like seconds"),
        ({"mean_tpot_ms": 0.012}, "tpot_ms is 0.012: it looks like seconds"),
    ],
)
@pytest.mark.parametrize("load", [{"concurrency": None}, {"requests": None, "concurrency": None}])
def test_a_rate_that_explains_few_in_flight_does_not_explain_seconds(
    change: dict[str, float], load: dict[str, None], said: str
) -> None:
    run = replace(RUN, throughput_rps=1.0, request_rate_rps=1.0, **change, **load)
    assert said in reason_of(replace(run, requests=None))


def test_a_small_model_on_a_fast_gpu_is_believed() -> None:
    run = replace(RUN, mean_ttft_ms=6.0, mean_tpot_ms=0.9, throughput_rps=1.0, request_rate_rps=1.0)
    assert contradiction(run) == ""


def test_plausible_figures_are_not_taken_for_another_unit() -> None:
    """Twenty times too many in flight: a TPOT of 10 ms is not one of 10 microseconds."""
    assert "do not belong to one run" in reason_of(replace(RUN, throughput_rps=160.0))


def test_failures_are_told_with_the_field_even_when_the_rest_is_used() -> None:
    run = replace(RUN, failed_share=0.02, failed_by="failed 2")
    assert point_of(run).ttft_ms == 20.0
    assert "2.0% of its requests failed (failed 2)" in from_load_test(run)[1][0].reason
    assert "30% of its requests failed (failed 30)" in reason_of(
        replace(run, failed_share=0.3, failed_by="failed 30")
    )


def test_the_reader_s_own_reason_comes_last() -> None:
    assert reason_of(replace(RUN, unusable="for a reason")) == "for a reason"
    assert "far below" in reason_of(replace(RUN, unusable="for a reason", throughput_rps=1.0))
