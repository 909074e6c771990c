"""The evaluators' script: its lines, its determinism, and that no fault loses the last line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import inference
from agents.compare.players import LocalPlayer
from grader.serving.grader import GRADER
from grader.serving.policies import TwoMode
from inference import main
from inferencegym.models.serving import ServeAction
from tests.agents.llm.fake_chat import Answer, FakeChat, fake_chat, said
from tests.live import ROOT
from tests.server.conftest import make_app, serve

START = re.compile(r"^\[START\] task=(\S+) env=(\S+) model=(\S+)$")
STEP = re.compile(
    r"^\[STEP\] step=(\d+) action=(\{\S*\}) reward=(-?\d+\.\d{2}) done=(true|false) error=(null|\S.*)$"
)
END = re.compile(
    r"^\[END\] success=(true|false) steps=(\d+) score=([01]\.\d{3}) "
    r"rewards=((?:-?\d+\.\d{2})?(?:,-?\d+\.\d{2})*)$"
)
VARIABLES = (
    "TASKS", "BASE_SEED", "HF_TOKEN", "OPENAI_API_KEY", "API_BASE_URL", "MODEL_NAME", "INFERENCE_OUTPUT",
    "INFERENCEGYM_URL", "INFERENCE_ENV", "LLM_DECIDE_EVERY", "LLM_TIMEOUT_S",
)  # fmt: skip


class Episode(NamedTuple):
    task: str
    model: str
    steps: list[tuple[str, ...]]
    success: bool
    score: float
    rewards: list[str]


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def episodes(self) -> list[Episode]:
        """Standard output, every line of which must be one of the three kinds, in order."""
        found: list[Episode] = []
        lines = iter(self.out.splitlines())
        for line in lines:
            start = START.match(line)
            assert start, line
            steps: list[tuple[str, ...]] = []
            while step := STEP.match(line := next(lines)):
                steps.append(step.groups())
                assert int(step.group(1)) == len(steps)
            end = END.match(line)
            assert end, line
            assert int(end.group(2)) == len(steps)
            rewards = end.group(4).split(",") if end.group(4) else []
            assert rewards == [step[2] for step in steps]
            task, env, model = start.groups()
            assert env == "InferenceGym/Serving-v0"
            found.append(Episode(task, model, steps, end.group(1) == "true", float(end.group(3)), rewards))
        return found


def environment(**variables: str) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if k not in VARIABLES}, **variables}


Infer = Callable[..., Ran]


@pytest.fixture
def infer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Infer:
    """Run the script's main() in this process with just these variables."""

    def run(**variables: str) -> Ran:
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        code = main()
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def by_rule() -> Ran:
    done = subprocess.run(
        [sys.executable, "-W", "error", "inference.py"],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr)


def test_plays_every_task_by_rule_without_a_key(by_rule: Ran) -> None:
    assert (by_rule.code, by_rule.err) == (0, "")
    assert [episode.task for episode in by_rule.episodes] == ["task1", "task2", "task3"]
    for episode in by_rule.episodes:
        assert episode.model == "reactive"
        assert episode.success
        assert len(episode.steps) == 200
        assert [step[3] for step in episode.steps] == ["false"] * 199 + ["true"]
        assert {step[4] for step in episode.steps} == {"null"}


def test_the_score_is_that_of_the_actions(by_rule: Ran) -> None:
    for episode in by_rule.episodes:
        actions = [json.loads(step[1]) for step in episode.steps]
        assert all(ServeAction.model_validate(action) for action in actions)
        grade = GRADER.grade_replay(episode.task, 42, actions)
        assert episode.score == pytest.approx(grade.score, abs=5e-4)


def test_same_seed_same_bytes_other_seed_other_bytes(by_rule: Ran, infer: Infer) -> None:
    again = infer(TASKS="task3")
    assert again.out == by_rule.out[by_rule.out.index("[START] task=task3") :]
    assert infer(TASKS="task3", BASE_SEED="7").out != again.out


def test_json_result(tmp_path: Path, infer: Infer) -> None:
    path = tmp_path / "result.json"
    ran = infer(TASKS=" task2 , task1,", BASE_SEED="9", INFERENCE_OUTPUT=str(path))
    episodes = json.loads(path.read_text())["episodes"]
    assert [(e["task"], e["seed"], e["steps"], e["success"]) for e in episodes] == [
        ("task2", 9, 200, True),
        ("task1", 9, 200, True),
    ]
    for printed, stored in zip(ran.episodes, episodes, strict=True):
        assert stored["score"] == pytest.approx(printed.score, abs=5e-4)
        assert len(stored["rewards"]) == 200
        assert set(stored["breakdown"]) >= {"completed"}


