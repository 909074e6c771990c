"""Comparisons: the right statistics, the same numbers from any number of processes, and plain errors."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from agents.compare import episodes, report
from agents.compare.compare import DEFAULT_SEEDS, Comparison, Mean, compare, make_plan, parse_seeds, summarise
from agents.compare.episodes import EpisodeResult, Job, play_all, play_episode
from agents.compare.output_files import check_writable
from env.protocols import Agent, AgentReport
from inferencegym.cli import main
from inferencegym.errors import InferenceGymError, InvalidValueError, UnknownNameError
from inferencegym.registry import EnvSpec, get_spec, register, unregister
from tests.agents.llm.fake_chat import Answer, FakeChat
from tests.live import ROOT
from tests.server import toy_env


@pytest.fixture
def toy() -> Iterator[EnvSpec]:
    yield register(toy_env.SPEC)
    unregister(toy_env.SPEC.id)


@pytest.fixture(scope="module")
def small() -> Comparison:
    return compare(agents=["random", "static"], tasks=["task1"], seeds=[100, 101])


# --- numbers -----------------------------------------------------------------------------------------------


def test_an_episode_scores_as_its_verified_replay_does() -> None:
    spec = get_spec("serving")
    for agent in ("random", "baseline"):
        result = play_episode(spec, Job("task3", agent, 7))
        player: Agent = spec.part("agents")[agent]("task3", 7)
        episode = spec.part("make_env")("task3", 7)
        observation, actions = episode.reset(), []
        while not episode.done:
            actions.append(player.act(observation))
            observation = episode.step(actions[-1])[0]
        grade = spec.part("grader").grade_replay("task3", 7, [a.model_dump(mode="json") for a in actions])
        assert result.score == grade.score
        assert result.components == grade.parts
        assert result.reward == episode.state()["cumulative_reward"]


def test_any_number_of_workers_gives_the_same_numbers(small: Comparison) -> None:
    seen: list[None] = []
    parallel = compare(
        agents=["random", "static"],
        tasks=["task1"],
        seeds=[100, 101],
        workers=2,
        on_episode=lambda: seen.append(None),
    )
    assert parallel == small
    assert len(seen) == len(parallel.episodes) == 6


def test_an_environment_joins_by_the_registry_alone(toy: EnvSpec) -> None:
    alone = compare("toy", seeds=[1, 2, 3])
    assert compare("toy", seeds=[1, 2, 3], workers=2) == alone
    assert alone.tasks == ("calm", "windy")
    assert alone.baseline == "baseline"
    assert [row.difference for row in alone.summaries] == [None, None]
    assert set(alone.summaries[0].components) == {"nearness"}


def test_the_interval_is_student_s() -> None:
    values = [0.2, 0.5, 0.9, 0.4]
    mean = Mean.of(values)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert mean.value == pytest.approx(0.5)
    assert mean.half_width == pytest.approx((high - low) / 2)
    assert Mean.of([0.3]) == Mean(0.3, None)


def result(agent: str, seed: int, score: float) -> EpisodeResult:
    return EpisodeResult("t", agent, seed, score, 10.0 * score, 5, {"part": score / 2})


def test_differences_are_paired_by_seed() -> None:
    # Seeds matter a lot, the agent a little: only pairing sees it.
    base = [result("baseline", seed, 0.1 * seed) for seed in range(6)]
    better = [result("mine", seed, 0.1 * seed + 0.02) for seed in reversed(range(6))]
    row, mine = summarise([*base, *better], "baseline")
    assert row.difference is None
    assert mine.difference is not None
    assert mine.difference.value == pytest.approx(0.02)
    assert mine.difference.half_width == pytest.approx(0.0, abs=1e-12)
    assert mine.score.half_width is not None
    assert mine.score.half_width > 0.1
    assert mine.components == {"part": pytest.approx(mine.score.value / 2)}
    assert mine.reward.value == pytest.approx(10 * mine.score.value)


def test_the_baseline_always_plays(small: Comparison) -> None:
    assert [row.agent for row in small.summaries] == ["baseline", "random", "static"]


def test_agents_that_call_a_service_play_only_when_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "llm" not in make_plan().agents
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    assert "llm" not in make_plan().agents
    assert "llm" in make_plan(agents=["llm"]).agents


def test_an_agent_that_lacks_something_is_left_out_or_refused() -> None:
    with pytest.raises(InferenceGymError, match="key"):
        make_plan(agents=["llm"])


def test_default_agents_that_lack_something_are_left_out(
    toy: EnvSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def untrained(task_id: str, seed: int) -> Any:
        raise InferenceGymError("It has no weights.", "Train it.")

    monkeypatch.setitem(toy_env.AGENTS, "trained", untrained)
    plan = make_plan("toy")
    assert plan.agents == ("baseline",)
    assert plan.left_out == {"trained": "It has no weights. Train it."}


def test_a_failure_in_a_worker_ends_the_comparison_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [Job("task1", "baseline", seed) for seed in (1, 2)] + [Job("task1", "llm", 3)]
    with pytest.raises(InferenceGymError, match=r"llm on task1, seed 3: .* key"):
        play_all(get_spec("serving"), jobs, workers=2)


# --- what agents report ------------------------------------------------------------------------------------


class Relieved:
    """An agent of the toy environment that owns up to not having played."""

    def reset(self) -> None:
        pass

    def act(self, observation: Any) -> toy_env.Push:
        return toy_env.Push()

    def report(self) -> AgentReport:
        return AgentReport({"fallbacks": 4.0}, "the rule decided 4 of 4 steps")


@pytest.fixture
def reported(toy: EnvSpec, monkeypatch: pytest.MonkeyPatch) -> Comparison:
    monkeypatch.setitem(toy_env.AGENTS, "relieved", lambda task_id, seed: Relieved())
    return compare("toy", seeds=[1, 2], tasks=["calm"])


def test_what_an_agent_reports_stands_beside_its_score(reported: Comparison) -> None:
    note = "relieved on calm, 2 episodes: the rule decided 4 of 4 steps"
    text = report.to_markdown(reported)
    assert f"- {note}" in text
    head, *rows = [line for line in text.splitlines() if line.startswith("|")]
    cells = {row.split("|")[1].strip(): row.split("|")[-2].strip() for row in rows[1:]}
    assert head.split("|")[-2].strip() == "fallbacks"
    assert cells == {"`baseline`": "", "`relieved`": "4.00 ± 0.00"}
    assert report.notes_of(reported) == [note]
    lines = list(csv.DictReader(io.StringIO(report.to_csv(reported))))
    assert [(line["agent"], line["fallbacks"], line["note"]) for line in lines] == [
        *[("baseline", "", "")] * 2,
        *[("relieved", "4.0", "the rule decided 4 of 4 steps")] * 2,
    ]
    document = json.loads(report.to_json(reported))
    assert document["episodes"][-1]["figures"]["fallbacks"] == 4.0
    assert document["summaries"][-1]["notes"] == {"the rule decided 4 of 4 steps": 2}


def test_a_model_that_never_answered_gets_no_credit_in_silence(
    run: Run, chat_key: FakeChat, tmp_path: Path
) -> None:
    chat_key.always = Answer("wrong key", 401)
    code, out, err = run(*TINY[:4], "--agents", "llm", "--workers", "1", "--csv", tmp_path / "scores.csv")
    assert code == 0
    assert "fallbacks" in out
    (line,) = err.splitlines()  # once, not at every step
    for words in ("llm on task1, 2 episodes", "200 of 200 steps", "401"):
        assert words in line
    assert (tmp_path / "scores.csv").read_text().count("the rule decided 200 of 200 steps") == 2


# --- processes ---------------------------------------------------------------------------------------------


def test_workers_end_with_a_parent_that_is_killed() -> None:
    words = ["compare", "--agents", "mpc", "--tasks", "task3", "--seeds", "40", "--workers", "2", "--quiet"]
    with subprocess.Popen([sys.executable, "-m", "inferencegym.cli", *words], cwd=ROOT) as process:
        workers: set[int] = set()
        for _ in range(600):
            workers |= {pid for pid in children_of(process.pid) if "spawn_main" in command_of(pid)}
            if len(workers) >= 2 or process.poll() is not None:
                break
            time.sleep(0.1)
        process.terminate()
    assert len(workers) >= 2
    for _ in range(300):
        if not any("spawn_main" in command_of(pid) for pid in workers):
            return
        time.sleep(0.1)
    pytest.fail(f"left behind: {workers}")


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command_of(pid: int) -> str:
    """Empty when there is no such process, or only what is left of one."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_cpu_count_is_at_least_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert episodes.cpu_count() >= 1
    monkeypatch.delattr(episodes.os, "sched_getaffinity", raising=False)
    assert episodes.cpu_count() >= 1


