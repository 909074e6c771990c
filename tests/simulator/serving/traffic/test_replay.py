"""Recorded traffic: reading files of three publishers, refusing bad ones, playing windows of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from env.serving.episode import InferenceEnv
from inferencegym.errors import InvalidValueError, TraceFileError
from inferencegym.models.serving import ServeAction, ServeObservation
from simulator.packs.trace_sim import shared_simulator
from simulator.serving.traffic import trace_file
from simulator.serving.traffic.config import get_workload
from simulator.serving.traffic.replay import ARRIVAL_RATE_MAX_RPS, ReplayWorkload, RequestTrace, read_trace
from simulator.serving.traffic.trace_file import FORMATS, TOKENS_MAX, parse_trace
from simulator.serving.traffic.workload import WorkloadGenerator

EXAMPLES = Path(__file__).parent / "examples"
PLAIN = "timestamp_s,prompt_tokens,output_tokens\n"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def make_trace(arrival: Any, prompt: Any = 100.0, output: Any = 50.0) -> RequestTrace:
    """A trace in memory; scalars stand for all requests."""
    times = np.asarray(arrival, dtype=np.float64)
    columns = (np.broadcast_to(np.asarray(v, dtype=np.float64), times.shape).copy() for v in (prompt, output))
    return RequestTrace("made", "plain", times, *columns)


# --- reading -----------------------------------------------------------------------------------------------


def test_azure_dates_have_seven_fractional_digits() -> None:
    trace = read_trace(EXAMPLES / "azure.csv")
    assert trace.format == "azure"
    assert trace.requests == 360
    assert trace.arrival_s[0] == 0.0
    # 23:57:31.2438830 to 23:57:32.0317792, cut to microseconds; the file runs past midnight.
    assert trace.arrival_s[1] == pytest.approx(0.787896, abs=1e-9)
    assert trace.duration_s > 150.0
    assert (trace.prompt_tokens[0], trace.output_tokens[0]) == (852.0, 567.0)


def test_burstgpt_counts_seconds() -> None:
    trace = read_trace(EXAMPLES / "burstgpt.csv")
    assert trace.format == "burstgpt"
    assert trace.arrival_s[:2].tolist() == [0.0, 2.0]
    assert (trace.prompt_tokens[0], trace.output_tokens[0]) == (1430.0, 45.0)


def test_mooncake_counts_milliseconds() -> None:
    trace = read_trace(str(EXAMPLES / "mooncake.jsonl"))
    assert trace.format == "mooncake"
    assert trace.arrival_s[:3].tolist() == [0.0, 3.0, 9.0]
    assert (trace.prompt_tokens[0], trace.output_tokens[0]) == (4177.0, 223.0)


def test_plain_columns_read_from_csv_and_json_alike(tmp_path: Path) -> None:
    csv_trace = read_trace(EXAMPLES / "plain.csv")
    path = tmp_path / "plain.jsonl"
    names = FORMATS[-1].columns
    rows = zip(csv_trace.arrival_s, csv_trace.prompt_tokens, csv_trace.output_tokens, strict=True)
    path.write_text("\n\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows))
    json_trace = read_trace(path)
    for name in ("arrival_s", "prompt_tokens", "output_tokens"):
        assert getattr(json_trace, name).tolist() == getattr(csv_trace, name).tolist()


def test_other_columns_order_case_blank_lines_and_bom_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(
        b'\xef\xbb\xbfnote, OUTPUT_TOKENS ,Timestamp_s,prompt_tokens\r\n\r\n"a, b",5,1e3,7.0\r\n'
    )
    trace = read_trace(path)
    assert (trace.prompt_tokens[0], trace.output_tokens[0]) == (7.0, 5.0)


def test_dates_with_an_offset(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{AZURE}2024-05-10 00:00:00.009930+00:00,1,1\n2024-05-10T02:00:01.0099300+02:00,1,1\n")
    assert read_trace(path).arrival_s.tolist() == [0.0, 1.0]


def test_empty_requests_are_left_out_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{PLAIN}0,0,5\n1,5,0\n2,5,5\n")
    with pytest.raises(TraceFileError, match="skip_empty=True"):
        read_trace(path)
    trace = read_trace(path, skip_empty=True)
    assert (trace.requests, trace.skipped, trace.duration_s) == (1, 2, 0.0)


def test_a_trace_cannot_be_changed() -> None:
    trace = read_trace(EXAMPLES / "plain.csv")
    with pytest.raises(ValueError, match="read-only"):
        trace.arrival_s[0] = 5.0


# --- refusing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", ["empty"]),
        (b"\n \n", ["empty"]),
        (PLAIN, ["no requests"]),
        ("a,b\n1,2\n", ["line 1", "no known columns", "a, b", "GeneratedTokens", "input_length"]),
        ("TIMESTAMP,ContextTokens\n1,2\n", ["line 1", "GeneratedTokens", "missing"]),
        ('{"timestamp": 1, "input_length": 2}\n', ["line 1", "output_length", "missing"]),
        (f"{PLAIN}0,1\n", ["line 2", "output_tokens", "missing"]),
        (f"{PLAIN}0,1,1\n1,-3,1\n", ["line 3", "prompt_tokens", "-3", "whole number from 1"]),
        (f"{PLAIN}0,1,nan\n", ["line 2", "output_tokens", "nan"]),
        (f"{PLAIN}0,inf,1\n", ["line 2", "prompt_tokens", "inf"]),
        (f"{PLAIN}0,1e400,1\n", ["line 2", "prompt_tokens", "1e400"]),
        (f"{PLAIN}0,2.5,1\n", ["line 2", "prompt_tokens", "2.5"]),
        (f"{PLAIN}0,1_0,1\n", ["line 2", "prompt_tokens", "1_0"]),
        (f"{PLAIN}0,,1\n", ["line 2", "prompt_tokens"]),
        (f"{PLAIN}0,{TOKENS_MAX + 1},1\n", ["line 2", "prompt_tokens", "1,000,000"]),
        (f"{PLAIN}0,0,1\n", ["line 2", "prompt_tokens", "'0'"]),
        (f"{PLAIN}nan,1,1\n", ["line 2", "timestamp_s", "nan"]),
        (f"{PLAIN}1e300,1,1\n", ["line 2", "timestamp_s"]),
        (f"{PLAIN}5,1,1\n\n4,1,1\n", ["line 4", "timestamp_s", "'4'", "sort"]),
        (f"{AZURE}yesterday,1,1\n", ["line 2", "TIMESTAMP", "yesterday", "date"]),
        (f"{AZURE}2024-01-01 00:00:00,1,1\n2024-01-01 00:00:01Z,1,1\n", ["line 3", "TIMESTAMP", "UTC"]),
        (f"{AZURE}2024-02-30 00:00:00,1,1\n", ["line 2", "TIMESTAMP"]),
        (b"timestamp_s,prompt_tokens,output_tokens\n0,1,1\n1,\xff\xfe,1\n", ["line 3", "UTF-8", "0xff"]),
        (b"\x1f\x8b\x08\x00rubbish", ["line 1", "UTF-8", "unpacked"]),
        (b"PAR1" + b"x" * 2_000_000, ["line 1", "longer"]),
        (f'{PLAIN}0,1,"{"9" * 200_000}"\n', ["line 2", "no CSV"]),
        ('{"timestamp": 1, "input_length": 2, "output_length": 3}\n[1]\n', ["line 2", "no JSON object"]),
        ('{"timestamp": 1, "input_length": 2, "output_length": 3}\n{"tim\n', ["line 2", "no JSON"]),
        ('{"timestamp": 1, "input_length": true, "output_length": 3}', ["input_length", "True"]),
        ('{"timestamp": 1, "input_length": NaN, "output_length": 3}', ["input_length", "nan"]),
        ('{"timestamp": 1, "input_length": null, "output_length": 3}', ["input_length", "None"]),
        ('{"timestamp": 1, "input_length": 1' + "0" * 400 + ', "output_length": 3}', ["input_length"]),
        ('{"timestamp": ' + "[" * 100_000 + "}", ["line 1", "no JSON"]),
        (
            '{"timestamp": 1, "input_length": 2, "output_length": 3}\n{"timestamp": 1}',
            ["line 2", "input_length"],
        ),
    ],
)
def test_a_bad_file_is_refused_by_line_and_column(
    tmp_path: Path, content: bytes | str, said: list[str]
) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TraceFileError) as refused:
        read_trace(path)
    for words in ("bad.csv", *said):
        assert words in str(refused.value)
    assert len(str(refused.value)) < 700


@pytest.mark.parametrize("name", ["nothing.csv", ""])
def test_a_missing_file_or_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceFileError, match="cannot be read"):
        read_trace(tmp_path / name)


def test_too_many_requests_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "MAX_REQUESTS", 3)
    path = tmp_path / "long.csv"
    path.write_text(PLAIN + "0,1,1\n" * 3)
    assert read_trace(path).requests == 3
    path.write_text(PLAIN + "0,1,1\n" * 4)
    with pytest.raises(TraceFileError, match=r"line 5: more than 3 requests"):
        read_trace(path)


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_give_a_trace_or_a_plain_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any"
    for head in (b"", PLAIN.encode(), AZURE.encode(), b'{"timestamp": 1, "input_length": 2'):
        path.write_bytes(head + content)
        try:
            trace = read_trace(path)
        except TraceFileError:
            continue
        assert trace.requests > 0
        assert np.isfinite(trace.arrival_s).all()
        assert (np.diff(trace.arrival_s) >= 0.0).all()
        assert min(trace.prompt_tokens.min(), trace.output_tokens.min()) >= 1.0


# --- playing -----------------------------------------------------------------------------------------------


def test_a_window_holds_the_trace_s_requests_second_by_second() -> None:
    trace = read_trace(EXAMPLES / "azure.csv")
    workload = ReplayWorkload(trace, get_workload("task2"), start_s=40.0, replicas=1)
    episode = workload.episode(np.random.default_rng(0))
    inside = (trace.arrival_s >= 40.0) & (trace.arrival_s < 241.0)
    assert episode.arrival.tolist() == (trace.arrival_s[inside] - 40.0).tolist()
    assert episode.prompt.tolist() == trace.prompt_tokens[inside].tolist()
    assert episode.output.tolist() == trace.output_tokens[inside].tolist()
    assert len(episode.first_request) == 202
    for second in range(201):
        part = episode.arrival[episode.first_request[second] : episode.first_request[second + 1]]
        assert ((part >= second) & (part < second + 1)).all()


def test_speed_packs_more_of_the_trace_into_an_episode() -> None:
    trace = make_trace(np.arange(0.0, 1000.0))
    slow, fast = (
        ReplayWorkload(trace, get_workload("task1"), start_s=0.0, speed=speed).episode(
            np.random.default_rng(0)
        )
        for speed in (0.5, 4.0)
    )
    assert (len(slow.arrival), len(fast.arrival)) == (101, 804)
    assert slow.rate_ema_rps[-1] == pytest.approx(0.5, abs=0.2)
    assert fast.rate_ema_rps[-1] == 4.0


def test_replicas_share_round_robin_and_lose_nothing() -> None:
    trace = make_trace(np.arange(0.0, 201.0, 0.1), prompt=np.arange(2010) + 1.0)
    workload = ReplayWorkload(trace, get_workload("task1"), start_s=0.0, replicas=5)
    turns = {tuple(workload.episode(np.random.default_rng(seed)).prompt) for seed in range(40)}
    assert len(turns) == 5
    assert sorted(p for turn in turns for p in turn) == trace.prompt_tokens.tolist()
    whole = workload.episode(np.random.default_rng(0))
    assert whole.rate_ema_rps[-1] == pytest.approx(10.0, abs=0.5)  # what is observed is the service's rate


def test_the_start_follows_the_seed_and_stays_within_the_trace() -> None:
    trace = make_trace(np.arange(0.0, 2000.0, 0.5), prompt=np.arange(4000) % 5000 + 1.0)
    workload = ReplayWorkload(trace, get_workload("task1"))
    first = [workload.episode(np.random.default_rng(seed)).prompt[0] for seed in (1, 1, 2, 3)]
    assert first[0] == first[1]
    assert len(set(first)) == 3
    assert all(len(workload.episode(np.random.default_rng(s)).prompt) in (402, 403) for s in range(20))


def test_after_the_end_of_a_trace_there_is_silence() -> None:
    workload = ReplayWorkload(read_trace(EXAMPLES / "plain.csv"), get_workload("task1"))
    episode = workload.episode(np.random.default_rng(9))
    assert len(episode.arrival) == 6  # too short for a window: starts at its beginning
    empty = ReplayWorkload(make_trace([0.0, 9999.0]), get_workload("task1"), start_s=1.0)
    env = InferenceEnv(shared_simulator(), "task1", workload=empty)
    assert env.reset(0).arrival_rate == 0.0
    assert env.step(ServeAction())[3]["requests"]["arrived"] == 0


def test_phases_come_from_the_traffic_itself() -> None:
    quiet, burst = np.arange(0.0, 60.0), np.arange(60.0, 75.0, 0.02)
    trace = make_trace(np.concatenate([quiet, burst, np.arange(75.0, 400.0)]))
    episode = ReplayWorkload(trace, get_workload("task2"), start_s=0.0).episode(np.random.default_rng(0))
    assert [episode.phase(s) for s in (0, 30, 70, 150)] == ["warmup", "steady", "burst", "steady"]
    assert "cooldown" in {episode.phase(s) for s in range(201)}


@pytest.mark.parametrize("example", ["azure.csv", "burstgpt.csv", "mooncake.jsonl", "plain.csv"])
@pytest.mark.parametrize("task_id", ["task1", "task2", "task3"])
def test_every_step_of_a_replay_is_in_range_and_conserves_requests(example: str, task_id: str) -> None:
    workload = ReplayWorkload(read_trace(EXAMPLES / example), get_workload(task_id), speed=3.0, replicas=1)
    env = InferenceEnv(shared_simulator(), task_id, seed=5, workload=workload)
    ServeObservation.model_validate(env.reset().model_dump())
    rng = np.random.default_rng(1)
    ended = arrived = 0
    inside: int | None = None
    while not env.done:
        action = ServeAction(
            kv_budget=float(rng.uniform(0.1, 1.0)),
            batch_size=int(rng.integers(1, 200)),
            prefill_disagg=bool(rng.integers(2)),
            quant_tier=int(rng.integers(3)),
        )
        observation, reward, _, info = env.step(action)
        ServeObservation.model_validate(observation.model_dump())
        assert -1.0 <= reward <= 1.0
        requests = info["requests"]
        if inside is not None:
            balance = requests["arrived"] - requests["finished"] - requests["dropped"]
            assert requests["waiting"] + requests["running"] == inside + balance
        inside = requests["waiting"] + requests["running"]
        arrived += requests["arrived"]
        ended += requests["finished"]
    assert arrived > 0
    assert ended > 0


def test_an_episode_is_repeated_by_its_seed_and_survives_a_snapshot() -> None:
    workload = ReplayWorkload(read_trace(EXAMPLES / "azure.csv"), get_workload("task2"))

    def play(env: InferenceEnv, steps: int) -> list[Any]:
        return [env.step(ServeAction(batch_size=64))[0].model_dump_json() for _ in range(steps)]

    env, other = (InferenceEnv(shared_simulator(), "task2", workload=workload) for _ in range(2))
    env.reset(3)
    other.reset(3)
    assert play(env, 50) == play(other, 50)
    snapshot = env.snapshot()
    future = play(env, 100)
    other.reset(4)
    other.restore(snapshot)
    assert play(other, 100) == future


def test_observed_lengths_and_rates_end_at_their_bounds() -> None:
    bound = ServeObservation.model_json_schema()["properties"]["arrival_rate"]["maximum"]
    assert bound == ARRIVAL_RATE_MAX_RPS
    trace = make_trace(np.arange(0.0, 20.0, 0.001), prompt=100_000.0)
    workload = ReplayWorkload(trace, get_workload("task1"), start_s=0.0, speed=20.0, replicas=200)
    episode = workload.episode(np.random.default_rng(0))
    assert episode.rate_ema_rps[0] == bound
    assert episode.prompt_ema_tokens.max() == 8192.0
    assert episode.prompt.max() == 100_000.0


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"speed": 0.0}, "speed"),
        ({"speed": float("nan")}, "speed"),
        ({"speed": float("inf")}, "speed"),
        ({"start_s": -1.0}, "start_s"),
        ({"start_s": 1e9}, "start_s"),
        ({"start_s": float("nan")}, "start_s"),
        ({"replicas": 0}, "replicas"),
        ({"replicas": 257}, "replicas"),
    ],
)
def test_a_bad_argument_is_named(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValueError, match=field):
        ReplayWorkload(make_trace([0.0, 1.0]), get_workload("task1"), **arguments)


def test_the_environment_wants_episodes_of_its_own_length() -> None:
    with pytest.raises(InvalidValueError, match=r"workload\.steps"):
        InferenceEnv(shared_simulator(), "task1", workload=WorkloadGenerator(get_workload("task1"), steps=20))


def test_the_task_s_own_workload_given_by_hand_changes_nothing() -> None:
    given = WorkloadGenerator(get_workload("task3"))
    one, other = (InferenceEnv(shared_simulator(), "task3", workload=w) for w in (None, given))
    assert one.reset(7) == other.reset(7)
    assert one.step(ServeAction()) == other.step(ServeAction())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,374,44\n", "4 cells"),
        ("timestamp_s,prompt_tokens,Prompt_Tokens,output_tokens\n0,1,2,3\n", "two columns prompt_tokens"),
        ("timestamp_s,prompt_tokens,output_tokens\n0,\uff11\uff12,3\n", "line 2, column prompt_tokens"),
        ("timestamp_s,prompt_tokens,output_tokens\n1700000000000,1,3\n", "a number of seconds up to 1e+11"),
        ("timestamp,input_length,output_length\n1700000000000000,1,3\n", "milliseconds up to 1e+14"),
    ],
)
def test_a_row_that_may_mean_something_else_is_refused(text: str, said: str) -> None:
    with pytest.raises(TraceFileError) as refused:
        parse_trace(text)
    assert said in str(refused.value)


def test_what_spreadsheets_add_is_taken() -> None:
    trace = parse_trace("timestamp_s,prompt_tokens,output_tokens\n0,1,3,\n1,2,4,,\n")
    assert trace.requests == 2


def test_a_recording_in_another_unit_is_refused() -> None:
    lines = "".join(f"{250 * index},100,20\n" for index in range(1000))
    trace = parse_trace(f"timestamp_s,prompt_tokens,output_tokens\n{lines}")
    with pytest.raises(InvalidValueError, match=r"1000 requests in 249,750 s.*read as seconds"):
        ReplayWorkload(trace, get_workload("task2"))
    # As milliseconds it is four requests a second; and who names a start knows what is there.
    ReplayWorkload(trace, get_workload("task2"), speed=1000.0)
    ReplayWorkload(trace, get_workload("task2"), start_s=0.0)


@pytest.mark.parametrize("replicas", [1.5, True, 0, 257, float("nan")])
def test_replicas_are_whole(replicas: Any) -> None:
    trace = parse_trace("timestamp_s,prompt_tokens,output_tokens\n0,1,3\n")
    with pytest.raises(InvalidValueError, match="replicas"):
        ReplayWorkload(trace, get_workload("task2"), replicas=replicas)


BAILIAN = '{"chat_id": %d, "parent_chat_id": -1, "timestamp": %s, "input_length": 90, "output_length": 9}\n'
MOONCAKE = '{"timestamp": %s, "input_length": 90, "output_length": 9}\n'
TIMES = [0.0, 12.25, 60.5, 143.007, 250.0]


def told(text: str, **options: Any) -> list[str]:
    return ReplayWorkload(parse_trace(text), get_workload("task2"), **options).summary().get("notes", [])


def test_bailian_has_mooncake_s_names_and_seconds() -> None:
    text = "".join(BAILIAN % (number, time) for number, time in enumerate(TIMES))
    trace = parse_trace(text)
    assert (trace.format, trace.arrival_s.tolist()) == ("bailian", TIMES)
    assert told(text) == ["chat_id and parent_chat_id tell the bailian format: timestamp is seconds."]


def test_seconds_with_fractions_under_mooncake_s_names_get_a_note() -> None:
    notes = told("".join(MOONCAKE % time for time in TIMES))
    assert len(notes) == 2
    assert "3 times of column timestamp have fractions, such as 143.007" in notes[0]
    assert "0.25 s of traffic. Are they seconds?" in notes[0]
    assert "ends after 0.25 s of the 201 s" in notes[1]
    whole = "".join(MOONCAKE % (1000 * second) for second in range(300))
    assert told(whole) == []
    assert "notes" not in ReplayWorkload(parse_trace(whole), get_workload("task2")).summary()


def test_a_recording_that_is_much_shorter_than_an_episode_gets_a_note() -> None:
    rows = "".join(f"{second},100,20\n" for second in range(301))
    assert told(PLAIN + rows) == []
    assert told(PLAIN + rows, start_s=190.0) == []
    assert "ends after 50 s of the 201 s" in told(PLAIN + rows, start_s=250.0)[0]
    assert "ends after 300 s of the 1005 s" in told(PLAIN + rows, speed=5.0)[0]
    assert "read as seconds" in told(PLAIN + rows, speed=5.0)[0]