def test_against_a_server_it_says_the_same(by_rule: Ran, infer: Infer) -> None:
    with serve(make_app()) as url:
        ran = infer(INFERENCEGYM_URL=url, TASKS="task3")
    assert (ran.code, ran.out) == (0, by_rule.out[by_rule.out.index("[START] task=task3") :])


@pytest.mark.parametrize(
    ("tasks", "env", "ids"),
    [
        ("steady", "Market", ["steady"]),
        ("task_1", "Serving", ["task1"]),
        ("1, easy", "Serving", ["task1", "task1"]),
        ("high-traffic", "Autoscaling", ["high_traffic"]),
        ("task_1,overuse", "Routing", ["task_1", "task_2"]),
        ("nowhere", "Serving", ["nowhere"]),
        ("", "Serving", ["task1", "task2", "task3"]),
    ],
)
def test_tasks_select_their_environment(
    tasks: str, env: str, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INFERENCE_ENV", raising=False)
    monkeypatch.setenv("TASKS", tasks)
    spec = inference.chosen_env()
    assert spec.id == f"InferenceGym/{env}-v0"
    assert inference.chosen_tasks(spec) == ids
    # An environment that is named stays: its own task of that name, or none.
    monkeypatch.setenv("INFERENCE_ENV", "routing")
    assert inference.chosen_env().name == "routing"


def test_a_task_of_another_environment_is_played_to_its_end(infer: Infer) -> None:
    ran = infer(TASKS="OVERUSE")
    assert ran.code == 0
    assert ran.out.startswith("[START] task=task_2 env=InferenceGym/Routing-v0 ")
    assert "[END] success=true" in ran.out


def test_every_variable_is_documented() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [name for name in VARIABLES if f"``{name}``" not in (inference.__doc__ or "")] == []
    assert [name for name in VARIABLES if f"`{name}`" not in readme] == []


def test_an_unknown_task_has_its_lines_and_the_others_go_on(infer: Infer) -> None:
    ran = infer(TASKS="tsk1,task1")
    unknown, known = ran.episodes
    assert (unknown.success, unknown.steps, unknown.score) == (False, [], 0.0)
    assert known.success
    assert ran.code == 1
    assert "Did you mean task1" in ran.err


def test_an_address_where_something_else_answers(infer: Infer) -> None:
    with fake_chat() as something_else:
        ran = infer(TASKS="task1", INFERENCEGYM_URL=something_else.url)
    assert [(e.success, e.steps) for e in ran.episodes] == [(False, [])]
    assert ran.code == 1
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"BASE_SEED": "soon"}, "BASE_SEED"),
        ({"BASE_SEED": "-1"}, "BASE_SEED"),
        ({"INFERENCE_ENV": "servin"}, "Did you mean"),
        ({"INFERENCEGYM_URL": "nowhere"}, "http://"),
        ({"INFERENCE_OUTPUT": "/nonexist/x.json"}, "INFERENCE_OUTPUT"),
        ({"INFERENCE_OUTPUT": "/proc/x.json"}, "INFERENCE_OUTPUT"),
        ({"INFERENCE_OUTPUT": "."}, "INFERENCE_OUTPUT"),
    ],
)
def test_a_bad_setting_is_named(variables: dict[str, str], named: str, infer: Infer) -> None:
    ran = infer(**variables)
    assert (ran.code, ran.out) == (2, "")
    assert named in ran.err
    assert "Traceback" not in ran.err


@contextmanager
def model_service() -> Iterator[tuple[FakeChat, dict[str, str]]]:
    with fake_chat() as chat:
        yield chat, {"OPENAI_API_KEY": "k", "API_BASE_URL": chat.url, "MODEL_NAME": "fake/model"}


def test_with_a_key_the_model_decides_and_its_faults_are_named(infer: Infer) -> None:
    with model_service() as (chat, variables):
        chat.answers = [said('```json\n{"batch_size": 50}\n```'), said("no"), said('{"batch_size": 0}')]
        ran = infer(TASKS="task1", **variables)
    (episode,) = ran.episodes
    assert (ran.code, episode.model, episode.success, len(episode.steps)) == (0, "fake/model", True, 200)
    sizes = [json.loads(step[1])["batch_size"] for step in episode.steps]
    assert sizes[0] == 50
    assert set(sizes[3:]) == {96}
    errors = [step[4] for step in episode.steps]
    assert [error != "null" for error in errors[:4]] == [False, True, True, False]
    assert "batch_size" in errors[2]
    assert len(chat.requests) == 200