# --- names and seeds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"env": "servng"}, "serving"),
        ({"agents": ["baselin"]}, "Did you mean baseline"),
        ({"tasks": ["task9"]}, "task3"),
        ({"baseline": "statik"}, "Did you mean static"),
    ],
)
def test_an_unknown_name_lists_near_matches(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(UnknownNameError, match=said):
        make_plan(**arguments)


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("100-119", DEFAULT_SEEDS),
        ("20", DEFAULT_SEEDS),
        ("1", (100,)),
        ("3,5,8-10", (3, 5, 8, 9, 10)),
        (" 7 - 7 ", (7,)),
        ("0,", (0,)),
    ],
)
def test_seeds_are_a_range_a_list_or_a_count(text: str, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "-1", "5-3", "a", "1.5", "1e3", "10001", "0-10000", "1-2-3", "9" * 30, f"0,{2**63}", ","),
        *("5,5", "3-6,5"),
    ],
)
def test_other_seeds_are_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="seeds"):
        parse_seeds(text)


# --- documents ---------------------------------------------------------------------------------------------


def test_markdown_says_how_it_was_made_and_holds_a_row_for_each_agent(small: Comparison) -> None:
    text = report.to_markdown(small)
    head, *rest = text.splitlines()
    assert "2 episodes each (seeds 100, 101)" in head
    assert "differences to baseline paired by seed" in head
    rows = [line for line in rest if line.startswith("| `")]
    assert len(rows) == 3
    assert len({line.count("|") for line in rest if line.startswith("|")}) == 1
    static = small.summaries[2]
    assert static.difference is not None
    assert f"+{static.difference.value:.3f} ± " in rows[2]
    assert "completed" not in text


