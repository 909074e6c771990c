"""One environment as the server uses it: its parts loaded once, requests validated, episodes started."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import anyio.to_thread
from anyio import CapacityLimiter
from pydantic import BaseModel, TypeAdapter, ValidationError

from env.protocols import Episode, Grader, TaskInfo, listed_tasks, task_named
from inferencegym.registry import EnvSpec, TaskName
from server.api.explain import explain
from server.api.schemas import reset_models, step_models
from server.sessions.episodes import EpisodeStart, StepResult, take_step

__all__ = ["DEFAULT_SEED", "BoundEnv", "reply_parts"]

DEFAULT_SEED = 42

READERS = 1
"""Threads that read what configs name or hold, of an environment: more would only hold up the steps."""


class BoundEnv:
    """An :class:`EnvSpec` with its entry points loaded and its type adapters built."""

    def __init__(self, spec: EnvSpec) -> None:
        self.spec = spec
        self.action_model: type[BaseModel] = spec.part("action_model")
        self.observation_model: type[BaseModel] = spec.part("observation_model")
        self.state_model: type[BaseModel] = spec.part("state_model")
        self.config_model: type[BaseModel] = spec.part("config_model")
        self.tasks: Mapping[str, TaskInfo] = spec.part("tasks")
        self.grader: Grader = spec.part("grader")
        self.first_task = next(iter(self.tasks))
        prefix = spec.name.capitalize()
        self.reset_request, self.reset_reply = reset_models(
            prefix, self.config_model, self.observation_model, self.first_task
        )
        self.step_request, self.step_reply = step_models(prefix, self.action_model, self.observation_model)
        self._reset_adapter = TypeAdapter[Any](self.reset_request)
        self._step_adapter = TypeAdapter[Any](self.step_request)
        self._action_adapter = TypeAdapter[Any](self.action_model)
        self._readers = CapacityLimiter(READERS)

    # Requests. Each parser raises an InferenceGymError that names field, value and allowed range.

    def parse_reset(self, body: bytes) -> EpisodeStart:
        """The body of POST /reset; no body at all means the first task and seed 42."""
        if not body.strip():
            return self.start(None, None, None, None)
        try:
            request = self._reset_adapter.validate_json(body)
        except ValidationError as error:
            raise explain(error, self.reset_request) from None
        return self._from_request(request)

    def parse_reset_fields(self, values: Mapping[str, Any]) -> EpisodeStart:
        """The same for fields that are parsed already (OpenEnv's WebSocket messages)."""
        try:
            request = self._reset_adapter.validate_python(dict(values))
        except ValidationError as error:
            raise explain(error, self.reset_request) from None
        return self._from_request(request)

    def parse_step(self, body: bytes) -> tuple[str, BaseModel]:
        """The body of POST /step: session id and action."""
        try:
            request = self._step_adapter.validate_json(body)
        except ValidationError as error:
            raise explain(error, self.step_request) from None
        return request.session_id, request.action

    def parse_action(self, values: Any, prefix: str = "action") -> BaseModel:
        """An action from parsed JSON; ``prefix`` names it in errors."""
        try:
            return self._action_adapter.validate_python(values)
        except ValidationError as error:
            raise explain(error, self.action_model, prefix) from None

    def parse_actions(self, actions: Iterable[Any]) -> list[dict[str, Any]]:
        """Every action of a replay, with its defaults filled in."""
        return [
            self.parse_action(action, f"actions[{index}]").model_dump(mode="json")
            for index, action in enumerate(actions)
        ]

    def parse_config(self, config: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """A config's fields that were given, validated."""
        if config is None:
            return None
        try:
            model = self.config_model.model_validate(config)
        except ValidationError as error:
            raise explain(error, self.config_model, "config") from None
        return model.model_dump(exclude_unset=True, exclude_none=True)

    def task(self, task_id: TaskName) -> TaskInfo:
        """The task by id or alias; raises UnknownNameError with near matches."""
        return task_named(self.tasks, task_id)

    def _from_request(self, request: Any) -> EpisodeStart:
        config = request.config
        fields = None if config is None else config.model_dump(exclude_unset=True, exclude_none=True)
        return self.start(request.task_id, request.seed, request.episode_id, fields)

    def start(
        self, task_id: str | None, seed: int | None, episode_id: str | None, config: dict[str, Any] | None
    ) -> EpisodeStart:
        """Fill in what was left out. Raises UnknownNameError for a task that does not exist."""
        return EpisodeStart(
            env_id=self.spec.id,
            task_id=self.task(self.first_task if task_id is None else task_id).id,
            seed=DEFAULT_SEED if seed is None else seed,
            episode_id=episode_id or uuid.uuid4().hex,
            config=config or None,
        )

    # Episodes

    def begin(self, start: EpisodeStart) -> tuple[Episode, BaseModel]:
        """A new episode and its first observation."""
        episode: Episode = self.spec.part("make_env")(start.task_id, seed=start.seed, config=start.config)
        return episode, episode.reset()

    async def begin_beside(self, start: EpisodeStart, *, always: bool = False) -> tuple[Episode, BaseModel]:
        """The same without holding up others: what a config names may have to be read from a file first.

        Without a config it takes two milliseconds, less than handing it to a thread is worth, unless it is
        ``always`` to be done beside.
        """
        if start.config is None and not always:
            return self.begin(start)
        return await anyio.to_thread.run_sync(self.begin, start, limiter=self._readers)

    @cached_property
    def reward_terms(self) -> tuple[str, ...]:
        """Names of the reward's terms, learnt by trying the default action once."""
        return tuple(self.trial.info["reward_terms"])

    @cached_property
    def trial(self) -> StepResult:
        """One step of the default action in the first task. Taking it also loads every table."""
        episode, _ = self.begin(self.start(None, None, None, None))
        return take_step(episode, self.action_model())

    # Documents

    def task_list(self, *, everything: bool = False) -> list[dict[str, Any]]:
        """The tasks as GET /tasks and OpenEnv's Task API list them; with ``everything`` the others too."""
        tasks = self.tasks if everything else listed_tasks(self.tasks)
        return [_task_entry(task) for task in tasks.values()]

    def task_meta(self) -> dict[str, Any]:
        """GET /tasks/meta: what all tasks share, and each one's names."""
        return {
            "environment": self.spec.id,
            "version": self.spec.version,
            "count": len(self.tasks),
            "default_task": self.first_task,
            "default_seed": DEFAULT_SEED,
            "reward_range": list(self.spec.reward_range),
            "action_fields": list(self.action_model.model_fields),
            "tasks": [
                {"id": task.id, "aliases": list(task.aliases), "difficulty": task.difficulty}
                for task in self.tasks.values()
            ],
        }

    def task_detail(self, task_id: str) -> dict[str, Any]:
        """GET /tasks/{id}. Raises UnknownNameError with near matches."""
        task = self.task(task_id)
        return {**_task_entry(task), "facts": dict(task.facts)}


def _task_entry(task: TaskInfo) -> dict[str, Any]:
    return {
        "id": task.id,
        "name": task.name,
        "difficulty": task.difficulty,
        "description": task.description,
        "active_actions": list(task.active_actions),
        "episode_length": task.episode_length,
        "aliases": list(task.aliases),
    }


def reply_parts(result: StepResult) -> dict[str, Any]:
    """The fields of a /step reply, in order."""
    return {
        "observation": result.observation,
        "reward": result.reward,
        "done": result.done,
        "terminated": result.terminated,
        "truncated": result.truncated,
        "info": result.info,
    }
