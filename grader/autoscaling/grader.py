"""Grader of InferenceGym/Autoscaling-v0: deterministic, stateless, trusting only what it replays.

The score is that of :mod:`env.autoscaling.score` over the intervals played, times the share of the episode
that was played. Passed: the whole episode was played and survived, with score and healthy ratio on or above
the task's lines. Scenarios, as tasks or on top of a task, have none: ``passed`` is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from env.autoscaling.episode import make_env, parse_action
from env.autoscaling.score import WEIGHTS, Tally
from env.autoscaling.tasks import AutoscalingTask, get_autoscaling_task
from env.checks import invalid_value
from env.protocols import GradeResult, TaskName
from grader.autoscaling.feedback import feedback_sentence
from grader.log_entries import check_length, check_place, empty_grade, log_part, log_settings
from inferencegym.models.autoscaling import AUTOSCALING_STEPS, MAX_REPLICAS, RATIO_MAX
from inferencegym.models.base import Real, Whole
from simulator.autoscaling.kernel import ERROR_BUDGET, OUTAGE_SHARE
from simulator.autoscaling.plan import HEALTHY_CPU

__all__ = ["GRADER", "AutoscalingGrader"]


class _LoggedMetrics(BaseModel):
    """The metrics that a grade uses, with their bounds."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    latency: Real = Field(ge=0.0, le=RATIO_MAX)
    cpu_steady: Real = Field(ge=0.0, le=RATIO_MAX)
    error_rate: Real = Field(ge=0.0, le=RATIO_MAX)
    replicas_ready: Whole = Field(ge=0, le=4 * MAX_REPLICAS)
    replica_seconds: Real = Field(ge=0.0, le=1e6)
    cheapest_replica_seconds: Real = Field(gt=0.0, le=1e6)
    target_change: Whole = Field(ge=-MAX_REPLICAS, le=MAX_REPLICAS)
    reversal: bool = Field(strict=True)


class AutoscalingGrader:
    """Scores episodes of the autoscaling tasks in [0, 1]."""

    def grade_log(
        self, task_id: TaskName, log: Sequence[Mapping[str, Any]], *, verified: bool = False
    ) -> GradeResult:
        """Grade /step replies, or their ``{action, reward, metrics}``.

        Raises:
            UnknownNameError: no such task.
            InvalidValueError: an entry is malformed, of another task or out of its place (named by index and
                field), or there are more entries than an episode has steps.
        """
        task = get_autoscaling_task(task_id)
        check_length("episode_log", log, AUTOSCALING_STEPS, least=0)
        if not log:
            return empty_grade(WEIGHTS, None if task.line is None else False)
        course = _Course()
        for index, entry in enumerate(log):
            where = f"episode_log[{index}]"
            try:
                metrics = _LoggedMetrics.model_validate(log_part(where, entry, "metrics"))
            except ValidationError as error:
                raise invalid_value(f"{where}.metrics", error, _LoggedMetrics) from None
            check_place(where, entry, task.info.id, index + 1)
            course.add(metrics)
        return course.grade(task, verified, log_settings(log[0]).get("scenario"))

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
        task = get_autoscaling_task(task_id)
        check_length("actions", actions, AUTOSCALING_STEPS)
        parsed = [parse_action(action, f"actions[{index}]") for index, action in enumerate(actions)]
        env = make_env(task_id, seed, config)
        env.reset()
        course = _Course()
        for action in parsed:
            course.add(_LoggedMetrics.model_validate(env.step(action)[3]["metrics"]))
        return course.grade(task, verified=True, scenario=env.scenario)


class _Course:
    """What is summed up over the steps of a log."""

    def __init__(self) -> None:
        self._tally = Tally()
        self._violations = 0

    def add(self, metrics: _LoggedMetrics) -> None:
        """Count a step. Whether it was healthy, or an outage, follows from its ratios."""
        within = metrics.latency <= 1.0 and metrics.error_rate <= 1.0
        self._violations += not within
        # A log's number is rounded once more than the simulator's: half of all requests is half.
        down = metrics.error_rate >= OUTAGE_SHARE / ERROR_BUDGET * (1.0 - 1e-12)
        self._tally.add(
            {
                **dict(metrics),
                "healthy": within and metrics.cpu_steady <= HEALTHY_CPU,
                "outage": down or metrics.replicas_ready == 0,
            }
        )

    def grade(self, task: AutoscalingTask, verified: bool, scenario: object) -> GradeResult:
        """The grade of the steps so far. An incident on top of the task leaves it without a pass line."""
        line = task.line if scenario is None else None
        tally = self._tally
        completed = tally.steps / AUTOSCALING_STEPS
        score = completed * tally.score()
        reached = line is not None and score >= line.score and tally.healthy_ratio >= line.healthy_ratio
        passed = None if line is None else reached and tally.survived and completed == 1.0
        breakdown = {**tally.parts(), "completed": completed}
        figures = {
            **({} if passed is None else {"passed": float(passed)}),
            "healthy_ratio": tally.healthy_ratio,
            "slo_violations": float(self._violations),
            "replica_hours": tally.paid_s / 3600.0,
            "cheapest_replica_hours": tally.cheapest_s / 3600.0,
            "flips": float(tally.flips),
        }
        feedback = feedback_sentence(line, score, passed, tally, breakdown)
        return GradeResult(score, breakdown, feedback, verified, tally.steps, figures, passed=passed)


GRADER = AutoscalingGrader()
"""The registry's grader: stateless, shared."""
