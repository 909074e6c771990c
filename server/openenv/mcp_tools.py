"""MCP tools of an episode: task, observe, set_knobs, grade. There is none that could start an episode anew.

Who runs an agent makes a session (``openenv/session/create`` at /mcp), resets it over
``/ws?session_id=…``, and hands the agent /mcp with that session id. Tools are generated from the registry's
models, so every environment has them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self, cast

import anyio.to_thread
import orjson
from pydantic import BaseModel

from agents.llm.task_text import action_schema, task_text
from env.protocols import TaskInfo
from inferencegym.errors import (
    EpisodeDoneError,
    EpisodeNotStartedError,
    InferenceGymError,
    InvalidValueError,
    UnknownNameError,
)
from server.api.explain import shown
from server.bound import BoundEnv
from server.guard.clients import current_client
from server.guard.costs import Costs

__all__ = ["TOOL_NAMES", "EpisodeTools", "PlayedEpisode", "Seen", "require_tool"]

TOOL_NAMES = ("task", "observe", "set_knobs", "grade")


class Seen(NamedTuple):
    """What the last reset or step showed."""

    observation: BaseModel
    reward: float | None
    done: bool


class PlayedEpisode(Protocol):
    """What the tools need of a session."""

    bound: ClassVar[BoundEnv]
    costs: ClassVar[Costs]

    @property
    def task(self) -> TaskInfo | None:
        """The task that is played; None before the first reset."""
        ...

    @property
    def seen(self) -> Seen:
        """Raises EpisodeNotStartedError before the first reset."""
        ...

    @property
    def log(self) -> Sequence[Mapping[str, Any]]:
        """The steps so far, as POST /grader takes them."""
        ...

    @property
    def step_count(self) -> int:
        """Steps so far."""
        ...

    def take(self, action: BaseModel) -> Mapping[str, Any]:
        """Advance the episode by one step and return the step's ``info``."""
        ...


@dataclass(frozen=True, slots=True)
class _Tool:
    """A tool as tools/list shows it."""

    name: str
    description: str
    input_schema: dict[str, Any]

    def model_dump(self) -> dict[str, Any]:
        """The tool in MCP's spelling; OpenEnv calls this."""
        return {"name": self.name, "description": self.description, "inputSchema": self.input_schema}


def require_tool(name: object) -> None:
    """Raises UnknownNameError: no such tool."""
    if name not in TOOL_NAMES:
        raise UnknownNameError("tool", name, TOOL_NAMES)