def test_an_answer_can_be_kept(infer: Infer) -> None:
    with model_service() as (chat, variables):
        ran = infer(TASKS="task2", LLM_DECIDE_EVERY="40", **variables)
        assert len(chat.requests) == 5
    assert ran.episodes[0].success


def test_a_service_that_refuses_costs_no_episode(tmp_path: Path, infer: Infer) -> None:
    path = tmp_path / "result.json"
    with model_service() as (chat, variables):
        chat.always = Answer("wrong key", 401)
        ran = infer(TASKS="task1", INFERENCE_OUTPUT=str(path), **variables)
    (episode,) = ran.episodes
    assert (ran.code, episode.success, len(episode.steps)) == (0, True, 200)
    stored: Any = json.loads(path.read_text())["episodes"][0]
    assert len(stored["errors"]) == 200


def test_the_fallbacks_of_an_episode_are_one_line_of_standard_error(infer: Infer) -> None:
    with model_service() as (chat, variables):
        chat.always = Answer("wrong key", 401)
        ran = infer(TASKS="task1,task2", **variables)
    assert [line.partition(":")[0] for line in ran.err.splitlines()] == ["task1", "task2"]
    assert "200 of 200 steps" in ran.err


FORGED = "x\n[END] success=true steps=200 score=1.000 rewards=1.00\r\x1b[2K\x85\u2028 y\udcff"


def test_names_cannot_forge_lines(infer: Infer) -> None:
    with model_service() as (_, variables):
        (by_task,) = infer(TASKS=FORGED, **variables).episodes
        (by_model,) = infer(TASKS="task1", **{**variables, "MODEL_NAME": FORGED}).episodes
    assert (by_task.success, by_task.steps) == (False, [])
    assert (by_model.success, by_model.steps) == (False, [])  # no model has such a name


def test_a_text_that_standard_output_cannot_encode_costs_nothing() -> None:
    with model_service() as (chat, variables):
        chat.always = Answer("gesperrt: Schlüssel ≠ 🔑", 401)
        done = subprocess.run(
            [sys.executable, "inference.py"],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
            env=environment(TASKS="täsk,task1", PYTHONIOENCODING="ascii", **variables),
        )  # fmt: skip
    assert [episode.success for episode in Ran(done.returncode, done.stdout, done.stderr).episodes] == [
        False,
        True,
    ]


def test_output_that_is_not_read_to_its_end_is_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with subprocess.Popen(
        [sys.executable, "inference.py"], cwd=ROOT, env=environment(INFERENCE_OUTPUT=str(path)), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == ("", 1)
    assert json.loads(path.read_text())["episodes"][0]["success"] is False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("place", ["say", "act", "step", "grade", "start"])
def test_a_signal_anywhere_leaves_whole_lines(
    place: str, number: int, infer: Infer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process signals itself in the middle of a line, of a step, of grading."""
    before = signal.getsignal(number)

    def interrupted(function: Callable[..., Any], at_call: int) -> Callable[..., Any]:
        calls = 0

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at_call:
                signal.raise_signal(number)
            return function(*args, **kwargs)

        return call

    target, name, at_call = {
        "say": (inference, "_printable", 14),
        "act": (TwoMode, "act", 5),
        "step": (LocalPlayer, "step", 5),
        "grade": (type(GRADER), "grade_replay", 1),
        "start": (inference, "start_player", 1),
    }[place]
    monkeypatch.setattr(target, name, interrupted(getattr(target, name), at_call))
    ran = infer(TASKS="task1,task2")
    (episode,) = ran.episodes
    assert (ran.code, episode.success) == (1, False)
    assert len(episode.steps) == {"say": 3, "act": 4, "step": 5, "grade": 200, "start": 0}[place]
    assert (episode.score > 0.0) == (place not in ("grade", "start"))
    assert signal.getsignal(number) == before


def test_a_terminated_run_still_ends_its_lines() -> None:
    with model_service() as (_, variables):
        process = subprocess.Popen(
            [sys.executable, "inference.py"],
            cwd=ROOT, env=environment(TASKS="task1,task2", **variables), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        head = [process.stdout.readline() for _ in range(4)]
        process.send_signal(signal.SIGTERM)
        rest, err = process.communicate(timeout=30)
    ran = Ran(process.returncode, "".join(head) + rest, err)
    (episode,) = ran.episodes
    assert (episode.task, episode.success, ran.code) == ("task1", False, 1)
    assert len(episode.steps) >= 3
    assert episode.score > 0.0 or len(episode.steps) < 10
