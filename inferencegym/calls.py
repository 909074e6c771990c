"""Builds the requests of the HTTP API and knows how to read their answers; does no input or output."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from inferencegym.errors import InvalidValueError
from inferencegym.registry import EnvSpec, TaskName
from inferencegym.replies import Baseline, Grade, Health, ResetReply, StepResult, TaskEntry

__all__ = ["Actions", "Call", "Calls", "Config", "Resend"]

T = TypeVar("T")

Config = Mapping[str, Any] | BaseModel
"""Reward weights at reset, as a mapping or as the environment's config model."""

Actions = Sequence[Mapping[str, Any] | BaseModel]


class Resend(Enum):
    """When the same request may go out again."""

    ALWAYS = "always"
    """It changes nothing: after any failure to get an answer."""
    UNLESS_SEEN = "unless seen"
    """It may go again while only a proxy, and no server of ours, has answered (reset)."""
    UNLESS_SENT = "unless sent"
    """Only when no connection came about, so that not a byte was sent (step)."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, and how to read its answer."""

    method: str
    path: str
    parse: Callable[[Any], T]
    resend: Resend = Resend.ALWAYS
    body: bytes | None = None
    params: Mapping[str, str] | None = None
    slow: bool = False
    """The server works on it for more than an instant: an answer that takes its time is no bad sign."""
    timeout_s: float | None = None
    """Longest wait for the answer when it is another than the client's, seconds."""


class Calls:
    """Builds the requests of one environment; the paths already carry its mount."""

    def __init__(self, spec: EnvSpec) -> None:
        self._mount = spec.mount
        self._observation: type[BaseModel] = spec.part("observation_model")
        self._state: type[BaseModel] = spec.part("state_model")
        action: type[BaseModel] = spec.part("action_model")
        self.action_fields = frozenset(action.model_fields)

    def health(self) -> Call[Health]:
        return self._get("/health", Health.model_validate)

    def tasks(self, everything: bool = False) -> Call[list[TaskEntry]]:
        path = "/tasks?all=true" if everything else "/tasks"
        return self._get(path, lambda data: [TaskEntry.model_validate(task) for task in data["tasks"]])

    def info(self) -> Call[dict[str, Any]]:
        return self._get("/info", dict)

    def baseline(self) -> Call[Baseline]:
        return replace(self._get("/baseline", Baseline.model_validate), slow=True)

    def reset(
        self, task_id: TaskName | None, seed: int, episode_id: str | None, config: Config | None
    ) -> Call[ResetReply[Any]]:
        body: dict[str, Any] = {"seed": seed}
        if task_id is not None:
            body["task_id"] = task_id
        if episode_id is not None:
            body["episode_id"] = episode_id
        if config is not None:
            body["config"] = _plain(config)
        return self._post("/reset", body, self._parse_reset, Resend.UNLESS_SEEN)

    def step(self, session_id: str, action: Mapping[str, Any]) -> Call[StepResult[Any]]:
        body = {"session_id": session_id, "action": action}
        return self._post("/step", body, self._parse_step, Resend.UNLESS_SENT)

    def state(self, session_id: str) -> Call[Any]:
        return Call(
            "GET", f"{self._mount}/state", self._state.model_validate, params={"session_id": session_id}
        )

    def delete(self, session_id: str) -> Call[None]:
        return Call("DELETE", f"{self._mount}/sessions/{session_id}", lambda _data: None)

    def grade_session(self, session_id: str) -> Call[Grade]:
        return self._grade({"session_id": session_id})

    def grade_log(self, task_id: TaskName, log: Sequence[Mapping[str, Any]]) -> Call[Grade]:
        return self._grade({"task_id": task_id, "episode_log": list(log)})

    def grade_replay(
        self,
        task_id: TaskName,
        seed: int,
        actions: Actions,
        config: Config | None,
    ) -> Call[Grade]:
        body: dict[str, Any] = {"task_id": task_id, "seed": seed, "actions": [_plain(a) for a in actions]}
        if config is not None:
            body["config"] = _plain(config)
        return self._grade(body)

    def _grade(self, body: Mapping[str, Any]) -> Call[Grade]:
        return replace(self._post("/grader", body, Grade.model_validate, Resend.ALWAYS), slow=True)

    def _get(self, path: str, parse: Callable[[Any], T]) -> Call[T]:
        return Call("GET", self._mount + path, parse)

    def _post(self, path: str, body: Mapping[str, Any], parse: Callable[[Any], T], resend: Resend) -> Call[T]:
        return Call("POST", self._mount + path, parse, resend, _encode(body))

    def _parse_reset(self, data: Any) -> ResetReply[Any]:
        return ResetReply(
            session_id=str(data["session_id"]),
            task_id=str(data["task_id"]),
            seed=int(data["seed"]),
            episode_length=int(data["episode_length"]),
            observation=self._observation.model_validate(data["observation"]),
        )

    def _parse_step(self, data: Any) -> StepResult[Any]:
        return StepResult(
            observation=self._observation.model_validate(data["observation"]),
            reward=float(data["reward"]),
            done=bool(data["done"]),
            terminated=bool(data.get("terminated", data["done"])),
            truncated=bool(data.get("truncated", False)),
            info=data["info"],
        )


def _plain(value: Mapping[str, Any] | BaseModel) -> dict[str, Any]:
    """A JSON-ready dict of a model's set fields, or of a mapping."""
    return value.model_dump(mode="json", exclude_unset=True) if isinstance(value, BaseModel) else dict(value)


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidValueError("request body", dict(body), f"JSON with finite numbers ({error})") from None
