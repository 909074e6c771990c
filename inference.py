"""Play tasks of an environment and report every step in the lines that evaluators read.

    python inference.py                                 # deterministic: the reactive rule
    HF_TOKEN=… MODEL_NAME=… python inference.py         # a language model decides

=================================  =======================================================================
variable                           meaning
=================================  =======================================================================
``TASKS``                          tasks with commas between, by id or alias; default: all of the environment
``BASE_SEED``                      seed of every episode; default 42
``HF_TOKEN``, ``OPENAI_API_KEY``   key of a chat service; with one, a language model decides
``API_BASE_URL``, ``MODEL_NAME``   its address and model
``LLM_DECIDE_EVERY``               steps for which a model's answer is kept; default 1
``LLM_TIMEOUT_S``                  longest wait for one answer, seconds; default 30
``INFERENCEGYM_URL``               server to play on; default: the episodes run in this process
``INFERENCE_ENV``                  environment by id or short name; default: that of ``TASKS``, else serving
``INFERENCE_OUTPUT``               file for the same results as JSON, unrounded
=================================  =======================================================================

Standard output holds these lines and nothing else; ``action`` is JSON without spaces, ``error`` is ``null``
or why the rule decided a step in place of the model, ``success`` says that the episode was played to its end
and graded::

    [START] task=… env=… model=…
    [STEP] step=… action=… reward=… done=… error=…
    [END] success=… steps=… score=… rewards=…

Characters of a task or model name that would break a line are printed as ``?``. Whatever happens, also when
the process is asked to end, lines stay whole and every ``[START]`` gets its ``[END]``. Exit status 0 when all
episodes succeeded, 2 for a setting that is refused before anything is played, else 1.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel

from agents.compare.output_files import check_writable
from agents.compare.players import Player, start_player
from agents.llm.api import ChatSettings, has_key
from agents.llm.task_text import find_task, has_task
from agents.registry import get_agent, rule_name
from env.protocols import Agent, listed_tasks, report_of
from inferencegym.client import InferenceGymClient
from inferencegym.errors import InferenceGymError, InvalidValueError
from inferencegym.registry import EnvSpec, all_specs, get_spec

DEFAULT_SEED = 42


@dataclass
class Report:
    """One episode, as INFERENCE_OUTPUT holds it."""

    task: str
    env: str
    model: str
    seed: int
    success: bool = False
    steps: int = 0
    score: float = 0.0
    breakdown: dict[str, float] = field(default_factory=dict[str, float])
    rewards: list[float] = field(default_factory=list[float])
    errors: dict[int, str] = field(default_factory=dict[int, str])
    """By step, why the rule decided it."""
    failure: str | None = None
    """What ended the episode early."""


class Stopped(BaseException):
    """The process was asked to end."""


class Stop:
    """SIGTERM and Ctrl-C, heard only where waiting may take long: a line once begun is printed whole, and a
    step is either played and printed or neither."""

    def __init__(self) -> None:
        self._signal: int | None = None
        self._hearing = False

    @contextmanager
    def taken(self) -> Generator[Self]:
        """Take the signals over for a while."""
        before = {number: signal.signal(number, self._note) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def heard(self, *, again: bool = False) -> Generator[None]:
        """Where a signal, also one from before, raises Stopped; with ``again`` only one from now on."""
        self._hearing = True
        if not again:
            self.check()
        try:
            yield
        finally:
            self._hearing = False

    def check(self) -> None:
        """Raise Stopped when the process was asked to end."""
        if self._signal is not None:
            self._hearing = False
            raise Stopped(f"signal {self._signal}")

    def _note(self, number: int, frame: object) -> None:
        self._signal = number
        if self._hearing:
            self.check()


def run_episode(spec: EnvSpec, report: Report, client: InferenceGymClient[Any] | None, stop: Stop) -> None:
    """Play, print and grade one episode; whatever goes wrong is written into the report."""
    say("START", task=report.task, env=report.env, model=report.model)
    player: Player | None = None
    agent: Agent | None = None
    try:
        with stop.heard():
            agent = get_agent(spec.id, agent_name(spec), report.task, report.seed)
            player = start_player(spec, report.task, report.seed, client)
        agent.reset()
        while not player.done:
            play_step(player, agent, report, stop)
        report.success = True
    except BrokenPipeError:  # nobody reads the lines
        raise
    except (Exception, Stopped) as error:  # noqa: BLE001 (reported; the other episodes go on)
        report.failure = _one_line(error)
        complain(f"{report.task}: stopped after {report.steps} steps: {report.failure}")
    finish(player, report, stop)
    note = "" if agent is None else report_of(agent).note
    if note:
        complain(f"{report.task}: {note}")
    close = getattr(agent, "close", None)
    if close is not None:
        close()


def play_step(player: Player, agent: Agent, report: Report, stop: Stop) -> None:
    """One action of the agent, its line and its entry in the report."""
    with stop.heard():
        action: BaseModel = agent.act(player.observation)
    error: str | None = getattr(agent, "last_error", None)
    reward = player.step(action)
    report.steps += 1
    report.rewards.append(reward)
    if error is not None:
        report.errors[report.steps] = error
    say(
        "STEP",
        step=report.steps,
        action=json.dumps(action.model_dump(mode="json"), separators=(",", ":")),
        reward=_two_decimals(reward),
        done=_flag(player.done),
        error="null" if error is None else error,
    )


def finish(player: Player | None, report: Report, stop: Stop) -> None:
    """Grade what was played and print the episode's last line, also when grading fails or is stopped."""
    try:
        if player is not None and report.steps:
            with stop.heard(again=True):
                report.score, report.breakdown = player.grade()
    except (Exception, Stopped) as error:  # noqa: BLE001 (the last line is owed, whatever went wrong)
        report.success, report.failure = False, report.failure or _one_line(error)
        complain(f"{report.task}: could not be graded: {_one_line(error)}")
    say(
        "END",
        success=_flag(report.success),
        steps=report.steps,
        score=f"{report.score:.3f}",
        rewards=",".join(_two_decimals(reward) for reward in report.rewards),
    )


