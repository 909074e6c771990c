"""The design's name of Serving's baseline: the default action for ever. Nothing else imports this."""

from __future__ import annotations

from env.serving.tasks import get_task
from grader.serving.grader import GRADER
from inferencegym.models.serving import ServeAction
from inferencegym.registry import TaskName

__all__ = ["BASELINE_ACTION", "run_baseline"]

BASELINE_ACTION = ServeAction()


def run_baseline(task_id: TaskName, seed: int = 0) -> float:
    """Score in [0, 1] of an episode. Raises UnknownNameError: no such task."""
    info = get_task(task_id).info
    actions = [BASELINE_ACTION.model_dump(mode="json")] * info.episode_length
    return GRADER.grade_replay(info.id, seed, actions).score
