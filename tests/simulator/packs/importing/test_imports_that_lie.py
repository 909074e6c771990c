"""Files whose numbers are wrong in a way that none of them shows alone: each gives its value or a reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferencegym.errors import InvalidValueError
from simulator.packs.benchmarks.readers import read_measurements
from simulator.packs.importing.measurements import Measurement
from simulator.packs.importing.report import ImportRequest, import_pack

MODEL = "meta-llama/Meta-Llama-3.1-8B"
PROMPT, OUTPUT, PREFILL_MS, TPOT_MS = 1000, 200, 40.0, 10.0
Save = Callable[..., Path]


def run(clients: int | None, prompts: int, **changes: Any) -> dict[str, Any]:
    """A run of vllm bench serve whose figures belong together; ``clients`` None sends all prompts at once."""
    together = clients or prompts
    ttft_ms = PREFILL_MS if clients else PREFILL_MS * (prompts + 1) / 2
    waves = -(-prompts // together)
    duration = waves * (ttft_ms + TPOT_MS * (OUTPUT - 1)) / 1e3
    result = {
        "backend": "vllm",
        "model_id": MODEL,
        "num_prompts": prompts,
        "request_rate": "inf",
        "max_concurrency": clients,
        "duration": duration,
        "completed": prompts,
        "total_input_tokens": PROMPT * prompts,
        "total_output_tokens": OUTPUT * prompts,
        "request_throughput": prompts / duration,
        "mean_ttft_ms": ttft_ms,
        "mean_tpot_ms": TPOT_MS,
    }
    return {name: value for name, value in {**result, **changes}.items() if value != "absent"}


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def write(*results: dict[str, Any]) -> Path:
        path = tmp_path / "bench.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in results))
        return path

    return write


def reason(path: Path) -> str:
    measurements = read_measurements([path])
    assert not measurements.points
    (entry,) = measurements.left_out
    return entry.reason


def point(path: Path) -> Measurement:
    (only,) = read_measurements([path]).points
    return only


@pytest.mark.parametrize("rate", ["inf", float("inf")])
def test_all_prompts_at_once_give_a_step_time_and_no_ttft(save: Save, rate: Any):
    path = save(run(None, 8, request_rate=rate, max_concurrent_requests=8))
    measured = point(path)
    assert 7.0 < measured.batch <= 8.0
    assert (measured.tpot_ms, measured.ttft_ms) == (TPOT_MS, None)
    (told,) = read_measurements([path]).left_out
    assert "all 8 prompts were sent at once" in told.reason


@pytest.mark.parametrize(
    ("clients", "prompts", "told"),
    [
        (8, 8, "all 8 prompts were sent at once"),
        (64, 8, "all 8 prompts were sent at once"),
        (12, 20, "12 of its 20 requests were sent at once"),
    ],
)
def test_a_limit_that_was_hardly_met_is_no_limit(save: Save, clients: int, prompts: int, told: str):
    path = save(run(clients, prompts))
    measured = point(path)
    assert measured.ttft_ms is None
    assert measured.batch <= min(clients, prompts)
    assert told in read_measurements([path]).left_out[0].reason


def test_a_closed_loop_of_two_full_waves_keeps_its_ttft(save: Save):
    assert point(save(run(12, 24))).ttft_ms == PREFILL_MS


def test_one_prompt_is_a_batch_of_one(save: Save):
    measured = point(save(run(None, 1)))
    assert (measured.batch, measured.ttft_ms) == (1.0, PREFILL_MS)


@pytest.mark.parametrize("bound", ["num_prompts", "max_concurrent_requests"])
def test_a_batch_is_never_more_than_ran_together(save: Save, bound: str):
    changes = {"request_rate": 50.0, "request_throughput": 8.0, "duration": 0.5}
    limit = {"max_concurrent_requests": 3} if bound == "max_concurrent_requests" else {}
    told = reason(save(run(None, 4, **changes, **limit)))
    assert f"more than the concurrency of {3 if limit else 4} ({bound})" in told


@pytest.mark.parametrize(
    "field",
    [
        {"accept_length": 2.9},
        {"avg_spec_accept_length": 1.4},
        {"mean_acceptance_length": 2.0},
        {"spec_decode_acceptance_rate": 60.0},
        {"speculative_algorithm": "EAGLE"},
    ],
    ids=lambda field: next(iter(field)),
)
def test_speculation_under_any_name_is_left_out(save: Save, field: dict[str, Any]):
    assert "decoded speculatively" in reason(save(run(4, 16, **field)))


@pytest.mark.parametrize(
    "field", [{"accept_length": 1.0}, {"accept_length": None}, {"speculative_tokens": 0}]
)
def test_speculation_that_was_off_is_no_reason(save: Save, field: dict[str, Any]):
    assert point(save(run(4, 16, **field))).tpot_ms == TPOT_MS


def test_counts_of_the_same_tokens_that_differ_are_named(save: Save):
    told = reason(save(run(4, 16, total_output_tokens_retokenized=OUTPUT * 8)))
    assert "total_output_tokens is 3200, total_output_tokens_retokenized 1600" in told
    assert point(save(run(4, 16, total_output_tokens_retokenized=OUTPUT * 16 - 7))).tpot_ms == TPOT_MS
    lists = {"input_lens": [PROMPT] * 16, "output_lens": [OUTPUT // 2] * 16}
    assert "total_output_tokens is 3200, the sum of output_lens 1600" in reason(save(run(4, 16, **lists)))


def test_empty_answers_count_as_failed(save: Save):
    lengths = [0] * 4 + [OUTPUT] * 12
    lists = {"input_lens": [PROMPT] * 16, "output_lens": lengths, "total_output_tokens": OUTPUT * 12}
    assert "25% of its requests failed" in reason(save(run(4, 16, **lists)))
    assert "output_lens has 16 empty answers" in reason(save(run(4, 16, output_lens=[0] * 16)))


@pytest.mark.parametrize(
    "changes",
    [
        {"completed": 12, "total_input_tokens": PROMPT * 12, "total_output_tokens": OUTPUT * 12},
        {"error_summary": {"timed out": 3, "HTTP 500": 2}},
        {"failed": 4},
    ],
    ids=["missing", "listed", "counted"],
)
def test_failures_are_counted_however_they_are_told(save: Save, changes: dict[str, Any]):
    assert "of its requests failed" in reason(save(run(4, 16, **changes)))


def test_more_completed_than_sent_is_not_of_one_run(save: Save):
    assert "completed 17 is more than num_prompts 16" in reason(save(run(4, 16, completed=17)))


def test_a_count_of_errors_that_is_none_is_refused(save: Save):
    with pytest.raises(InvalidValueError, match="error_summary, key HTTP 500"):
        read_measurements([save(run(4, 16, error_summary={"HTTP 500": "many"}))])


def test_a_closed_loop_that_was_not_kept_busy_is_contradicted(save: Save):
    told = reason(save(run(8, 64, request_throughput=64 / 130)))
    assert "requests in flight, far below the concurrency of 8 (max_concurrency)" in told
    # The last wave of a short run is not full: 16 and 4 of 20.
    assert read_measurements([save(run(16, 20))]).points


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"mean_tpot_ms": "absent", "median_tpot_ms": 10.0}, "median_tpot_ms and no mean_tpot_ms"),
        ({"mean_ttft_ms": "absent", "mean_ttft_s": 0.04}, "mean_ttft_s where mean_ttft_ms belongs"),
        ({"mean_ttft_ms": "absent", "mean_ttft": 0.04}, "mean_ttft where mean_ttft_ms belongs"),
        ({"mean_ttft_ms": 0.04, "mean_tpot_ms": 0.01}, "mean_ttft_ms and mean_tpot_ms look like seconds"),
        ({"mean_tpot_ms": "absent"}, "no token timings (mean_tpot_ms)"),
    ],
)
def test_medians_and_seconds_are_called_what_they_are(save: Save, changes: dict[str, Any], told: str):
    assert told in reason(save(run(8, 64, **changes)))


def test_a_step_faster_than_the_memory_is_refused(save: Save):
    def results(scale: float) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for clients in (1, 2, 4, 8):
            tpot_ms = scale * (TPOT_MS + clients / 8)
            duration = 8 * (2 * PREFILL_MS + tpot_ms * (OUTPUT - 1)) / 1e3
            timings = {"mean_ttft_ms": 2 * PREFILL_MS, "mean_tpot_ms": tpot_ms, "duration": duration}
            found.append(run(clients, 8 * clients, **timings, request_throughput="absent"))
        return found

    request = ImportRequest("a100_sxm", "2026-01-01")
    assert import_pack(read_measurements([save(*results(1.0))]), request).figures
    with pytest.raises(InvalidValueError, match="reading the FP16 weights") as refused:
        import_pack(read_measurements([save(*results(0.5))]), request)
    assert "bench.jsonl: line 1: mean_tpot_ms is 5.062 ms" in str(refused.value)
    assert "speculative decoding" in str(refused.value)