def agent_name(spec: EnvSpec) -> str:
    """A language model when there is a key for one, else the rule."""
    return "llm" if has_key() and "llm" in spec.part("agents") else rule_name(spec.id)


def model_name(spec: EnvSpec) -> str:
    """What the lines call the player: the language model, or the name of the rule."""
    if agent_name(spec) != "llm":
        return agent_name(spec)
    try:
        return ChatSettings.from_environment().model
    except InferenceGymError:  # each episode reports it
        return "llm"


def chosen_env() -> EnvSpec:
    """INFERENCE_ENV, or the environment that most of TASKS belong to: of several the first, which is serving.

    Raises UnknownNameError: INFERENCE_ENV names none.
    """
    named = os.environ.get("INFERENCE_ENV", "").strip()
    if named:
        return get_spec(named)
    tasks = _named_tasks()
    return max(all_specs(), key=lambda spec: sum(has_task(spec, task) for task in tasks))


def chosen_tasks(spec: EnvSpec) -> list[str]:
    """TASKS by their ids, or all tasks. A task that does not exist fails when it is played, under its own
    lines."""
    tasks: Mapping[str, Any] = spec.part("tasks")
    named = [find_task(spec, task).id if has_task(spec, task) else task for task in _named_tasks()]
    return named or list(listed_tasks(tasks))


def _named_tasks() -> list[str]:
    return [task.strip() for task in os.environ.get("TASKS", "").split(",") if task.strip()]


def base_seed() -> int:
    """BASE_SEED. Raises InvalidValueError for anything but a whole number from 0 up."""
    text = os.environ.get("BASE_SEED", "").strip() or str(DEFAULT_SEED)
    if not (text.isascii() and text.isdecimal()):
        raise InvalidValueError("BASE_SEED", text, "a whole number from 0 up")
    return int(text)


def output_path() -> Path | None:
    """INFERENCE_OUTPUT. Raises InvalidValueError for a file that cannot be written."""
    text = os.environ.get("INFERENCE_OUTPUT", "").strip()
    if not text:
        return None
    check_writable("INFERENCE_OUTPUT", Path(text))
    return Path(text)


def write_output(path: Path | None, reports: Sequence[Report]) -> bool:
    """Write INFERENCE_OUTPUT, if it is set; whether that went well."""
    if path is None:
        return True
    try:
        path.write_text(json.dumps({"episodes": [asdict(report) for report in reports]}, indent=1))
    except OSError as error:
        complain(f"INFERENCE_OUTPUT: {error}")
        return False
    return True


def say(kind: str, **fields: object) -> None:
    """One line of standard output: only an error, which comes last, may hold spaces."""
    words = (f"{name}={_printable(value, spaces=name == 'error')}" for name, value in fields.items())
    print(f"[{kind}]", *words, flush=True)


def complain(message: str) -> None:
    """One line of standard error."""
    print(_printable(message, spaces=True), file=sys.stderr, flush=True)


def _one_line(error: BaseException | str) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _printable(value: object, *, spaces: bool) -> str:
    """A value that cannot break its line, nor fail to be printed."""
    text = _one_line(value) if spaces and isinstance(value, str) else str(value)
    safe = "".join(c if c.isprintable() and (spaces or c != " ") else "?" for c in text)
    encoding = sys.stdout.encoding or "utf-8"
    return safe.encode(encoding, "replace").decode(encoding)


def _two_decimals(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # + 0.0: no "-0.00"


def _flag(value: bool) -> str:
    return "true" if value else "false"


def main() -> int:
    """Play all episodes; returns the exit status."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    try:
        spec, seed = chosen_env(), base_seed()
        output = output_path()
        url = os.environ.get("INFERENCEGYM_URL", "").strip()
        client = InferenceGymClient(url, spec.id) if url else None
    except InferenceGymError as error:
        complain(_one_line(error))
        return 2
    with Stop().taken() as stop:
        reports: list[Report] = []
        try:
            complete = play_all(spec, seed, client, reports, stop)
        finally:
            written = write_output(output, reports)
            if client is not None:
                client.close()
    return 0 if written and complete and all(report.success for report in reports) else 1


def play_all(
    spec: EnvSpec, seed: int, client: InferenceGymClient[Any] | None, reports: list[Report], stop: Stop
) -> bool:
    """Play the chosen tasks, each with its report; False when something ended that before its time."""
    try:
        for task_id in chosen_tasks(spec):
            reports.append(Report(task_id, spec.id, model_name(spec), seed))
            run_episode(spec, reports[-1], client, stop)
            stop.check()
    except Stopped:
        return False
    except BrokenPipeError:
        # Python would complain once more when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
