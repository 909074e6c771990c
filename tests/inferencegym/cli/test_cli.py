"""The command-line tool as its users meet it: output, exit codes, never a traceback."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

import grader.serving.policies
from env.protocols import AgentReport
from inferencegym.cli import main
from inferencegym.registry import all_specs
from server.app import main as serve_main
from tests.live import live_server


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run_command(*words: str | Path) -> Ran:
        monkeypatch.setattr(sys, "argv", ["inferencegym", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()  # typer ends every command so
        captured = capsys.readouterr()
        return Ran(int(stopped.value.code or 0), captured.out, captured.err)

    return run_command


def test_help_lists_the_commands(run: Run) -> None:
    result = run("--help")
    assert result.code == 0
    for command in ("serve", "tasks", "run", "grade", "traces"):
        assert command in result.out


def test_version(run: Run) -> None:
    from inferencegym import __version__

    assert run("--version").out.strip() == __version__


def test_tasks_lists_environments_tasks_and_agents(run: Run) -> None:
    text = run("tasks").out
    assert "InferenceGym/Serving-v0" in text
    assert "baseline" in text
    document = run("tasks", "--env", "serving", "--json").json["InferenceGym/Serving-v0"]
    assert [task["id"] for task in document["tasks"]][:4] == ["task1", "task2", "task3", "azure-conversation"]
    assert "random" in document["agents"]


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_ids_stand_there_whole_at_any_width(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    words = run("tasks").out.split()
    for spec in all_specs():
        assert set(spec.part("tasks")) <= set(words)
    if columns > 40:
        assert "prefill_disagg," in words
    assert "…" not in "".join(words) or columns == 40


def test_run_prints_score_and_breakdown(run: Run) -> None:
    result = run("run", "--task", "task2", "--seed", "0")
    assert result.code == 0
    for word in ("task2", "seed 0", "baseline", "200 steps", "score", "ttft", "memory"):
        assert word in result.out


def test_here_and_over_http_agree(run: Run, server_url: str) -> None:
    words = ("run", "--task", "task3", "--agent", "random", "--seed", "3", "--json")
    here, there = run(*words).json, run(*words, "--url", server_url).json
    told = {"seed", "config", "config_hash", "trace_pack", "environment", "environment_version"}
    told |= {"engine_version", "standard"}  # a server names what was played
    assert {key: here[key] for key in here.keys() - told} == {key: there[key] for key in there.keys() - told}
    assert (there["standard"], here.get("standard")) == (True, None)
    assert here["verified"]
    assert here["steps"] == 200


def test_a_config_is_played_saved_and_replayed(run: Run, server_url: str, tmp_path: Path) -> None:
    path = tmp_path / "episode.json"
    config = ("--config", '{"engine_timing": "mixed_batch"}')
    words = ("run", "--task", "task3", "--seed", "3", "--json", *config)
    here, there = run(*words, "--out", path).json, run(*words, "--url", server_url).json
    assert here["score"] == there["score"] != run(*words[:-2]).json["score"]
    assert run("grade", path, "--replay", "--json").json["score"] == here["score"]
    compared = tmp_path / "compared.json"
    asked = ("--tasks", "task3", "--seeds", "3-3", "--agents", "baseline", *config)
    assert run("compare", *asked, "-q", "--json", compared).code == 0
    document = json.loads(compared.read_text())
    assert document["episodes"][0]["score"] == pytest.approx(here["score"], rel=1e-12)
    assert document["config"] == {"engine_timing": "mixed_batch"}


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{", "--config"),
        ("[]", "--config"),
        ('{"engine_timing": "none"}', "engine_timing"),
        ('{"x": 1}', "config.x"),
    ],
)
def test_a_config_that_is_none_is_refused(run: Run, command: str, config: str, said: str) -> None:
    result = run(command, "--config", config)
    assert result.code == 2
    assert said in result.err


def test_the_baselines_score_is_that_of_the_server(run: Run, server_url: str) -> None:
    scores = httpx.get(f"{server_url}/baseline").json()["scores"]
    assert {t: run("run", "--task", t, "--seed", "0", "--json").json["score"] for t in scores} == scores


@pytest.fixture
def saved(run: Run, tmp_path: Path) -> Path:
    path = tmp_path / "episode.json"
    assert run("run", "--task", "task1", "--seed", "5", "--out", path).code == 0
    return path


def test_a_saved_log_is_graded_and_replayed(run: Run, saved: Path, server_url: str) -> None:
    score = json.loads(saved.read_text())["score"]
    for extra in ((), ("--replay",), ("--url", server_url), ("--replay", "--url", server_url)):
        graded = run("grade", saved, "--json", *extra).json
        assert graded["score"] == pytest.approx(score)
        assert graded["verified"] is ("--replay" in extra)
    assert "score" in run("grade", saved).out


def test_what_the_agent_reports_is_told(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = AgentReport({"fallbacks": 3.0}, "the rule decided 3 of 200 steps")
    monkeypatch.setattr(grader.serving.policies.Constant, "report", lambda self: report, raising=False)
    path = tmp_path / "episode.json"
    assert run("run", "--json", "--out", path).json["agent_report"] == asdict(report)
    assert json.loads(path.read_text())["note"] == report.note
    assert report.note in run("run").out


def test_a_bare_list_needs_the_task(run: Run, saved: Path) -> None:
    document = json.loads(saved.read_text())
    saved.write_text(json.dumps(document["episode_log"]))
    assert run("grade", saved).code == 2
    assert run("grade", saved, "--task", "task1").code == 0
    assert "seed" in run("grade", saved, "--task", "task1", "--replay").err


def spoilt(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return path


@pytest.fixture
def routed(run: Run, tmp_path: Path) -> Path:
    path = tmp_path / "routed.json"
    words = ("--env", "routing", "--task", "stream_1", "--agent", "always_cache", "--seed", "3")
    assert run("run", *words, "--out", path).code == 0
    return path


@pytest.mark.parametrize("extra", [(), ("--replay",)])
def test_a_file_that_contradicts_itself_is_refused(run: Run, routed: Path, extra: tuple[str, ...]) -> None:
    assert "file says" not in run("grade", routed, *extra).err
    for option, value in (("--env", "serving"), ("--task", "stream_2")):
        refused = run("grade", routed, option, value, *extra)
        assert (refused.code, "which the file names" in refused.err) == (2, True)
    assert run("grade", routed, "--env", "routing", "--task", "stream_1", *extra).code == 0
    other = run("grade", spoilt(routed, seed=99), *extra)
    assert (other.code, "episode_log[0].metrics.seed" in other.err) == (2, True)
    assert run("grade", spoilt(routed, seed="3"), *extra).code == 2


def test_a_file_of_another_task_or_other_steps_does_not_score_what_it_says(run: Run, routed: Path) -> None:
    text = routed.read_text()
    changed = run("grade", spoilt(routed, task_id="stream_2"), "--replay")
    assert "The file says that this scored" in changed.err
    routed.write_text(text)
    log = json.loads(text)["episode_log"]
    assert "The file says" in run("grade", spoilt(routed, episode_log=log[:100])).err
    routed.write_text(text)
    assert "The file says" in run("grade", spoilt(routed, score=0.999), "--json").err


def test_the_verdict_is_printed(run: Run, routed: Path) -> None:
    graded = run("grade", routed, "--json").json
    assert graded["passed"] is (graded["score"] >= 0.92)
    assert "passed" in run("grade", routed).out


def test_a_task_of_another_environment_is_pointed_at(run: Run, routed: Path) -> None:
    path = routed.with_name("bare.json")
    path.write_text(json.dumps(json.loads(routed.read_text())["episode_log"]))
    for words in (("grade", path, "--task", "stream_1"), ("run", "--task", "stream_1")):
        result = run(*words)
        assert (result.code, "--env routing" in result.err) == (2, True)
    assert run("grade", path, "--task", "stream_1", "--env", "routing").code == 0


def test_actions_are_played_again(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "actions.json"
    path.write_text(json.dumps({"task_id": "task1", "seed": 1, "actions": [{"batch_size": 64}] * 200}))
    assert run("grade", path, "--json").json["verified"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not json", "readable JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("{}", "episode_log"),
        ("3", "episode_log"),
        ('{"task_id": "task1", "actions": []}', "seed"),
        ('{"task_id": "task1", "actions": [], "seed": true}', "seed"),
        ('{"task_id": "task1", "actions": {}, "seed": 1}', "list of objects"),
        ('{"task_id": "task1", "episode_log": [1]}', "list of objects"),
        ('{"task_id": "task1", "episode_log": [{}]}', "episode_log"),
        ('{"task_id": "nope", "episode_log": []}', "task1"),
        ('{"env": "servin", "task_id": "task1", "episode_log": []}', "Did you mean serving"),
    ],
)
def test_a_bad_file_is_a_plain_error(run: Run, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    result = run("grade", path)
    assert result.code == 2
    assert said in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--env", "servng"), "Did you mean serving"),
        (("run", "--task", "task9"), "Did you mean task"),
        (("run", "--agent", "baselin"), "Did you mean baseline"),
        (("run", "--seed", "-1"), "seed"),
        (("run", "--url", "nonsense"), "base_url"),
        (("tasks", "--env", "nope"), "environment"),
        (("grade", "/no/such/file.json"), "readable JSON"),
        (("run", "--out", "/no/such/folder/x.json"), "--out"),
        (("run", "--out", "/proc/x.json"), "--out"),
    ],
)
def test_a_wrong_word_is_exit_code_2_with_a_hint(run: Run, words: tuple[str, ...], said: str) -> None:
    result = run(*words)
    assert result.code == 2
    assert said in result.err
    assert "error:" in result.err


def test_a_disk_that_is_full_is_no_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("inferencegym.cli.show.show_tasks", full)
    result = run("tasks")
    assert (result.code, "No space left" in result.err) == (1, True)
    assert run("run", "--out", "/dev/full").code == 1


def test_traces_info_tells_the_origin(run: Run) -> None:
    assert "a100_sxm" in run("traces", "info").out
    document = run("traces", "info", "--json").json
    assert document["rows"] == 5400
    assert document["metadata"]["library"]
    broken = run("traces", "info", "/no/such/pack.parquet")
    assert broken.code == 1
    assert "pack" in broken.err


def test_traces_are_listed_and_shown_by_name(run: Run) -> None:
    rows = run("traces", "list", "--json").json
    assert [row["name"] for row in rows][:3] == ["a100_llama3_8b", "h100_llama3_8b", "h200_llama3_8b"]
    assert [row["used"] for row in rows][:3] == [True, False, False]
    assert "FP8" in run("traces", "list").out
    assert "h200_sxm" in run("traces", "info", "h200_llama3_8b").out
    wrong = run("traces", "info", "h20_llama3_8b")
    assert wrong.code == 2
    assert "h200_llama3_8b" in wrong.err


def test_a_pack_is_built_validated_and_never_half_written(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "l40s.parquet"
    built = run("traces", "build", "--system", "l40s", "--source", "roofline", "--output", file)
    assert built.code == 0
    assert "the timings are roofline, not measured" in built.out
    assert f"INFERENCEGYM_TRACE_PACK={file}" in built.out
    assert "valid, 5400 rows" in run("traces", "validate", file).out
    (tmp_path / "torn.parquet").write_bytes(file.read_bytes()[:5000])
    assert run("traces", "validate", tmp_path / "torn.parquet").code == 1


def test_a_torn_pack_and_a_pack_by_path_are_told_in_the_list(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy("simulator/data/traces_h200_llama3_8b.parquet", tmp_path / "own.parquet")
    folder = tmp_path / "packs"
    folder.mkdir()
    (folder / "torn.parquet").write_bytes(b"torn")
    monkeypatch.setenv("INFERENCEGYM_TRACE_PACKS", str(folder))
    monkeypatch.setenv("INFERENCEGYM_TRACE_PACK", str(tmp_path / "own.parquet"))
    shown = run("traces", "list", "--json")
    assert shown.code == 0
    assert {row["name"]: row["used"] for row in shown.json}["own"]
    assert "'torn.parquet' cannot be read" in shown.err
    assert run("traces", "validate").out.endswith("own.parquet: valid, 5400 rows\n")
    assert "valid" in run("traces", "validate", "h100_llama3_8b").out


@pytest.mark.parametrize(
    ("command", "name"),
    [("build", "table.csv"), ("build", "no/x.parquet"), ("plot", "x.txt"), ("plot", "no/x.png")],
)
def test_places_of_packs_and_pictures_are_checked_first(
    run: Run, tmp_path: Path, command: str, name: str
) -> None:
    (tmp_path / "table.csv").write_text("mine")
    words = ("--system", "l40s", "--source", "roofline") if command == "build" else ()
    result = run("traces", command, *words, "--output", tmp_path / name)
    assert (result.code, "--output" in result.err) == (2, True)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("table.csv", "mine")]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("INFERENCEGYM_TRACE_PACK", "nope"),
        ("INFERENCEGYM_TRACE_PACKS", "/nowhere/at/all"),
        ("INFERENCEGYM_TRAFFIC", "/nowhere/at/all"),
    ],
)
def test_a_wrong_setting_of_an_environment_ends_serve_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    monkeypatch.setenv("INFERENCEGYM_PORT", "0")
    with pytest.raises(SystemExit) as ended:
        serve_main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert value in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--system", "tpu"), "system"),
        (("--system", "h100_sxm", "--tp", "3"), "gpus"),
        (("--system", "h100_sxm", "--tp", "2"), "gpus"),
        (("--system", "h200_sxm", "--memory-gib", "141"), "memory_gib"),
        (("--system", "h100_sxm", "--memory-gib", "nan"), "memory_gib"),
        (("--system", "h100_sxm", "--model", "gpt-2"), "model"),
        (("--system", "h100_sxm", "--cents-per-gpu-hour", "-1"), "cents_per_gpu_hour"),
    ],
)
def test_a_pack_that_cannot_be_built_is_no_file(
    run: Run, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    file = tmp_path / "pack.parquet"
    result = run("traces", "build", "--source", "roofline", "--output", file, *words)
    assert result.code == 2
    assert said in result.err
    assert not file.exists()


def test_serve_starts_the_server() -> None:
    command = ("-m", "inferencegym.cli", "serve", "--host", "127.0.0.1", "--port", "{port}")
    with live_server(command) as url:
        assert httpx.get(f"{url}/health").json()["status"] == "healthy"
