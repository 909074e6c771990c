"""Requests and replies of the REST endpoints. What depends on an environment is built from its models."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictStr,
    WithJsonSchema,
    create_model,
)

__all__ = [
    "SEED_LIMIT",
    "BaselineReply",
    "DeletedReply",
    "ErrorReply",
    "GradeByLog",
    "GradeByReplay",
    "GradeBySession",
    "GradeReply",
    "GradeRequest",
    "HealthReply",
    "InfoReply",
    "Strict",
    "TaskDetailReply",
    "TaskId",
    "TasksMetaReply",
    "TasksReply",
    "reset_models",
    "step_models",
]

SEED_LIMIT = 2**63
"""Seeds lie below this: they fit a signed 64-bit integer in every client language."""
EPISODE_ID_MAX_CHARS = 255
TASK_ID_MAX_CHARS = 200
TASK_NUMBER_MAX = 1000
"""No environment numbers that many tasks."""


def _whole(value: Any) -> Any:
    """Let 42.0 pass as 42, since JSON writers differ; refuse booleans, text and fractions."""
    if isinstance(value, bool | str):
        raise ValueError("must be a whole number, not a boolean or text")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


Seed = Annotated[
    int, Field(ge=0, le=SEED_LIMIT - 1, description="Seed of the episode."), BeforeValidator(_whole)
]


def _task_name(value: Any) -> Any:
    """A task's number as the text that it stands for."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if whole and 0 <= value <= TASK_NUMBER_MAX else value


TaskId = Annotated[
    StrictStr,
    Field(max_length=TASK_ID_MAX_CHARS),
    BeforeValidator(_task_name),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "maxLength": TASK_ID_MAX_CHARS},
                {"type": "integer", "minimum": 0, "maximum": TASK_NUMBER_MAX},
            ],
            "description": "A task of GET /tasks, by id or alias: task1, 1 and easy are the same one.",
        }
    ),
]
"""A task as clients name it; ``BoundEnv.task`` finds it."""

SessionId = Annotated[StrictStr, Field(max_length=200, description="As POST /reset gave it.")]
EpisodeId = Annotated[
    StrictStr,
    Field(
        min_length=1,
        max_length=EPISODE_ID_MAX_CHARS,
        description="Your own label of the episode, shown in its state. It need not be unique.",
    ),
]


class Strict(BaseModel):
    """Base of requests: unknown fields and numbers that are not finite are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ErrorDetail(BaseModel):
    """What went wrong: ``code`` is for programs, ``message`` for people, ``hint`` says how to go on."""

    code: str
    message: str
    hint: str


class ErrorReply(BaseModel):
    """Every error of every endpoint looks like this."""

    error: ErrorDetail


class HealthReply(BaseModel):
    """The server is up."""

    status: str = Field(description='Always "healthy".')
    active_sessions: int = Field(ge=0, description="REST episodes and WebSocket sessions that are kept now.")
    uptime_s: float = Field(ge=0)
    version: str


class TaskReply(BaseModel):
    """One task."""

    id: str
    name: str
    difficulty: str
    description: str
    active_actions: list[str] = Field(description="Action fields that have an effect in this task.")
    episode_length: int
    aliases: list[str] = Field(description="Further names that stand for its id, in any case.")


class TasksReply(BaseModel):
    """All tasks, in order of difficulty."""

    tasks: list[TaskReply]


class TaskDetailReply(TaskReply):
    """One task with everything about it."""

    facts: dict[str, Any] = Field(description="What is known about the task, such as a success line.")


class TaskNames(BaseModel):
    """How a task may be called."""

    id: str
    aliases: list[str]
    difficulty: str


class TasksMetaReply(BaseModel):
    """What the tasks of an environment have in common."""

    environment: str
    version: str
    count: int
    default_task: str
    default_seed: int
    reward_range: list[float] = Field(description="Smallest and largest reward of a step.")
    action_fields: list[str]
    tasks: list[TaskNames]


class InfoReply(BaseModel):
    """Schemas, versions and what the environment tells about itself."""

    model_config = ConfigDict(extra="allow")

    id: str
    title: str
    description: str
    version: str
    action_schema: dict[str, Any]
    observation_schema: dict[str, Any]
    state_schema: dict[str, Any]
    config_schema: dict[str, Any]
    versions: dict[str, str]


class GradeByLog(Strict):
    """Grade a log that the caller kept. It cannot be checked, so the grade is not verified."""

    task_id: TaskId
    episode_log: list[dict[str, Any]] = Field(
        description="The /step replies of the episode, or {action, reward, metrics} of each."
    )


class GradeBySession(Strict):
    """Grade the server's own record of an episode, finished or not."""

    session_id: SessionId


