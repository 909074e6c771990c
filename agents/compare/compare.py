"""Compares agents: the same tasks and seeds for all, means with intervals, differences paired by seed.

Intervals are 95 % confidence intervals of the mean by Student's t over episodes. The difference to the
baseline is taken seed by seed first, so that what a seed does to both of them cancels out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
from scipy.special import stdtrit

from agents.compare.episodes import EpisodeResult, Job, play_all
from agents.llm.task_text import find_task
from agents.registry import agent_names, get_agent
from env.protocols import listed_tasks
from inferencegym.errors import InferenceGymError, InvalidValueError, UnknownNameError
from inferencegym.registry import EnvSpec, get_spec

__all__ = [
    "CONFIDENCE",
    "DEFAULT_SEEDS",
    "AgentSummary",
    "Comparison",
    "Mean",
    "Plan",
    "compare",
    "make_plan",
    "parse_seeds",
    "run_plan",
    "summarise",
]

DEFAULT_SEEDS = tuple(range(100, 120))
"""Held out: neither the calibration nor an agent's training may use them."""

CONFIDENCE = 0.95
ON_REQUEST = frozenset({"llm"})
"""Agents that call a service, which may cost money: they play only when named."""

_MAX_SEEDS = 10_000
_SEED_LIMIT = 2**63


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with half the width of its 95 % interval (None for a single value)."""

    value: float
    half_width: float | None

    @classmethod
    def of(cls, values: Iterable[float]) -> Mean:
        """Mean and t interval of independent values."""
        sample = np.asarray(list(values), dtype=np.float64)
        if sample.size == 1:
            return cls(float(sample[0]), None)
        t = float(stdtrit(sample.size - 1, 0.5 + 0.5 * CONFIDENCE))
        return cls(float(sample.mean()), t * float(sample.std(ddof=1)) / sqrt(sample.size))


@dataclass(frozen=True, slots=True)
class AgentSummary:
    """What an agent reached on a task.

    ``difference``: its score minus the baseline's, None for itself; ``figures``: of the grades and of the
    agent's own reports, in units; ``notes``: what the agent reported, each once with its episodes.
    """

    task: str
    agent: str
    score: Mean
    reward: Mean
    difference: Mean | None
    components: dict[str, float]
    figures: dict[str, Mean] = field(default_factory=dict[str, Mean])
    notes: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Comparison:
    """A finished comparison. ``left_out``: agents that could not play, with the reason; ``config``: what the
    episodes changed of their tasks."""

    env: str
    env_version: str
    baseline: str | None
    seeds: tuple[int, ...]
    summaries: tuple[AgentSummary, ...]
    episodes: tuple[EpisodeResult, ...]
    left_out: dict[str, str]
    config: dict[str, Any] | None = None

    @property
    def tasks(self) -> tuple[str, ...]:
        """Task ids in the order of the rows."""
        return tuple(dict.fromkeys(row.task for row in self.summaries))


@dataclass(frozen=True, slots=True)
class Plan:
    """What a comparison plays."""

    spec: EnvSpec
    agents: tuple[str, ...]
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    baseline: str | None
    left_out: dict[str, str]
    config: Mapping[str, Any] | None = None

    @property
    def jobs(self) -> list[Job]:
        """All episodes, task by task."""
        return [Job(t, a, s, self.config) for t in self.tasks for a in self.agents for s in self.seeds]


def make_plan(
    env: str = "serving",
    agents: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    seeds: Sequence[int] = DEFAULT_SEEDS,
    baseline: str = "baseline",
    config: Mapping[str, Any] | None = None,
) -> Plan:
    """Check all names before anything is played; arguments as for :func:`compare`."""
    spec = get_spec(env)
    known = agent_names(spec.id)
    for name, given in (("agents", agents), ("tasks", tasks)):
        if given is not None and (isinstance(given, str) or not given):
            raise InvalidValueError(name, given, "a list of at least one name, or None for all")
    named = tasks or listed_tasks(spec.part("tasks"))
    chosen_tasks = tuple(dict.fromkeys(find_task(spec, task).id for task in named))
    if config is not None:
        for task in chosen_tasks:
            spec.part("make_env")(task, config=config)
    if baseline not in known and baseline != "baseline":
        raise UnknownNameError("agent", baseline, known)
    reference = baseline if baseline in known else None
    left_out: dict[str, str] = {}
    if agents:
        chosen = list(dict.fromkeys(agents))
        for agent in chosen:
            get_agent(spec.id, agent, chosen_tasks[0])
    else:
        chosen = [name for name in known if name not in ON_REQUEST]
        left_out = _unable(spec, chosen, chosen_tasks[0])
        chosen = [name for name in chosen if name not in left_out]
    if reference is not None and reference not in chosen:
        chosen.insert(0, reference)
    return Plan(spec, tuple(chosen), chosen_tasks, tuple(dict.fromkeys(seeds)), reference, left_out, config)


def _unable(spec: EnvSpec, agents: Iterable[str], task: str) -> dict[str, str]:
    """Agents that lack what they need here (trained parameters, an extra), with the reason."""
    reasons: dict[str, str] = {}
    for agent in agents:
        try:
            get_agent(spec.id, agent, task)
        except InferenceGymError as error:
            reasons[agent] = str(error)
    return reasons


def compare(
    env: str = "serving",
    agents: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    seeds: Sequence[int] = DEFAULT_SEEDS,
    *,
    baseline: str = "baseline",
    config: Mapping[str, Any] | None = None,
    workers: int = 1,
    on_episode: Callable[[], None] = lambda: None,
) -> Comparison:
    """Let agents play tasks on seeds and compare them.

    Args:
        env: id or short name.
        agents: names; None takes all that can play and call no service. The baseline always plays too.
        tasks: ids; None takes all.
        seeds: of episodes and of agents' own draws.
        baseline: agent that differences are taken to.
        config: what the episodes change of their tasks, as at reset; trained agents stay as they are.
        workers: processes; see :func:`agents.compare.episodes.play_all`.
        on_episode: called after each episode.

    Raises:
        UnknownNameError: no such environment, agent or task; lists near matches.
        InferenceGymError: a named agent cannot play.
    """
    return run_plan(make_plan(env, agents, tasks, seeds, baseline, config), workers, on_episode)


def run_plan(plan: Plan, workers: int = 1, on_episode: Callable[[], None] = lambda: None) -> Comparison:
    """Play a checked plan."""
    episodes = play_all(plan.spec, plan.jobs, workers, on_episode)
    return Comparison(
        env=plan.spec.id,
        env_version=plan.spec.version,
        baseline=plan.baseline,
        seeds=plan.seeds,
        summaries=summarise(episodes, plan.baseline),
        episodes=tuple(episodes),
        left_out=plan.left_out,
        config=None if plan.config is None else dict(plan.config),
    )


def summarise(episodes: Sequence[EpisodeResult], baseline: str | None) -> tuple[AgentSummary, ...]:
    """One row for each (task, agent), in the order of the episodes."""
    groups: dict[tuple[str, str], list[EpisodeResult]] = {}
    for episode in episodes:
        groups.setdefault((episode.task, episode.agent), []).append(episode)
    rows: list[AgentSummary] = []
    for (task, agent), group in groups.items():
        reference = groups.get((task, baseline)) if baseline is not None and agent != baseline else None
        names = dict.fromkeys(name for episode in group for name in episode.components)
        rows.append(
            AgentSummary(
                task,
                agent,
                Mean.of(episode.score for episode in group),
                Mean.of(episode.reward for episode in group),
                None if reference is None else _paired(group, reference),
                {name: float(np.mean([e.components.get(name, 0.0) for e in group])) for name in names},
                {name: Mean.of(e.figures[name] for e in group) for name in group[0].figures},
                dict(Counter(episode.note for episode in group if episode.note)),
            )
        )
    return tuple(rows)


def _paired(group: Sequence[EpisodeResult], reference: Sequence[EpisodeResult]) -> Mean:
    scores = {episode.seed: episode.score for episode in reference}
    return Mean.of(episode.score - scores[episode.seed] for episode in group)


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds from ``"100-119"``, ``"3,5,10-12"``, or a count: ``"20"`` is 100-119.

    Raises:
        InvalidValueError: neither, more than 10,000 seeds, or a seed that stands there twice.
    """
    allowed = f"a range like 100-119, a list like 3,5,8-10, or a count from 1 to {_MAX_SEEDS:,}"
    try:
        if text.strip().isdecimal():
            ranges: list[Any] = [range(DEFAULT_SEEDS[0], DEFAULT_SEEDS[0] + int(text))]
        else:
            ranges = [_range(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidValueError("seeds", text, allowed) from None
    total = sum(r.stop - r.start for r in ranges)
    if not 1 <= total <= _MAX_SEEDS or any(r.stop <= r.start or r.stop > _SEED_LIMIT for r in ranges):
        raise InvalidValueError("seeds", text, allowed)
    seeds = [seed for r in ranges for seed in r]
    if len(set(seeds)) < len(seeds):
        raise InvalidValueError("seeds", text, "each seed once")
    return tuple(seeds)


def _range(text: str) -> range:
    first, dash, last = text.strip().partition("-")
    start = int(first)
    return range(start, (int(last) if dash else start) + 1)
