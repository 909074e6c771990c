"""Play tasks of an environment and report every step in the lines that evaluators read.

    python inference.py                                 # deterministic: the reactive rule
    HF_TOKEN=… MODEL_NAME=… python inference.py         # a language model decides

=================================  =======================================================================
variable                           meaning
=================================  =======================================================================
``TASKS``                          task ids with commas between; default: all of the environment
``BASE_SEED``                      seed of every episode; default 42
``HF_TOKEN``, ``OPENAI_API_KEY``   key of a chat service; with one, a language model decides
``API_BASE_URL``, ``MODEL_NAME``   its address and model
``LLM_DECIDE_EVERY``               steps for which a model's answer is kept; default 1
``INFERENCEGYM_URL``               server to play on; default: the episodes run in this process
``INFERENCE_ENV``                  environment by id or short name; default: serving
``INFERENCE_OUTPUT``               file for the same results as JSON, unrounded
=================================  =======================================================================

Standard output holds these lines and nothing else; ``action`` is JSON without spaces, ``error`` is ``null``
or why the rule decided a step in place of the model, ``success`` says that the episode was played to its end
and graded::

    [START] task=… env=… model=…
    [STEP] step=… action=… reward=… done=… error=…
    [END] success=… steps=… score=… rewards=…

Whatever happens, every ``[START]`` gets its ``[END]``. Exit status 0 when all episodes succeeded, else 1.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agents.llm_api import ChatSettings, has_key
from agents.players import Player, start_player
from agents.registry import get_agent, rule_name
from env.protocols import Agent, listed_tasks
from inferencegym.client import InferenceGymClient
from inferencegym.errors import InferenceGymError, InvalidValueError
from inferencegym.registry import EnvSpec, get_spec

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


def run_episode(spec: EnvSpec, report: Report, client: InferenceGymClient[Any] | None) -> None:
    """Play, print and grade one episode; whatever goes wrong is written into the report."""
    say("START", task=report.task, env=report.env, model=report.model)
    player: Player | None = None
    agent: Agent | None = None
    try:
        agent = get_agent(spec.id, agent_name(spec), report.task, report.seed)
        player = start_player(spec, report.task, report.seed, client)
        agent.reset()
        while not player.done:
            play_step(player, agent, report)
        report.success = True
    except (Exception, Stopped, KeyboardInterrupt) as error:
        report.failure = _one_line(error)
        complain(f"{report.task}: stopped after {report.steps} steps: {report.failure}")
        if not isinstance(error, Exception):
            raise
    finally:
        finish(player, report)
        close = getattr(agent, "close", None)
        if close is not None:
            close()


def play_step(player: Player, agent: Agent, report: Report) -> None:
    """One action of the agent, its line and its entry in the report."""
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
        error="null" if error is None else _one_line(error),
    )


def finish(player: Player | None, report: Report) -> None:
    """Grade what was played and print the episode's last line, also when grading fails."""
    try:
        if player is not None and report.steps:
            report.score, report.breakdown = player.grade()
    except Exception as error:  # noqa: BLE001 (the last line is owed, whatever went wrong)
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


def chosen_tasks(spec: EnvSpec) -> list[str]:
    """TASKS, or all tasks. A task that does not exist fails when it is played, under its own lines."""
    named = [task.strip() for task in os.environ.get("TASKS", "").split(",") if task.strip()]
    tasks: Mapping[str, Any] = spec.part("tasks")
    return named or list(listed_tasks(tasks))


def base_seed() -> int:
    """BASE_SEED. Raises InvalidValueError for anything but a whole number from 0 up."""
    text = os.environ.get("BASE_SEED", "").strip() or str(DEFAULT_SEED)
    if not (text.isascii() and text.isdecimal()):
        raise InvalidValueError("BASE_SEED", text, "a whole number from 0 up")
    return int(text)


def write_output(reports: Sequence[Report]) -> None:
    """Write INFERENCE_OUTPUT, if it is set."""
    path = os.environ.get("INFERENCE_OUTPUT", "").strip()
    if not path:
        return
    try:
        Path(path).write_text(json.dumps({"episodes": [asdict(report) for report in reports]}, indent=1))
    except OSError as error:
        complain(f"INFERENCE_OUTPUT: {error}")


def say(kind: str, **fields: object) -> None:
    """One line of standard output."""
    print(f"[{kind}]", *(f"{name}={value}" for name, value in fields.items()), flush=True)


def complain(message: str) -> None:
    """One line of standard error."""
    print(message, file=sys.stderr, flush=True)


def _one_line(error: BaseException | str) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _two_decimals(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # + 0.0: no "-0.00"


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _stop(signum: int, frame: object) -> None:
    raise Stopped(f"signal {signum}")


def main() -> int:
    """Play all episodes; returns the exit status."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    signal.signal(signal.SIGTERM, _stop)
    try:
        spec, seed = get_spec(os.environ.get("INFERENCE_ENV", "").strip() or "serving"), base_seed()
        url = os.environ.get("INFERENCEGYM_URL", "").strip()
        client = InferenceGymClient(url, spec.id) if url else None
    except InferenceGymError as error:
        complain(_one_line(error))
        return 2
    reports: list[Report] = []
    try:
        for task_id in chosen_tasks(spec):
            reports.append(Report(task_id, spec.id, model_name(spec), seed))
            run_episode(spec, reports[-1], client)
    except (Stopped, KeyboardInterrupt):
        return 1
    finally:
        write_output(reports)
        if client is not None:
            client.close()
    return 0 if all(report.success for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
