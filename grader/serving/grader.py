"""Grader of InferenceGym/Serving-v0: deterministic, stateless, trusting only what it replays.

A log sent by a client is scored as it stands but never ``verified``; (task, seed, actions) are played again
and their score is. See :mod:`grader.serving.scoring` for the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from env.checks import expected, invalid_value
from env.protocols import GradeResult, TaskName
from env.serving.episode import make_env, parse_action
from env.serving.tasks import ServingTask, get_task
from grader.log_entries import check_length, check_places, empty_grade, log_part, log_settings
from grader.serving.anchors import anchors_of, measured_of
from grader.serving.feedback import feedback_sentence
from grader.serving.scoring import WEIGHTS, StepFigures, score_steps
from inferencegym.errors import InvalidValueError, MissingValueError
from inferencegym.models.base import Model, Real, Whole
from inferencegym.models.serving import BATCH_SIZE_MAX, LATENCY_MS_MAX, MEMORY_GB_MAX, EngineTiming
from simulator.packs.on_offer import pack_name, pack_path
from simulator.serving.timing import ENGINE_TIMINGS
from simulator.serving.traffic.replay import ReplayWorkload

__all__ = ["GRADER", "ServingGrader"]


class _LoggedMetrics(BaseModel):
    """The metrics that grades use, with the bounds of MetricsSnapshot. The defaults are of fields that the
    task's grade does not use: see :data:`_USES`."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    tokens_per_sec: Real = Field(0.0, ge=0.0, le=1e9)
    ttft_p50_ms: Real = Field(0.0, ge=0.0, le=LATENCY_MS_MAX)
    gpu_memory_gb: Real = Field(0.0, ge=0.0, le=MEMORY_GB_MAX)
    cost_per_1k: Real = Field(0.0, ge=0.0, le=1e9)
    slo_violation_rate: Real = Field(0.0, ge=0.0, le=1.0)
    slo_violations: Whole = Field(0, ge=0)
    oom: bool = Field(default=False, strict=True)


_USES = {
    "throughput": "tokens_per_sec",
    "ttft": "ttft_p50_ms",
    "memory": "gpu_memory_gb",
    "slo_compliance": "slo_violation_rate",
    "cost": "cost_per_1k",
}
"""Parts of scores and the metric that each is made of; stability is made of actions."""


class _LoggedAction(BaseModel):
    """The knobs that a grade uses, with the bounds and defaults of ServeAction."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    batch_size: Whole = Field(32, ge=1, le=BATCH_SIZE_MAX)
    kv_budget: Real = Field(1.0, ge=0.1, le=1.0)


class ServingGrader:
    """Scores episodes of the three serving tasks in [0, 1]."""

    def grade_log(
        self, task_id: TaskName, log: Sequence[Mapping[str, Any]], *, verified: bool = False
    ) -> GradeResult:
        """Grade /step replies, or their ``{action, reward, metrics}``.

        Raises:
            UnknownNameError: no such task.
            InvalidValueError: an entry is malformed (named by index and field), or there are more entries
                than an episode has steps.
        """
        task = get_task(task_id)
        check_length("episode_log", log, task.info.episode_length, least=0)
        weights = WEIGHTS[task.info.id]
        if not log:
            return _with_aliases(empty_grade(weights))
        check_places(task.info.id, log)
        steps = [_figures(index, entry, weights) for index, entry in enumerate(log)]
        grade = _grade(task, steps, verified, _settings_of(log[0], task))
        counted = "slo_compliance" in weights and any(not _tells_rate(entry) for entry in log)
        return replace(grade, feedback=f"{grade.feedback} {_COUNTED}") if counted else grade

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
        env = make_env(task_id, seed, config)
        env.reset()
        steps: list[StepFigures] = []
        for action in parsed:
            info = env.step(action)[3]
            entry = {"action": info["action"], "metrics": info["metrics"]}
            steps.append(_figures(len(steps), entry, WEIGHTS[task.info.id]))
        played = _Settings(env.trace_pack, env.engine_timing, isinstance(env.generator, ReplayWorkload))
        return _grade(task, steps, True, played)


GRADER = ServingGrader()
"""The registry's grader: stateless, shared."""


