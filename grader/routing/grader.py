"""Grader of InferenceGym/Routing-v0: everything is graded by playing (task, seed, actions) again.

A log's rewards and results are never read. Of each entry only the action counts, and of the first one's
metrics the seed (and the region and start hour of a stream), which say what to play again; a log is
therefore graded as its actions deserve, whatever it claims.

score = (total reward − floor) / (optimum − floor), in [0, 1]. Floor and optimum belong to the very episode:
exact for classic games (:mod:`grader.routing.search`), references for streams
(:mod:`grader.routing.anchors`). A query that was not played counts as the floor's mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from env.checks import SEED_LIMIT, checked_whole
from env.protocols import GradeResult, TaskName
from env.routing.episode import make_env, parse_action
from env.routing.tasks import SUCCESS_SCORE, RoutingTask, get_task
from grader.log_entries import check_length, check_places, empty_grade, log_part
from grader.routing.anchors import Anchors, anchors_of
from inferencegym.errors import InvalidValueError, MissingValueError
from inferencegym.models.routing import REGIONS, RoutingAction
from simulator.routing.classic import CARBON_CAP as CLASSIC_CARBON_CAP
from simulator.routing.kernel import CARBON_CAP, LATENCY_CAP

__all__ = ["GRADER", "RoutingGrader"]

CLASSIC_LATENCY_CAP = 0.8
"""Latency penalty of the slowest decision: a whole cascade."""


@dataclass(frozen=True, slots=True)
class _LoggedStart:
    """What a step's metrics say about the episode that it belongs to; region and hour of streams only."""

    seed: int
    region: str | None = None
    start_hour: int | None = None


class RoutingGrader:
    """Scores episodes of all routing tasks in [0, 1]."""

    def grade_log(
        self, task_id: TaskName, log: Sequence[Mapping[str, Any]], *, verified: bool = False
    ) -> GradeResult:
        """Grade /step replies, or their ``{action, metrics}``, by playing the actions again.

        Raises:
            UnknownNameError: no such task.
            InvalidValueError: a malformed entry (named by index and field), metrics of different episodes, or
                more entries than an episode has steps.
        """
        task = get_task(task_id)
        check_length("episode_log", log, task.info.episode_length, least=0)
        if not log:
            return empty_grade(_ADVICE, passed=False)
        check_places(task.info.id, log)
        starts = [_start(task, index, entry) for index, entry in enumerate(log)]
        for index, start in enumerate(starts):
            if start != starts[0]:
                allowed = f"seed, region and start hour of episode_log[0]: {asdict(starts[0])}"
                raise InvalidValueError(f"episode_log[{index}].metrics", asdict(start), allowed)
        actions = [_action(index, entry) for index, entry in enumerate(log)]
        return _replay(task, starts[0].seed, actions, _config(task, starts[0]), verified)

    def grade_replay(
        self,
        task_id: TaskName,
        seed: int,
        actions: Sequence[Mapping[str, Any]],
        config: Mapping[str, Any] | None = None,
    ) -> GradeResult:
        """Play (task, seed, actions) again and grade what happened: the result is ``verified``.

        Raises as ``grade_log``, and for a bad seed or config.
        """
        task = get_task(task_id)
        check_length("actions", actions, task.info.episode_length)
        parsed = [parse_action(action, f"actions[{index}]") for index, action in enumerate(actions)]
        return _replay(task, seed, parsed, config, verified=True)


GRADER = RoutingGrader()
"""The registry's grader: stateless, shared."""


def _start(task: RoutingTask, index: int, entry: Any) -> _LoggedStart:
    """Raises InvalidValueError when a part is missing: another day would be graded in its place."""
    where = f"episode_log[{index}].metrics"
    metrics = log_part(f"episode_log[{index}]", entry, "metrics")
    needed = ("seed",) if task.stream is None else ("seed", "region", "start_hour")
    for name in needed:
        if name not in metrics:
            raise MissingValueError(f"{where}.{name}", _START[name])
    seed = _whole(f"{where}.seed", metrics["seed"], SEED_LIMIT - 1)
    if task.stream is None:
        return _LoggedStart(seed)
    region = metrics["region"]
    if region not in REGIONS:
        raise InvalidValueError(f"{where}.region", region, _START["region"])
    return _LoggedStart(seed, region, _whole(f"{where}.start_hour", metrics["start_hour"], 23))


_START = {
    "seed": f"a whole number from 0 to {SEED_LIMIT - 1}",
    "region": f"one of {', '.join(REGIONS)}",
    "start_hour": "a whole number from 0 to 23",
}
"""What each part of a start may be, in words."""


