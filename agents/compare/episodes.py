"""Plays whole episodes of any environment, one after another or in several processes.

Every episode starts from nothing but (environment, task, agent, seed): a new agent and a new environment, so
that results do not depend on who played before, or in which process.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any

from agents.registry import get_agent
from env.protocols import Agent, Episode, Grader, logged_step, report_of
from inferencegym.errors import InferenceGymError
from inferencegym.registry import EnvSpec, all_specs, register

__all__ = ["EpisodeResult", "Job", "cpu_count", "play_all", "play_episode"]


@dataclass(frozen=True, slots=True)
class Job:
    """An episode to be played."""

    task: str
    agent: str
    seed: int
    config: Mapping[str, Any] | None = None
    """What the episode changes of its task."""


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """A finished episode: its grade, the parts of the grade, and the sum of its rewards.

    ``figures`` are those of the grade and of the agent's own report; ``note`` is what the agent reports that
    a reader of the score must know.
    """

    task: str
    agent: str
    seed: int
    score: float
    reward: float
    steps: int
    components: dict[str, float]
    figures: dict[str, float] = field(default_factory=dict[str, float])
    note: str = ""


def play_episode(spec: EnvSpec, job: Job, agent: Agent | None = None) -> EpisodeResult:
    """Play and grade one episode in this process; ``agent`` plays instead of the one that the job names.

    Raises:
        UnknownNameError: no such task or agent.
        InferenceGymError: the agent lacks something, for example a key or trained parameters.
    """
    agent = agent or get_agent(spec.id, job.agent, job.task, job.seed)
    episode: Episode = spec.part("make_env")(job.task, job.seed, job.config)
    grader: Grader = spec.part("grader")
    observation = episode.reset()
    agent.reset()
    log: list[dict[str, Any]] = []
    total = 0.0
    while not episode.done:
        action = agent.act(observation)
        observation, reward, done, info = episode.step(action)
        total += reward
        log.append(logged_step(action, reward, done, info))
    grade = grader.grade_log(job.task, log)
    report = report_of(agent)
    return EpisodeResult(
        job.task,
        job.agent,
        job.seed,
        grade.score,
        total,
        grade.steps,
        grade.parts,
        {**grade.figures, **report.figures},
        report.note,
    )


def play_all(
    spec: EnvSpec, jobs: Sequence[Job], workers: int = 1, on_episode: Callable[[], None] = lambda: None
) -> list[EpisodeResult]:
    """Play ``jobs``; results come in their order, equal for any number of ``workers``.

    With more than one worker a program must guard its start by ``if __name__ == "__main__"``, because every
    worker imports it. ``on_episode`` is called after each episode.

    Raises as ``play_episode``; the first failure ends the rest.
    """
    if min(workers, len(jobs)) <= 1:
        results: list[EpisodeResult] = []
        for job in jobs:
            results.append(play_episode(spec, job))
            on_episode()
        return results
    return list(_play_in_processes(spec, jobs, min(workers, len(jobs)), on_episode))


def _play_in_processes(
    spec: EnvSpec, jobs: Sequence[Job], workers: int, on_episode: Callable[[], None]
) -> Iterator[EpisodeResult]:
    # Started afresh rather than forked: a fork copies locks that other threads hold.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _start_worker, (spec,))
    try:
        futures: list[Future[EpisodeResult | _Failure]] = [pool.submit(_work, spec, job) for job in jobs]
        for future in as_completed(futures):
            outcome = future.result()
            if isinstance(outcome, _Failure):
                raise InferenceGymError(outcome.message, outcome.hint)
            on_episode()
        for future in futures:
            outcome = future.result()
            assert isinstance(outcome, EpisodeResult)
            yield outcome
    except BrokenProcessPool:
        raise InferenceGymError(
            "A worker process died.", "Was it out of memory? Try fewer workers."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Failure:
    """An error on its way between processes: exceptions with their own arguments cannot be pickled."""

    message: str
    hint: str


def _start_worker(spec: EnvSpec) -> None:
    # The terminal sends Ctrl-C to all processes; the first one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    # One process a core: threads of numerical libraries would only get in each other's way.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if spec not in all_specs():
        register(spec)


def _end_with_parent() -> None:
    """A parent that is killed cannot end its workers, and they would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(spec: EnvSpec, job: Job) -> EpisodeResult | _Failure:
    try:
        return play_episode(spec, job)
    except InferenceGymError as error:
        return _Failure(f"{job.agent} on {job.task}, seed {job.seed}: {error.message}", error.hint)


def cpu_count() -> int:
    """CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