def _figures(index: int, entry: Any, weights: Mapping[str, float]) -> StepFigures:
    """What the grade needs of one log entry: a /step reply, or {action, reward, metrics}.

    ``weights`` names the parts of the grade: what none of them is made of may be missing.
    """
    where = f"episode_log[{index}]"
    metrics = _checked(f"{where}.metrics", _LoggedMetrics, log_part(where, entry, "metrics"))
    given = log_part(where, entry, "action", needed="stability" in weights)
    action = _checked(f"{where}.action", _LoggedAction, given)
    violation_rate = metrics.slo_violation_rate
    for name in (_USES[part] for part in weights if part in _USES):
        if name not in metrics.model_fields_set:
            if name != "slo_violation_rate" or "slo_violations" not in metrics.model_fields_set:
                raise MissingValueError(f"{where}.metrics.{name}", expected(_LoggedMetrics, (name,)))
            violation_rate = float(metrics.slo_violations > 0)  # see _COUNTED
    return StepFigures(
        tokens_per_s=metrics.tokens_per_sec,
        ttft_p50_ms=metrics.ttft_p50_ms,
        memory_gb=metrics.gpu_memory_gb,
        cost_per_1k=metrics.cost_per_1k,
        slo_violation_rate=violation_rate,
        batch_size=action.batch_size,
        kv_budget=action.kv_budget,
        oom=metrics.oom,
    )


def _checked(where: str, model: type[Model], values: Mapping[str, Any]) -> Model:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise invalid_value(where, error, model) from None


_COUNTED = (
    "Where the log has no slo_violation_rate, a second with any slo_violations counts as violated altogether."
)


def _tells_rate(entry: Mapping[str, Any]) -> bool:
    return "slo_violation_rate" in log_part("", entry, "metrics")


class _Settings(NamedTuple):
    """What a grade depends on beside task and steps."""

    pack: str
    timing: EngineTiming
    recorded: bool
    """On recorded traffic, where the task's baseline says nothing."""


def _settings_of(entry: Mapping[str, Any], task: ServingTask) -> _Settings:
    """The settings of a log, as its first entry tells them.

    Without settings they are the defaults of server and task. Settings without a timing are additive: that is
    what they leave out.
    """
    settings = log_settings(entry)
    pack = str(settings["trace_pack"]) if "trace_pack" in settings else pack_name(pack_path())
    if not settings:
        return _Settings(pack, task.engine_timing, recorded=False)
    timing = settings.get("engine_timing", "additive")
    if timing not in ENGINE_TIMINGS:
        raise InvalidValueError("episode_log[0].settings.engine_timing", timing, " or ".join(ENGINE_TIMINGS))
    return _Settings(pack, timing, "traffic" in settings)


def _grade(
    task: ServingTask, steps: Sequence[StepFigures], verified: bool, settings: _Settings
) -> GradeResult:
    pack, timing, recorded = settings
    task_id, length = task.info.id, task.info.episode_length
    score, breakdown = score_steps(task_id, steps, length, anchors_of(pack, task_id, timing))
    baseline = None if recorded else measured_of(pack, task_id, timing)["baseline_score"]
    feedback = feedback_sentence(task_id, score, breakdown, baseline)
    return _with_aliases(GradeResult(score, breakdown, feedback, verified, len(steps)))


_ALIASES = {"slo": "slo_compliance"}


def _with_aliases(grade: GradeResult) -> GradeResult:
    aliases = {name: part for name, part in _ALIASES.items() if part in grade.breakdown}
    further = {name: grade.breakdown[part] for name, part in aliases.items()}
    return replace(grade, breakdown={**grade.breakdown, **further}, aliases=aliases)