def _whole(field: str, value: Any, high: int) -> int:
    """Of a number that a JSON writer may have given a fraction of zero."""
    return checked_whole(
        field, int(value) if isinstance(value, float) and value.is_integer() else value, 0, high
    )


def _action(index: int, entry: Any) -> RoutingAction:
    where = f"episode_log[{index}]"
    return parse_action(dict(log_part(where, entry, "action")), f"{where}.action")


def _config(task: RoutingTask, start: _LoggedStart) -> dict[str, Any] | None:
    """Region and hour of the log, which need not be those that the seed would have drawn."""
    return None if task.stream is None else {"region": start.region, "start_hour": start.start_hour}


def _replay(
    task: RoutingTask,
    seed: int,
    actions: Sequence[RoutingAction],
    config: Mapping[str, Any] | None,
    verified: bool,
) -> GradeResult:
    env = make_env(task.info.id, seed, config)
    env.reset()
    total = 0.0
    steps: list[dict[str, Any]] = []
    for action in actions:
        _, reward, _, info = env.step(action)
        total += reward
        steps.append({**info["metrics"], **info["reward_terms"]})
    anchors = anchors_of(task.info.id, seed, env.config)
    score = score_of(total, len(steps), task.info.episode_length, anchors)
    columns = {name: np.array([step[name] for step in steps], dtype=np.float64) for name in _COLUMNS}
    breakdown = _breakdown(task, columns, len(steps) / task.info.episode_length)
    figures = _figures(task, columns)
    line = SUCCESS_SCORE[task.info.id]
    feedback = _feedback(score, breakdown, line)
    return GradeResult(score, breakdown, feedback, verified, len(steps), figures, passed=_passes(score, line))


def _passes(score: float, line: float) -> bool:
    return score >= line


_COLUMNS = (
    "correct",
    "energy_wh",
    "co2_g",
    "latency_s",
    "late",
    "may_wait",
    "cache_hit",
    "carbon_penalty",
    "latency_penalty",
)


def score_of(total: float, steps: int, length: int, anchors: Anchors) -> float:
    """See the module's docstring."""
    with_rest = total + anchors.floor * (1.0 - steps / length)
    return min(1.0, max(0.0, (with_rest - anchors.floor) / (anchors.optimum - anchors.floor)))


Column = Any


def _breakdown(task: RoutingTask, columns: Mapping[str, Column], completed: float) -> dict[str, float]:
    """Share answered correctly, and how far carbon and latency penalties stay below their caps."""
    carbon_cap = CLASSIC_CARBON_CAP if task.stream is None else CARBON_CAP
    latency_cap = CLASSIC_LATENCY_CAP if task.stream is None else LATENCY_CAP
    return {
        "accuracy": float(columns["correct"].mean()),
        "carbon": _share(1.0 + float(columns["carbon_penalty"].mean()) / carbon_cap),
        "latency": _share(1.0 + float(columns["latency_penalty"].mean()) / latency_cap),
        "completed": completed,
    }


def _figures(task: RoutingTask, columns: Mapping[str, Column]) -> dict[str, float]:
    """Totals in units; latency over the queries that somebody waits for."""
    accuracy = {"accuracy": float(columns["correct"].mean())}
    if task.stream is None:
        latency = float(columns["latency_s"].sum())
        return {
            **accuracy,
            "carbon_units": _sum(columns["co2_g"]),
            "energy_units": _sum(columns["energy_wh"]),
            "latency_units": latency,
        }
    waited_for = columns["latency_s"][columns["may_wait"] == 0.0]
    median, slow = np.percentile(waited_for, (50, 95)) if len(waited_for) else (0.0, 0.0)
    return {
        "co2_g": _sum(columns["co2_g"]),
        "energy_wh": _sum(columns["energy_wh"]),
        **accuracy,
        "latency_p50_s": float(median),
        "latency_p95_s": float(slow),
        "late_share": float(columns["late"].mean()),
        "cache_hit_share": float(columns["cache_hit"].mean()),
    }


def _sum(column: Column) -> float:
    return float(column.sum())


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


_ADVICE = {
    "accuracy": "difficulty_estimate and category_accuracy tell what model it takes; avoid far answers",
    "carbon": "smaller models where they are good enough, hours in which batches are full or power is clean",
    "latency": "somebody waits: avoid dead and overloaded models, long cascades, WAIT without a deadline",
}


def _feedback(score: float, breakdown: Mapping[str, float], line: float) -> str:
    """Where the score stands, and what loses most."""
    verdict = "above" if _passes(score, line) else "below"
    weakest = min(_ADVICE, key=lambda name: breakdown[name])
    return (
        f"Score {score:.3f}, {verdict} the success line of {line}. Weakest: {weakest} "
        f"({breakdown[weakest]:.2f}): {_ADVICE[weakest]}."
    )
