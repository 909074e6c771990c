"""Little's law between what a load generator saw and what the engine ran."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.packs.importing.measurements import LoadTest, Measurement, from_load_test

RUN = LoadTest(
    where="run",
    tier=0,
    prompt_tokens=256.0,
    output_tokens=101.0,
    mean_ttft_ms=100.0,
    mean_tpot_ms=20.0,
    median_ttft_ms=90.0,
    median_tpot_ms=21.0,
)


def point_of(run: LoadTest) -> Measurement:
    points, _ = from_load_test(run)
    assert len(points) == 1
    return points[0]


def reasons_of(run: LoadTest) -> str:
    points, left_out = from_load_test(run)
    assert not points
    return " ".join(entry.reason for entry in left_out)


def test_one_client_decodes_alone() -> None:
    point = point_of(replace(RUN, concurrency=1.0))
    assert point.batch == 1.0
    assert (point.tpot_ms, point.ttft_ms, point.colocated) == (21.0, 90.0, True)


def test_in_a_closed_loop_the_others_decode_for_their_share_of_the_time() -> None:
    decode_ms = 21.0 * 100
    point = point_of(replace(RUN, concurrency=11.0))
    assert point.batch == pytest.approx(1.0 + 10.0 * decode_ms / (decode_ms + 90.0))


def test_open_arrivals_follow_littles_law_with_means() -> None:
    point = point_of(replace(RUN, throughput_rps=2.0))
    assert point.batch == pytest.approx(1.0 + 2.0 * 2.0)  # two a second, two seconds of decoding each
    assert point.tpot_ms == 20.0


def test_a_concurrency_that_was_never_reached_does_not_count() -> None:
    """Two requests a second of 2.1 s each are 4.2 in flight, not 64, where two a second were asked for."""
    point = point_of(replace(RUN, throughput_rps=2.0, concurrency=64.0, request_rate_rps=2.0))
    assert point.batch == pytest.approx(5.0)
    reached = point_of(replace(RUN, throughput_rps=2.0, concurrency=5.0))
    assert reached.batch < 5.0


def test_ttft_with_a_queue_is_left_out_and_says_so() -> None:
    run = replace(RUN, throughput_rps=10.0)
    (point,), (left_out,) = from_load_test(run)
    assert point.ttft_ms is None
    assert point.tpot_ms == 20.0
    assert "1.0 requests waiting" in left_out.reason


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (replace(RUN, throughput_rps=2.0, failed_share=0.2), "20% of its requests failed"),
        (replace(RUN, throughput_rps=2.0, output_tokens=1.0), "no time per output token"),
        (replace(RUN, throughput_rps=20.0, concurrency=4.0), "do not belong to one run"),
    ],
)
def test_runs_that_say_nothing_are_left_out(run: LoadTest, reason: str) -> None:
    assert reason in reasons_of(run)
