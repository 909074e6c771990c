"""The design's name of Serving's grader; nothing else imports this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grader.serving.grader import GRADER
from inferencegym.registry import TaskName

__all__ = ["GraderModule"]


class GraderModule:
    """See :class:`grader.serving.grader.ServingGrader`."""

    def score(self, task_id: TaskName, episode_log: Sequence[Mapping[str, Any]]) -> float:
        """Score in [0, 1] of a log of /step replies. Raises as ``grade_log``."""
        return GRADER.grade_log(task_id, episode_log).score