class GradeByReplay(Strict):
    """Play the episode again from its seed and actions, and grade what happened."""

    task_id: TaskId
    seed: Seed
    actions: list[dict[str, Any]] = Field(description="One action a step, from the first step on.")
    config: dict[str, Any] | None = None


GradeRequest = GradeByLog | GradeBySession | GradeByReplay


class GradeReply(BaseModel):
    """A grade. ``verified`` is true only for what the server itself recorded or replayed."""

    task_id: str
    score: float = Field(ge=0, le=1)
    breakdown: dict[str, float]
    feedback: str
    verified: bool
    steps: int = Field(ge=0)
    figures: dict[str, float] = Field(description="What the episode amounted to, in units.")
    passed: bool | None = Field(description="Whether it passed its task's lines; null where there are none.")
    seed: int | None = Field(description="Seed of the episode; null for a log from outside.")
    config: dict[str, Any] | None = Field(description="What the episode changed of its task; {} for nothing.")
    config_hash: str | None = Field(description="SHA-256 of config as JSON with sorted keys.")
    trace_pack: dict[str, str] | None = Field(description="Name and sha256 of the measurements played with.")
    environment: str
    environment_version: str
    engine_version: str
    standard: bool = Field(
        description="Played by the server with the task's own settings: only such grades compare."
    )


class DeletedReply(BaseModel):
    """The session that has ended."""

    session_id: str
    deleted: bool = Field(description="Always true; an unknown session is a 404.")


class BaselineReply(BaseModel):
    """The baseline agent's grade on every task."""

    agent: str
    seed: int
    scores: dict[str, float]
    breakdowns: dict[str, dict[str, float]]
    expected_range: dict[str, list[float] | None] = Field(
        description="Lowest and highest score that a task was designed to leave this agent, or null."
    )


def reset_models(
    name: str, config: type[BaseModel], observation: type[BaseModel], first_task: str
) -> tuple[type[BaseModel], type[BaseModel]]:
    """Request and reply of POST /reset for an environment called ``name`` (used in the models' names)."""
    optional_config: Any = config | None
    request = create_model(
        f"{name}ResetRequest",
        __base__=Strict,
        __doc__="Start an episode. Every field may be left out.",
        task_id=(
            TaskId | None,
            Field(None, description=f"A task of GET /tasks; by default {first_task}."),
        ),
        seed=(Seed | None, Field(None, description="Seed of the episode; by default 42.")),
        episode_id=(EpisodeId | None, Field(None, description="Your own label; need not be unique.")),
        config=(optional_config, Field(None, description="What this episode changes of the task.")),
    )
    reply = create_model(
        f"{name}ResetReply",
        __doc__="A new episode and what the agent sees first.",
        session_id=(str, ...),
        observation=(observation, ...),
        reward=(float | None, Field(None, description="Always null: nothing was done yet.")),
        done=(bool, False),
        episode_length=(int, Field(description="Steps until the episode is done.")),
        task_id=(str, ...),
        seed=(int, ...),
        episode_id=(str, ...),
    )
    return request, reply


def step_models(
    name: str, action: type[BaseModel], observation: type[BaseModel]
) -> tuple[type[BaseModel], type[BaseModel]]:
    """Request and reply of POST /step."""
    request = create_model(
        f"{name}StepRequest",
        __base__=Strict,
        __doc__="Take one step. Action fields left out take their defaults.",
        session_id=(SessionId, ...),
        action=(action, ...),
    )
    reply = create_model(
        f"{name}StepReply",
        __doc__="What the step did.",
        observation=(observation, ...),
        reward=(float, Field(description="The sum of info.reward_terms.")),
        done=(bool, Field(description="terminated or truncated.")),
        terminated=(bool, Field(description="The episode ended by what happened in it.")),
        truncated=(bool, Field(description="The episode ended because its length was reached.")),
        info=(
            dict[str, Any],
            Field(description="timestep, metrics, workload, masked_actions and reward_terms of this step."),
        ),
    )
    return request, reply
