"""Typed replies of the HTTP API, as the client hands them to its caller.

Fields that a newer server adds are ignored, so that an older client keeps working.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Baseline", "Grade", "Health", "ObsT", "ResetReply", "StepResult", "TaskEntry"]

ObsT = TypeVar("ObsT")
"""Observation model of the environment played."""


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Health(_Reply):
    """GET /health."""

    status: str
    active_sessions: int = 0
    uptime_s: float = 0.0


class TaskEntry(_Reply):
    """One task of GET /tasks."""

    id: str
    name: str
    difficulty: Literal["easy", "medium", "hard"]
    description: str
    active_actions: tuple[str, ...]
    episode_length: int = 0
    aliases: tuple[str, ...] = ()


class Grade(_Reply):
    """POST /grader. ``score`` and each part of ``breakdown`` lie in [0, 1]."""

    score: float
    breakdown: dict[str, float]
    feedback: str
    verified: bool = False
    steps: int = 0
    figures: dict[str, float] = Field(default_factory=dict[str, float])
    passed: bool | None = None
    seed: int | None = None
    config: dict[str, Any] | None = None
    config_hash: str | None = None
    trace_pack: dict[str, str] | None = None
    environment: str | None = None
    environment_version: str | None = None
    engine_version: str | None = None
    standard: bool | None = None
    """Played by a server with the task's own settings; None where no server says what was played."""


class Baseline(_Reply):
    """GET /baseline: the fixed configuration's score on every task, seed 0."""

    model_config = ConfigDict(extra="allow", frozen=True)

    scores: dict[str, float]
    expected_range: dict[str, tuple[float, float] | None] = Field(
        default_factory=dict[str, tuple[float, float] | None]
    )


@dataclass(frozen=True, slots=True)
class ResetReply(Generic[ObsT]):
    """POST /reset: the new session and its first observation."""

    session_id: str
    task_id: str
    seed: int
    episode_length: int
    observation: ObsT


@dataclass(frozen=True, slots=True)
class StepResult(Generic[ObsT]):
    """POST /step: what one simulated second brought."""

    observation: ObsT
    reward: float
    done: bool
    terminated: bool
    truncated: bool
    info: Mapping[str, Any] = field(repr=False)

    @property
    def metrics(self) -> Mapping[str, Any]:
        """The simulator's metrics of this step."""
        return self.info["metrics"]