class EpisodeTools:
    """The tools of one session, in the shape of the MCP client that OpenEnv expects an environment to have.

    A client of a real MCP server would pass every call through a task and a stream of its own; here the
    tools run on the event loop, as steps over /ws do.
    """

    def __init__(self, played: PlayedEpisode) -> None:
        self._played = played
        tools = (self._task, self._observe, self._set_knobs, self._grade)
        self._tools: dict[str, Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]] = dict(
            zip(TOOL_NAMES, tools, strict=True)
        )

    # What OpenEnv calls

    def is_connected(self) -> bool:
        """Always: there is nothing to connect to."""
        return True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Nothing to close."""

    async def list_tools(self) -> list[_Tool]:
        """The tools; ``set_knobs`` takes the fields that the session's task opens (all, without a task)."""
        return [
            _Tool(
                "task", "What is asked: task, scoring, steps, and the action fields with bounds.", _NO_FIELDS
            ),
            _Tool("observe", "The newest observation. Looking takes no time.", _NO_FIELDS),
            _Tool(
                "set_knobs",
                "Act for one step and return what it brought: reward, observation, steps left. Fields that "
                "are left out take the defaults that the schema and its descriptions tell.",
                action_schema(self._played.bound.spec, self._played.task),
            ),
            _Tool(
                "grade", "Score of the steps played so far, in [0, 1], and what it is made of.", _NO_FIELDS
            ),
        ]

    async def call_tool(self, name: str, arguments: Any = None) -> dict[str, Any]:
        """Run a tool. What the tool refuses is a result with ``isError``, so that the agent reads why.

        Raises:
            UnknownNameError: no such tool.
        """
        require_tool(name)
        try:
            if arguments is not None and not isinstance(arguments, dict):
                raise InvalidValueError("arguments", shown(arguments), "an object")
            return _result(await self._tools[name](cast("dict[str, Any]", arguments or {})))
        except EpisodeDoneError as error:
            return _refusal(EpisodeDoneError(error.message, _WHAT_IS_LEFT))
        except InferenceGymError as error:
            return _refusal(error)

    # The tools

    async def _task(self, arguments: dict[str, Any]) -> dict[str, Any]:
        _refuse_fields("task", arguments)
        task = self._playing()
        return {
            "task_id": task.id,
            "text": task_text(self._played.bound.spec, task),
            "active_actions": list(task.active_actions),
            "episode_length": task.episode_length,
            "steps_left": self._steps_left(task),
        }

    async def _observe(self, arguments: dict[str, Any]) -> dict[str, Any]:
        _refuse_fields("observe", arguments)
        return self._view(self._playing())

    async def _set_knobs(self, arguments: dict[str, Any]) -> dict[str, Any]:
        task = self._playing()
        action = self._played.bound.parse_action(arguments, "set_knobs")
        info = self._played.take(action)
        return {
            **self._view(task),
            "action": info.get("action", action.model_dump(mode="json")),
            "masked_actions": info["masked_actions"],
            "reward_terms": info["reward_terms"],
        }

    async def _grade(self, arguments: dict[str, Any]) -> dict[str, Any]:
        _refuse_fields("grade", arguments)
        played, task = self._played, self._playing()
        if not played.step_count:
            raise EpisodeNotStartedError("There is no step to grade yet.", "Call set_knobs first.")
        played.costs.charge(current_client.get(), played.step_count)
        grade = await anyio.to_thread.run_sync(
            lambda: played.bound.grader.grade_log(task.id, played.log, verified=True)
        )
        return {
            "score": grade.score,
            "breakdown": grade.breakdown,
            "feedback": grade.feedback,
            "steps": grade.steps,
            "passed": grade.passed,
            "steps_left": self._steps_left(task),
        }

    # Parts

    def _playing(self) -> TaskInfo:
        task = self._played.task
        if task is None:
            raise EpisodeNotStartedError(
                "There is no episode in this session yet.",
                "Whoever runs the agent starts one: openenv/session/create at /mcp, or initialize, whose "
                "reply has the header Mcp-Session-Id; then a reset over /ws?session_id=… with that id.",
            )
        return task

    def _view(self, task: TaskInfo) -> dict[str, Any]:
        seen = self._played.seen
        return {
            "observation": seen.observation.model_dump(
                mode="json", include=set(self._played.bound.observation_model.model_fields)
            ),
            "reward": seen.reward,
            "done": seen.done,
            "steps_left": self._steps_left(task),
        }

    def _steps_left(self, task: TaskInfo) -> int:
        return 0 if self._played.seen.done else task.episode_length - self._played.step_count


_WHAT_IS_LEFT = (
    "No tool starts another: grade tells the score, and whoever runs the agent may start the next episode."
)
"""The environment's own hint is to call reset, which an agent cannot."""

_NO_FIELDS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


def _refuse_fields(tool: str, arguments: Mapping[str, Any]) -> None:
    if arguments:
        raise InvalidValueError(f"{tool}.{next(iter(arguments))}", shown(arguments), "no arguments")


def _result(data: dict[str, Any]) -> dict[str, Any]:
    """A tool's result as MCP has it; ``data`` is where OpenEnv's own client looks."""
    text = orjson.dumps(data).decode()
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": data,
        "isError": False,
        "data": data,
    }


def _refusal(error: InferenceGymError) -> dict[str, Any]:
    detail = {"code": error.code, "message": error.message, "hint": error.hint}
    return {
        "content": [{"type": "text", "text": f"{error.message} {error.hint}".strip()}],
        "structuredContent": {"error": detail},
        "isError": True,
    }
