"""Plays and grades episodes, in this process or on a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agents.llm.task_text import has_task
from agents.registry import get_agent
from env.protocols import Agent, AgentReport, report_of, task_named
from inferencegym.cli.files import LogRecord, ReplayRecord
from inferencegym.errors import InvalidValueError, UnknownNameError
from inferencegym.registry import EnvSpec, TaskName, all_specs, get_spec
from inferencegym.replies import Grade

__all__ = ["OnStep", "PlayedEpisode", "env_of", "grade_record", "play"]

Config = Mapping[str, Any] | None

OnStep = Callable[[int, int, float], None]
"""Gets (steps taken, episode length, total reward so far)."""


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """A finished episode with its grade."""

    env: str
    task_id: str
    seed: int
    agent: str
    total_reward: float
    log: list[dict[str, Any]]
    grade: Grade
    report: AgentReport
    """What the agent tells about it."""
    config: Mapping[str, Any] | None = None
    """What it changed of its task."""


def play(
    spec: EnvSpec,
    task_id: TaskName | None,
    agent_name: str,
    seed: int,
    url: str | None,
    on_step: OnStep,
    config: Mapping[str, Any] | None = None,
) -> PlayedEpisode:
    """Play one episode to its end and grade it.

    Raises:
        UnknownNameError: no such task or agent.
        InvalidValueError: a seed or config outside what is allowed.
        ServerUnavailableError: no server at ``url``.
    """
    tasks: Mapping[str, Any] = spec.part("tasks")
    task_id = task_of_env(spec, next(iter(tasks)) if task_id is None else task_id)
    agent = get_agent(spec.id, agent_name, task_id, seed)
    agent.reset()
    if url is None:
        log, result = _play_here(spec, task_id, seed, config, agent, on_step)
    else:
        log, result = _play_there(spec, task_id, seed, config, agent, url, on_step)
    total = sum(entry["reward"] for entry in log)
    return PlayedEpisode(spec.id, task_id, seed, agent_name, total, log, result, report_of(agent), config)


def _play_here(
    spec: EnvSpec, task_id: str, seed: int, config: Config, agent: Agent, on_step: OnStep
) -> tuple[list[dict[str, Any]], Grade]:
    episode = spec.part("make_env")(task_id, seed, config)
    observation = episode.reset()
    log: list[dict[str, Any]] = []
    total = 0.0
    while not episode.done:
        action = agent.act(observation)
        observation, reward, _, info = episode.step(action)
        log.append({"action": action.model_dump(mode="json"), "reward": reward, "metrics": info["metrics"]})
        total += reward
        on_step(len(log), episode.task.episode_length, total)
    # Replayed rather than taken from this log, so that the grade is a verified one.
    actions = [entry["action"] for entry in log]
    return log, _grade(spec.part("grader").grade_replay(task_id, seed, actions, config))


def _play_there(
    spec: EnvSpec, task_id: str, seed: int, config: Config, agent: Agent, url: str, on_step: OnStep
) -> tuple[list[dict[str, Any]], Grade]:
    from inferencegym.client import InferenceGymClient

    with InferenceGymClient(url, spec.id) as client:
        session = client.reset(task_id, seed, config=config)
        while not session.done:
            session.step(agent.act(session.observation).model_dump(mode="json"))
            on_step(len(session.log), session.episode_length, session.total_reward)
        return session.log, session.grade()


def env_of(record: LogRecord | ReplayRecord, env: str | None) -> EnvSpec:
    """The environment of a file: what it names, else ``env``, else serving.

    Raises:
        UnknownNameError: no such environment.
        InvalidValueError: ``env`` is another than the file's.
    """
    if env is None or record.env is None:
        return get_spec(env or record.env or "serving")
    spec = get_spec(record.env)
    if get_spec(env).id != spec.id:
        raise InvalidValueError("--env", env, f"{spec.id}, which the file names, or nothing")
    return spec


def task_of_env(spec: EnvSpec, task_id: TaskName) -> str:
    """A task's id. Raises UnknownNameError, or InvalidValueError when another environment has the task."""
    try:
        return task_named(spec.part("tasks"), task_id).id
    except UnknownNameError:
        homes = [other.name for other in all_specs() if has_task(other, task_id)]
        if not homes:
            raise
        raise InvalidValueError(
            "task_id", task_id, f"a task of {spec.id}", f"For the task of that name say --env {homes[0]}."
        ) from None


def grade_record(spec: EnvSpec, record: LogRecord | ReplayRecord, url: str | None) -> Grade:
    """Grade a saved record here or on a server.

    Raises:
        UnknownNameError: no such task.
        InvalidValueError: a malformed log or action.
    """
    task_id = task_of_env(spec, record.task_id)
    if url is not None:
        from inferencegym.client import InferenceGymClient

        with InferenceGymClient(url, spec.id) as client:
            if isinstance(record, ReplayRecord):
                return client.grade_replay(task_id, record.seed, record.actions, record.config)
            return client.grade_log(task_id, record.log)
    grader = spec.part("grader")
    if isinstance(record, ReplayRecord):
        return _grade(grader.grade_replay(task_id, record.seed, record.actions, record.config))
    return _grade(grader.grade_log(task_id, record.log))


def _grade(result: Any) -> Grade:
    """The grader's result in the form that the server sends."""
    return Grade(
        score=result.score,
        breakdown=dict(result.breakdown),
        feedback=result.feedback,
        verified=result.verified,
        steps=result.steps,
        figures=dict(result.figures),
        passed=result.passed,
    )