def test_csv_has_a_line_for_each_episode(small: Comparison) -> None:
    rows = list(csv.DictReader(io.StringIO(report.to_csv(small))))
    assert [(row["agent"], int(row["seed"])) for row in rows] == [(e.agent, e.seed) for e in small.episodes]
    assert [float(row["score"]) for row in rows] == [e.score for e in small.episodes]
    assert {row["steps"] for row in rows} == {"200"}


def test_json_holds_everything(small: Comparison) -> None:
    document = json.loads(report.to_json(small))
    assert document["seeds"] == [100, 101]
    assert document["confidence"] == 0.95
    assert [row["agent"] for row in document["summaries"]] == ["baseline", "random", "static"]
    assert document["episodes"][0]["score"] == small.episodes[0].score


def test_a_png_needs_matplotlib(small: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "scores.png"
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InferenceGymError, match=r"inferencegym\[demo\]"):
        report.write_png(small, path)
    assert not path.exists()


@pytest.mark.demo
def test_a_png_is_drawn(small: Comparison, tmp_path: Path) -> None:
    path = tmp_path / "scores.png"
    report.write_png(small, path)
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("seeds", "text"), [((5,), "5"), ((1, 2), "1, 2"), ((1, 2, 3), "1-3"), ((1, 2, 4), "1, 2, 4")]
)
def test_seeds_as_text(seeds: tuple[int, ...], text: str) -> None:
    assert report.seeds_text(seeds) == text


# --- command line ------------------------------------------------------------------------------------------

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run_command(*words: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["inferencegym", "compare", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run_command


TINY = ("--tasks", "task1", "--seeds", "2", "--agents", "random,static", "--workers", "1")


def test_the_command_prints_a_table_and_writes_files(run: Run, small: Comparison, tmp_path: Path) -> None:
    paths = {name: tmp_path / f"scores.{name}" for name in ("json", "csv")}
    code, out, _ = run(*TINY, "--json", paths["json"], "--csv", paths["csv"])
    assert code == 0
    for word in ("task1", "random", "static", "− baseline", "throughput", "seeds 100, 101"):
        assert word in out
    assert paths["json"].read_text() == report.to_json(small)
    assert paths["csv"].read_text() == report.to_csv(small)


def test_the_command_prints_markdown_and_nothing_else(run: Run, small: Comparison) -> None:
    assert run(*TINY, "--markdown", "--quiet") == (0, report.to_markdown(small), "")


def test_a_quiet_command_prints_nothing(run: Run) -> None:
    assert run(*TINY, "--quiet") == (0, "", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--env", "servng"), "Did you mean serving"),
        (("--agents", "baselin"), "Did you mean baseline"),
        (("--agents", ","), "separated by commas"),
        (("--tasks", "task9"), "Did you mean task"),
        (("--seeds", "5-3"), "100-119"),
        (("--json", "/no/such/folder/x.json"), "--json"),
        (("--csv", "/proc/x.csv"), "--csv"),
        (("--csv", "."), "--csv"),
        (("--png", "scores.pdf"), "ends in .png"),
        (("--png", "/proc/x.png"), "--png"),
        (("--workers", "0"), "--workers"),
    ],
)
def test_a_wrong_word_is_exit_code_2_before_anything_is_played(
    run: Run, words: tuple[str, ...], said: str
) -> None:
    code, out, err = run(*words)
    assert code == 2
    assert said in err
    assert out == ""


def test_a_file_that_fails_at_last_takes_no_result_along(run: Run, tmp_path: Path) -> None:
    code, out, err = run(*TINY, "--json", "/dev/full", "--csv", tmp_path / "scores.csv")
    assert code == 1
    assert "task1" in out
    assert "--json: /dev/full could not be written. (No space left on device)" in " ".join(err.split())
    assert (tmp_path / "scores.csv").is_file()


def test_looking_whether_a_file_can_be_written_changes_nothing(tmp_path: Path) -> None:
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text("kept")
    for path in (old, new):
        check_writable("--csv", path)
    assert old.read_text() == "kept"
    assert not new.exists()


@pytest.mark.parametrize("given", [{"tasks": []}, {"tasks": "task1"}, {"agents": []}, {"agents": "random"}])
def test_names_are_a_list_that_holds_some(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(given))):
        make_plan(**given)


def test_an_agent_without_its_key_is_exit_code_1(run: Run) -> None:
    code, _, err = run("--agents", "llm")
    assert code == 1
    assert "key" in err
