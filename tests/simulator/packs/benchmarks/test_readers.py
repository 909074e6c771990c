"""Each format is read as its tool writes it; what is broken is named with file, line or key, and column."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferencegym.errors import InvalidValueError
from simulator.packs.benchmarks import readers as benchmark_readers
from simulator.packs.benchmarks.readers import read_measurements
from simulator.packs.importing.measurements import Measurement, Measurements

EXAMPLES = Path(__file__).with_name("examples")
CSV = "batch_size,prompt_tokens,output_tokens,ttft_ms,tpot_ms\n"

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def example(name: str) -> dict[str, Any]:
    return json.loads((EXAMPLES / name).read_text())


def only(measurements: Measurements) -> Measurement:
    assert len(measurements.points) == 1
    return measurements.points[0]


def refusal(path: Path) -> str:
    with pytest.raises(InvalidValueError) as caught:
        read_measurements([path])
    return str(caught.value)


def left_out(path: Path) -> str:
    measurements = read_measurements([path])
    assert not measurements.points
    (entry,) = measurements.left_out
    return entry.reason


# --- the formats -------------------------------------------------------------------------------------------


def test_vllm_result() -> None:
    measurements = read_measurements([EXAMPLES / "vllm_bench_serve.json"])
    point, document = only(measurements), example("vllm_bench_serve.json")
    assert (measurements.model, measurements.engine) == ("meta-llama/Llama-3.1-8B-Instruct", "vllm")
    assert (point.prompt_tokens, point.output_tokens) == (512.0, 256.0)
    assert point.tpot_ms == document["median_tpot_ms"]
    assert point.ttft_ms == document["median_ttft_ms"]
    assert 15.5 < point.batch < 16.0


def test_vllm_results_one_after_another_and_in_a_list(write: Write) -> None:
    text = (EXAMPLES / "vllm_append_result.jsonl").read_text()
    lines = read_measurements([EXAMPLES / "vllm_append_result.jsonl"]).points
    assert [point.where for point in lines] == [f"vllm_append_result.jsonl: line {n}" for n in range(1, 9)]
    listed = write("list.json", "[" + ",\n".join(text.splitlines()) + "]")
    points = read_measurements([listed]).points
    assert [point.where for point in points][:2] == ["list.json: result [0]", "list.json: result [1]"]
    assert [(p.batch, p.tpot_ms) for p in points] == [(p.batch, p.tpot_ms) for p in lines]


def test_a_request_rate_alone_gives_the_batch_by_littles_law(write: Write) -> None:
    document = {**example("vllm_bench_serve.json"), "max_concurrency": None, "request_rate": 4.0}
    point = only(read_measurements([write("rate.json", json.dumps(document))]))
    decode_s = document["mean_tpot_ms"] * 255 / 1e3
    assert point.batch == pytest.approx(1.0 + document["request_throughput"] * decode_s)
    assert point.tpot_ms == document["mean_tpot_ms"]


@pytest.mark.parametrize("name", ["profile_export_aiperf.json", "profile_export_genai_perf.json"])
def test_aiperf_and_genai_perf_json(name: str) -> None:
    measurements = read_measurements([EXAMPLES / name])
    point, document = only(measurements), example(name)
    assert measurements.model == "meta-llama/Llama-3.1-8B-Instruct"
    assert point.tpot_ms == document["inter_token_latency"]["p50"]
    assert point.prompt_tokens == document["input_sequence_length"]["avg"]
    assert point.output_tokens == document["output_sequence_length"]["avg"]


@pytest.mark.parametrize(
    "config",
    [
        {"loadgen": {"concurrency": 32}},
        {"perf_analyzer": {"stimulus": {"concurrency": 32}}},
        {"phases": [{"name": "warmup", "concurrency": 2}, {"name": "profiling", "concurrency": 32}]},
        {"concurrency": 32},
    ],
)
def test_the_concurrency_is_found_wherever_versions_keep_it(write: Write, config: dict[str, Any]) -> None:
    document = {**example("profile_export_aiperf.json"), "input_config": config}
    point = only(read_measurements([write("export.json", json.dumps(document))]))
    assert point.batch == only(read_measurements([EXAMPLES / "profile_export_aiperf.json"])).batch


def test_units_are_taken_as_stated(write: Write) -> None:
    document = example("profile_export_aiperf.json")
    block = document["inter_token_latency"]
    scaled = {name: value / 1e3 if name != "unit" else "s" for name, value in block.items()}
    path = write("export.json", json.dumps({**document, "inter_token_latency": scaled}))
    assert only(read_measurements([path])).tpot_ms == pytest.approx(block["p50"])


@pytest.mark.parametrize(
    ("name", "prompt", "tpot_ms", "batch"),
    [
        ("profile_export_aiperf.csv", 512.0, 15.6, 12.4),
        ("profile_export_genai_perf.csv", 2048.0, 16.81, 4.6),
    ],
)
def test_aiperf_and_genai_perf_csv(name: str, prompt: float, tpot_ms: float, batch: float) -> None:
    """Thousands have commas in one of them; the load is not in the file and comes from the throughput."""
    point = only(read_measurements([EXAMPLES / name]))
    assert (point.prompt_tokens, point.tpot_ms) == (prompt, tpot_ms)
    assert point.batch == pytest.approx(batch, abs=0.05)


def test_plain_tables() -> None:
    points = read_measurements([EXAMPLES / "measured_points.csv", EXAMPLES / "measured_offline.csv"]).points
    assert len(points) == 12
    assert (points[0].batch, points[0].prompt_tokens, points[0].output_tokens) == (1.0, 128.0, 256.0)
    assert not points[0].colocated
    assert points[-1].latency_s is not None
    assert points[-1].tpot_ms is None


def test_a_table_of_clients_names_tiers_and_may_leave_the_output_out(write: Write) -> None:
    path = write(
        "t.csv", "concurrency, prompt_tokens, ttft_ms, tpot_ms, tier\n8,512,40,14,int8\n\n1,512,30,9,\n"
    )
    first, second = read_measurements([path], tier=2).points
    assert (first.tier, second.tier) == (1, 2)
    assert first.output_tokens == 256.0
    assert first.colocated
    assert first.batch < 8.0
    names = ("FP16", "FP8", "FP4")
    assert (
        read_measurements([write("u.csv", CSV[:-1] + ",tier\n1,8,8,1,1,fp8\n")], 0, names).points[0].tier == 1
    )


# --- what is of no use -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mean_tpot_ms": None, "median_tpot_ms": None}, "no token timings (mean_tpot_ms)"),
        ({"completed": 0}, "no request was completed"),
        ({"ramp_up_strategy": "linear"}, "no steady state"),
        ({"spec_decode_acceptance_rate": 61.0}, "speculatively"),
        ({"total_output_tokens": 160}, "one token each"),
        ({"failed": 40}, "failed"),
        ({"mean_tpot_ms": None}, "it has median_tpot_ms and no mean_tpot_ms"),
        ({"mean_ttft_ms": None, "mean_ttft_s": 0.06}, "it has mean_ttft_s where mean_ttft_ms belongs"),
        ({"accept_length": 2.9}, "speculatively (accept_length 2.9)"),
        ({"server_info": {"speculative_algorithm": "EAGLE"}}, "server_info.speculative_algorithm EAGLE"),
        ({"failed": None, "num_prompts": 200}, "20% of its requests failed (num_prompts - completed 40)"),
        ({"failed": 0, "num_prompts": 200}, "num_prompts - completed 40"),
        ({"error_summary": [{"count": 25}]}, "error_summary 25"),
        ({"errors": ["", "timeout"] * 80}, "errors 80"),
        ({"errors": [{"message": "timeout", "count": 80}]}, "errors 80"),
        ({"errors": {"timeout": 50, "refused": 30}}, "errors 80"),
        ({"failed": 40, "output_lens": [128] * 160}, "20% of its requests failed (failed 40)"),
        ({"failed": 40, "total_output_tokens_retokenized": 20480}, "20% of its requests failed (failed 40)"),
        (
            {"server_info": {"internal_states": [{"num_draft_tokens": 4}]}},
            "server_info.internal_states.num_draft_tokens 4",
        ),
        ({"output_lens": [0] * 16 + [284] * 144}, "10% of its requests failed (output_lens has 16 empty"),
        ({"num_prompts": 100}, "completed 160 is more than num_prompts 100"),
        ({"total_output_tokens_retokenized": 20480}, "total_output_tokens_retokenized 20480"),
        ({"total_input_tokens_retokenized": 50000}, "total_input_tokens_retokenized 50000"),
        ({"output_lens": [128] * 160}, "the sum of output_lens 20480"),
        ({"input_lens": [128] * 160}, "the sum of input_lens 20480"),
        ({"output_throughput": 7200.0}, "output_throughput is 7200/s"),
        ({"request_throughput": 3.0}, "request_throughput is 3/s"),
        ({"total_token_throughput": 5400.0}, "(total_input_tokens + total_output_tokens) / duration 2698/s"),
        ({"duration": 91.0}, "completed / duration 1.758/s"),
        ({"duration": None, "output_throughput": 7200.0}, "output_throughput is 7200/s"),
        ({"max_concurrency": 40}, "far below the concurrency of 40 (max_concurrency)"),
        ({"max_concurrent_requests": 4}, "more than the concurrency of 4 (max_concurrent_requests)"),
        ({"mean_e2el_ms": 4.26}, "mean_e2el_ms looks like seconds"),
        ({"mean_e2e_latency_ms": 9000.0}, "mean_e2e_latency_ms says 9000 ms"),
        (
            {"mean_tpot_ms": 0.0165, "median_tpot_ms": 0.0167, "max_concurrency": None, "request_rate": 3.6},
            "mean_tpot_ms is 0.0165: it looks like seconds",
        ),
    ],
)
def test_vllm_results_of_no_use(write: Write, change: dict[str, Any], reason: str) -> None:
    document = {**example("vllm_bench_serve.json"), **change}
    said = left_out(write("bench.json", json.dumps(document)))
    assert reason in said
    assert any(name in said for name in document), "a field is named"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"time_to_first_token": None}, "without streaming"),
        ({"was_cancelled": True}, "cancelled"),
        ({"input_config": {"model_names": ["a", "b"]}}, "several models: a, b"),
        ({"error_request_count": {"unit": "requests", "avg": 100}}, "failed"),
        ({"error_summary": [{"error_details": {"code": 500}, "count": 30}]}, "error_summary 30"),
        ({"input_config": {"concurrency": 32, "request_count": 400}}, "request_count asked for"),
        ({"spec_decode_acceptance_length": {"unit": "ratio", "avg": 2.4}}, "spec_decode_acceptance_length"),
        ({"inter_token_latency": {"unit": "ms", "p50": 25.6}}, "inter_token_latency has p50 and no avg"),
        ({"usage_completion_tokens": {"unit": "tokens", "avg": 128}}, "usage_completion_tokens 128"),
        ({"request_latency": {"unit": "s", "avg": 66.2}}, "request_latency says 6.62e+04 ms"),
        ({"input_config": {"concurrency": 80}}, "far below the concurrency of 80 (concurrency)"),
        ({"input_config": {"concurrency": 400}}, "no steady state"),
        ({"request_throughput": {"unit": "requests/sec", "avg": 0.9}}, "far below the concurrency of 32"),
        ({"benchmark_duration": {"unit": "sec", "avg": 30.0}}, "request_count / benchmark_duration 10.67/s"),
        (
            {"output_token_throughput": {"unit": "tokens/sec", "avg": 400.0}},
            "output_token_throughput is 400/s",
        ),
        (
            {
                "time_to_first_token": {"unit": "ms", "avg": 0.09},
                "inter_token_latency": {"unit": "ms", "avg": 0.0256},
                "request_latency": None,
                "input_config": {"request_rate": 4.7},
            },
            "time_to_first_token is 0.09 and inter_token_latency 0.0256: they look like seconds",
        ),
        ({"server_info": {"num_draft_tokens": 4}}, "speculatively (server_info.num_draft_tokens 4)"),
        (
            {"error_summary": [{"count": 30}], "usage_completion_tokens": {"unit": "tokens", "avg": 128}},
            "9% of its requests failed (error_summary 30)",
        ),
        ({"request_count": None, "error_summary": ["timeout"]}, "error_summary 1, and no request_count"),
    ],
)
def test_exports_of_no_use(write: Write, change: dict[str, Any], reason: str) -> None:
    document = {**example("profile_export_aiperf.json"), **change}
    said = left_out(write("export.json", json.dumps(document)))
    assert reason in said
    assert any(name in said for name in document), "a field is named"


# --- what is broken ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            "8,128,256,40,-3\n",
            "t.csv: line 2, column tpot_ms: '-3' is not allowed; allowed: a number above 0",
        ),
        ("8,128,256,40,12\n8,128,256,nan,12\n", "t.csv: line 3, column ttft_ms: 'nan'"),
        ("8,128,256,40,inf\n", "t.csv: line 2, column tpot_ms: 'inf'"),
        ("8,many,256,40,12\n", "t.csv: line 2, column prompt_tokens: 'many'"),
        ("8,,256,40,12\n", "column prompt_tokens: '' is not allowed; allowed: a number; it is missing"),
        ("0,128,256,40,12\n", "t.csv: line 2, column batch_size: '0'"),
        ("8,128,256,40\n", "t.csv: line 2: 4 is not allowed; allowed: 5 cells, as in the header"),
        ("8,128,256,,\n", "a row without figures"),
        ("8,128,99999999,40,12\n", "column output_tokens: '99999999'"),
    ],
)
def test_broken_rows(write: Write, rows: str, said: str) -> None:
    assert said in refusal(write("t.csv", CSV + rows))


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("prompt_tokens,tpot_ms", "one of the columns batch_size and concurrency"),
        ("batch_size,concurrency,prompt_tokens,tpot_ms", "one of the columns batch_size and concurrency"),
        ("batch_size,tpot_ms", "the column prompt_tokens"),
        ("batch_size,prompt_tokens", "the column tpot_ms, ttft_ms or latency_s"),
        ("batch_size,batch_size,prompt_tokens,tpot_ms", "column batch_size: 'two of them'"),
        ("a,b,c", "line 1: 'a,b,c'"),
        ("TIMESTAMP,ContextTokens", "vllm bench serve"),
    ],
)
def test_wrong_columns(write: Write, header: str, said: str) -> None:
    assert said in refusal(write("t.csv", header + "\n1,1\n"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"mean_tpot_ms": -1.0},
            "bench.json, key mean_tpot_ms: -1.0 is not allowed; allowed: a number above 0",
        ),
        ({"median_ttft_ms": float("nan")}, "bench.json, key median_ttft_ms: nan"),
        ({"completed": "160"}, "bench.json, key completed: '160'"),
        ({"total_input_tokens": True}, "key total_input_tokens: True"),
        ({"max_concurrency": [16]}, "key max_concurrency: [16]"),
        ({"p99_ttft_ms": 0.1}, "a number not below median_ttft_ms"),
        ({"input_lens": [1, 2], "output_lens": [1]}, "a list as long as input_lens, 2, not 1"),
        ({"completed": None}, "key completed: None"),
        ({"output_lens": [256, -1]}, "key output_lens[1]: -1"),
        ({"output_lens": [float("nan")]}, "key output_lens[0]: nan"),
        ({"input_lens": "512"}, "key input_lens: '512'"),
        ({"request_rate": "fast"}, "key request_rate: 'fast'"),
        ({"request_rate": -1.0}, "key request_rate: -1.0"),
        ({"max_concurrent_requests": float("nan")}, "key max_concurrent_requests: nan"),
        ({"total_output_tokens_retokenized": -5}, "key total_output_tokens_retokenized: -5"),
        ({"error_summary": [{"count": -2}]}, "error_summary [0], key count: -2"),
    ],
)
def test_broken_vllm_results(write: Write, change: dict[str, Any], said: str) -> None:
    document = {**example("vllm_bench_serve.json"), **change}
    assert said in refusal(write("bench.json", json.dumps(document)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"inter_token_latency": 12.0}, "export.json, key inter_token_latency: 12.0"),
        ({"inter_token_latency": {"unit": "ms"}}, "export.json, inter_token_latency, key avg"),
        (
            {"inter_token_latency": {"unit": "h", "avg": 1.0}},
            "key unit: 'h' is not allowed; allowed: a unit of time",
        ),
        ({"time_to_first_token": {"unit": "ms", "avg": 5, "p50": 9, "max": 8}}, "a number not below p50, 9"),
        ({"output_sequence_length": None}, "output_sequence_length"),
        ({"input_config": {"concurrency": -4}}, "input_config, key concurrency: -4"),
        ({"input_config": {"concurrency": 4, "request_rate": "4"}}, "key request_rate: '4'"),
        ({"input_config": {}, "request_throughput": None}, "or a concurrency; both are missing"),
    ],
)
def test_broken_exports(write: Write, change: dict[str, Any], said: str) -> None:
    document = {**example("profile_export_aiperf.json"), **change}
    assert said in refusal(write("export.json", json.dumps(document)))


def test_broken_cells_of_an_export_table(write: Write) -> None:
    text = (EXAMPLES / "profile_export_aiperf.csv").read_text()
    assert "Inter Token Latency (ms),15.60," in text
    broken = text.replace("Inter Token Latency (ms),15.60,", "Inter Token Latency (ms),-15.60,")
    assert "export.csv: line 4, column avg: '-15.60'" in refusal(write("export.csv", broken))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "an empty file"),
        (" \n\n", "an empty file"),
        (",,\n,,\n", "a table without cells"),
        (b"\x1f\x8b\x08", "line 1: 'byte 0x8b'"),
        ('{"a": 1', "line 1, character 8"),
        ('[]\n{"mean', "line 2, character"),
        ("[1]", "result [0]: 1 is not allowed; allowed: a JSON object"),
        ('{"metadata": {}, "metrics": {}}', "Give the summary beside it"),
        ('{"a": ' + "9" * 5000 + "}", "f: line 1"),
        ("[" * 100_000, "f: line 1"),
        ('{"mean_ttft_ms": 1, "completed": 2, "completed": 3}', "an object with two keys completed"),
        ('batch_size,prompt_tokens,tpot_ms\n"1,2,3', "CSV"),
    ],
)
def test_files_that_are_none(write: Write, content: str | bytes, said: str) -> None:
    assert said in refusal(write("f", content))


def test_huge_files_are_refused_before_they_are_read(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("huge.json", b"")
    with path.open("r+b") as file:
        file.truncate(10 * 2**30)  # a hole: it takes no room on the disk
    assert "10,240 MiB" in refusal(path)
    monkeypatch.setattr(benchmark_readers, "MAX_ROWS", 3)
    assert "line 5" in refusal(write("long.csv", CSV + "8,128,256,40,12\n" * 9))
    lines = (EXAMPLES / "vllm_append_result.jsonl").read_text()
    assert "long.jsonl: line 4: 'more results'" in refusal(write("long.jsonl", lines))


def test_missing_files_and_folders(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none.json")
    assert "a readable file" in refusal(tmp_path)


def test_models_are_not_mixed(write: Write) -> None:
    other = {**example("vllm_bench_serve.json"), "model_id": "Qwen/Qwen3-8B"}
    with pytest.raises(InvalidValueError, match=r"other\.json, model: 'Qwen/Qwen3-8B' is not allowed"):
        read_measurements([EXAMPLES / "vllm_bench_serve.json", write("other.json", json.dumps(other))])


# --- loads ------------------------------------------------------------------------------------------------


def burst(prompts: int, **change: Any) -> str:
    """A result of prompts of 1,024 tokens that are all sent at once and answered with 256 each."""
    ttft_ms, tpot_ms = 20.0 * (prompts + 1) / 2, 8.0 + 0.1 * prompts
    duration_s = (2 * ttft_ms + 255 * tpot_ms) / 1e3
    document = {
        "model_id": "meta-llama/Llama-3.1-8B-Instruct",
        "num_prompts": prompts,
        "completed": prompts,
        "request_rate": "inf",
        "max_concurrency": None,
        "duration": duration_s,
        "total_input_tokens": 1024 * prompts,
        "total_output_tokens": 256 * prompts,
        "mean_ttft_ms": ttft_ms,
        "mean_tpot_ms": tpot_ms,
    }
    return json.dumps({**document, **change})


@pytest.mark.parametrize("rate", ["inf", "Infinity", float("inf"), None])
@pytest.mark.parametrize("prompts", [2, 4, 12])
def test_prompts_that_are_all_sent_at_once(write: Write, prompts: int, rate: Any) -> None:
    measurements = read_measurements([write("burst.json", burst(prompts, request_rate=rate))])
    point = only(measurements)
    assert point.batch == pytest.approx(prompts, rel=0.06)
    assert point.batch <= prompts
    assert (point.tpot_ms, point.ttft_ms) == (8.0 + 0.1 * prompts, None)
    assert f"all {prompts} prompts were sent at once" in measurements.left_out[0].reason


def test_one_prompt_is_read_whole(write: Write) -> None:
    point = only(read_measurements([write("one.json", burst(1))]))
    assert (point.batch, point.ttft_ms) == (1.0, 20.0)


def test_a_trace_s_own_times_are_open_arrivals(write: Write) -> None:
    document = {**example("vllm_bench_serve.json"), "max_concurrency": None, "request_rate": "trace"}
    assert only(read_measurements([write("trace.json", json.dumps(document))])).batch > 15.0


def test_a_few_failures_are_told_and_empty_answers_do_not_count_as_outputs(write: Write) -> None:
    document = example("vllm_bench_serve.json")
    lens = {"output_lens": [0] * 4 + [256] * 156, "total_output_tokens": 156 * 256}
    change = {**lens, "failed": None, "output_throughput": None}
    measurements = read_measurements([write("few.json", json.dumps({**document, **change}))])
    assert only(measurements).output_tokens == 256.0
    assert "2.5% of its requests failed (output_lens has 4 empty answers)" in measurements.left_out[0].reason


def test_a_failed_request_s_empty_output_is_counted_once(write: Write) -> None:
    document = {**example("vllm_bench_serve.json"), "failed": 4, "num_prompts": 164}
    document["output_lens"] = [0] * 4 + [256] * 160
    document["input_lens"] = [512] * 164
    measurements = read_measurements([write("once.json", json.dumps(document))])
    assert "2.4% of its requests failed (failed 4)" in measurements.left_out[0].reason
    assert only(measurements).output_tokens == 256.0


def test_two_runs_in_one_export_table_are_refused(write: Write) -> None:
    text = (EXAMPLES / "profile_export_aiperf.csv").read_text()
    assert "again' is not allowed; allowed: one run a file" in refusal(write("two.csv", text + "\n" + text))


def test_drafts_in_an_export_table(write: Write) -> None:
    text = (EXAMPLES / "profile_export_aiperf.csv").read_text().rstrip()
    assert "acceptance_length 2.5" in left_out(write("spec.csv", text + "\nAcceptance Length (ratio),2.5\n"))


def test_times_in_other_units_are_named_in_a_table(write: Write) -> None:
    table = write("t.csv", "batch_size,prompt_tokens,tpot_ms,ttft_s\n1,128,10,.04\n")
    assert (
        "ttft_s; times are read from tpot_ms, ttft_ms (milli" in read_measurements([table]).left_out[0].reason
    )
    assert "tpot_ms, ttft_ms (milliseconds)" in refusal(
        write("u.csv", "batch_size,prompt_tokens,tpot_s\n1,8,1\n")
    )


def test_a_client_s_latency_is_held_against_ttft_and_tpot(write: Write) -> None:
    header = "concurrency,prompt_tokens,output_tokens,ttft_ms,tpot_ms,latency_s\n"
    assert only(read_measurements([write("t.csv", header + "1,128,101,50,10,1.05\n")])).tpot_ms == 10.0
    assert "latency_s says 9000 ms" in left_out(write("t.csv", header + "2,128,101,50,10,9\n"))


ROW = "prompt_tokens,output_tokens,ttft_ms,tpot_ms"


@pytest.mark.parametrize(
    ("columns", "cells", "reason"),
    [
        ("batch_size", "8,accept_length:2.9", "speculatively (accept_length 2.9)"),
        ("concurrency", "8,num_draft_tokens:4", "speculatively (num_draft_tokens 4)"),
        ("batch_size", "8,completed:90,failed:10", "10% of its requests failed (failed 10)"),
        ("concurrency", "8,num_prompts:100,completed:80", "failed (num_prompts - completed 20)"),
        ("concurrency", "8,request_throughput:0.9,num_prompts:80", "far below the concurrency of 8"),
        ("concurrency", "8,request_throughput:90", "more than the concurrency of 8"),
        ("batch_size", "8,latency_s:0.5", "latency_s is 0.5 s, tpot_ms x (output_tokens - 1) 1 s"),
        ("batch_size", "8,latency_s:1100", "+ batch_size x ttft_ms 1.32 s"),
    ],
)
def test_rows_of_no_use(write: Write, columns: str, cells: str, reason: str) -> None:
    """Rows with a prompt of 512 tokens, 101 outputs, a TTFT of 40 ms and a TPOT of 10 ms."""
    first, *others = cells.split(",")
    names, values = zip(*(other.split(":") for other in others), strict=True)
    header, row = ",".join((columns, ROW, *names)), ",".join((first, "512,101,40,10", *values))
    path = write("t.csv", f"{header}\n{row}\n")
    assert reason in [entry.reason for entry in read_measurements([path]).left_out][-1]
    assert not read_measurements([path]).points


def test_rows_whose_columns_agree_are_read(write: Write) -> None:
    header = f"concurrency,{ROW},request_throughput,request_rate,num_prompts,completed,failed"
    path = write("t.csv", f"{header}\n8,512,101,20,10,7.84,inf,80,80,0\n8,512,101,20,10,7.84,,,80,\n")
    measurements = read_measurements([path])
    assert [point.ttft_ms for point in measurements.points] == [20.0, 20.0]
    assert not measurements.left_out
    path = write("t.csv", f"batch_size,{ROW},latency_s\n8,512,101,20,10,1.14\n")
    assert only(read_measurements([path])).latency_s == 1.14
    assert "completed: '9'" in refusal(
        write("u.csv", f"batch_size,{ROW},completed,num_prompts\n8,512,101,20,10,9,8\n")
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(
        ["vllm_bench_serve.json", "profile_export_aiperf.json", "profile_export_genai_perf.json"]
    ),
    data=st.data(),
)
def test_any_value_anywhere_is_read_or_refused(write: Write, name: str, data: st.DataObject) -> None:
    document = example(name)
    key = data.draw(st.sampled_from(sorted(document)))
    document[key] = data.draw(VALUES)
    path = write("any.json", json.dumps(document))
    try:
        taken = read_measurements([path])
    except InvalidValueError as error:
        if "any.json" not in str(error):
            raise
    else:
        assert len(taken.points) + len(taken.left_out) >= 1
