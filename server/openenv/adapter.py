"""OpenEnv's view of an environment: an Environment class made from its entry in the registry."""

from __future__ import annotations

import html
from typing import Any, ClassVar

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import (
    Action,
    EnvironmentMetadata,
    Observation,
    State,
)
from pydantic import BaseModel

from env.protocols import Episode, TaskInfo
from inferencegym.errors import EpisodeNotStartedError, UnknownNameError
from server.api.errors import RejectedError
from server.bound import BoundEnv
from server.dashboard.views.view import view_of
from server.guard.clients import current_client
from server.guard.costs import RESET_STEPS, Costs
from server.openenv.mcp_tools import EpisodeTools, Seen
from server.openenv.models import RewardRubric, WireModels, first_observation, wire_models, wire_observation
from server.pages.project_text import AUTHOR, readme
from server.sessions.episodes import EpisodeStart, Session, StepResult
from server.sessions.manager import Places, SessionManager

__all__ = ["SPLIT", "RegistryEnvironment", "make_environment"]

SPLIT = "train"
"""The one split of the Task API: every task, playable with any seed."""


class RegistryEnvironment(Environment[Action, Observation, State]):
    """Plays one environment of the registry. Subclasses name it; see :func:`make_environment`.

    ``reset`` takes ``seed``, ``episode_id``, ``task_id`` and ``config`` as POST /reset does, or ``split``
    and ``index`` of the Task API instead of ``task_id``. A reset that is refused leaves the episode as it
    was. Both calls are also async: a step takes microseconds, less than handing it to a thread.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True
    bound: ClassVar[BoundEnv]
    models: ClassVar[WireModels]
    sessions: ClassVar[SessionManager]
    costs: ClassVar[Costs]

    def __init__(self) -> None:
        self._reward_rubric = RewardRubric(self.bound.reward_terms)
        super().__init__(rubric=self._reward_rubric)
        self._session: Session | None = None
        self._seen: Seen | None = None
        self._closed = False
        self.mcp_client = EpisodeTools(self)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Observation:
        """Start an episode and return its first observation (reward None)."""
        start = self._start_of(seed, episode_id, kwargs)
        return self._started_anew(start, *self.bound.begin(start))

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Observation:
        """The same on the event loop."""
        start = self._start_of(seed, episode_id, kwargs)
        episode, observation = await self.bound.begin_beside(start)
        self._refuse_if_closed()  # the connection may have gone meanwhile
        return self._started_anew(start, episode, observation)

    def _start_of(self, seed: int | None, episode_id: str | None, fields: dict[str, Any]) -> EpisodeStart:
        self._refuse_if_closed()
        if "split" in fields or "index" in fields:
            split, index = fields.pop("split", SPLIT), fields.pop("index", 0)
            fields["task_id"] = fields.get("task_id") or self._task_at(split, index)
        start = self.bound.parse_reset_fields({"seed": seed, "episode_id": episode_id, **fields})
        client = current_client.get()
        self.costs.charge(client, RESET_STEPS)
        if start.config is not None:  # a message of a socket, whose length nobody has charged yet
            self.costs.charge_body(client, len(repr(start.config)))
        return start

    def _started_anew(self, start: EpisodeStart, episode: Episode, observation: BaseModel) -> Observation:
        session = self.sessions.create(start, episode, self.bound, current_client.get(), held=True)
        if self._session is not None:
            self.sessions.drop(self._session)
        self._session = session
        self._seen = Seen(observation, None, episode.done)
        self._reset_rubric()
        info = {
            "task_id": start.task_id,
            "seed": start.seed,
            "episode_id": start.episode_id,
            "episode_length": episode.task.episode_length,
        }
        return first_observation(self.models, observation, info)

    def step(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        """Take one step. Raises EpisodeNotStartedError or EpisodeDoneError; nothing is changed then."""
        return self._advance(action)[1]

    async def step_async(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        """The same on the event loop."""
        return self.step(action, timeout_s, **kwargs)

    def _advance(self, action: BaseModel) -> tuple[StepResult, Observation]:
        """One step, written down for the grade: what it gave, and the same as OpenEnv sends it."""
        self._refuse_if_closed()
        session = self._started()
        self.sessions.touch(session)
        result = session.step(action)
        observation = wire_observation(self.models, result)
        self._reward_rubric.score(action, observation)
        self._seen = Seen(result.observation, result.reward, result.done)
        return result, observation

    # MCP tools (server.openenv.mcp_tools.PlayedEpisode)

    @property
    def task(self) -> TaskInfo | None:
        """The task that is played."""
        return None if self._session is None else self._session.task

    @property
    def log(self) -> list[dict[str, Any]]:
        """The steps so far, as POST /grader takes them."""
        return [] if self._session is None else self._session.log_copy()

    @property
    def is_playing(self) -> bool:
        """Whether an episode goes on here that would be lost with this session."""
        return self._session is not None and not self._session.finished

    @property
    def step_count(self) -> int:
        """Steps so far."""
        return 0 if self._session is None else self._session.steps

    @property
    def seen(self) -> Seen:
        """What the last reset or step showed."""
        self._started()
        assert self._seen is not None
        return self._seen

    def take(self, action: BaseModel) -> dict[str, Any]:
        """One step; returns its info."""
        return self._advance(action)[0].info

    @property
    def state(self) -> State:
        """The episode's metadata, under the episode_id given at reset."""
        state = self._started().state()
        # OpenEnv's session has an id of its own, which its client knows.
        return self.models.state.model_validate({**state, "session_id": ""})

    def close(self) -> None:
        """Give the episode up; OpenEnv calls this when the connection or its idle time ends."""
        if self._session is not None:
            self.sessions.drop(self._session)
        self._session = self._seen = None
        self._closed = True

    def get_metadata(self) -> EnvironmentMetadata:
        """What is told about the environment; the documentation is this server's own."""
        spec = self.bound.spec
        return EnvironmentMetadata(
            name=spec.id,
            description=spec.description,
            version=spec.version,
            readme_content=readme(),
            author=AUTHOR,
            documentation_url=f"{spec.mount}/docs",
        )

    # Task API

    def list_splits(self) -> list[str]:
        """The one split."""
        return [SPLIT]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """All tasks, in order of difficulty."""
        if split != SPLIT:
            raise UnknownNameError("split", split, [SPLIT])
        return self.bound.task_list()

    def num_tasks(self, split: str) -> int:
        """Number of tasks."""
        return len(self.list_tasks(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """One task. Raises IndexError outside 0 to num_tasks - 1."""
        tasks = self.list_tasks(split)
        if not 0 <= index < len(tasks):
            raise IndexError(index)
        return tasks[index]

    def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        """Tasks of a slice."""
        return self.list_tasks(split)[start:stop]

    # Web interface

    def render_web(self, observation: dict[str, Any]) -> str | None:
        """A table of the observation's fields, each with its meaning and unit."""
        fields = {**observation.get("observation", observation)}
        known = self.bound.observation_model.model_fields
        shown = {name: value for name, value in fields.items() if name in known}
        for name in ("reward", "done"):
            if name in observation:
                shown[name] = observation[name]
        rows = (
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(_short(value))}</td>"
            f"<td>{html.escape((known[name].description if name in known else '') or '')}</td></tr>"
            for name, value in shown.items()
        )
        return f"<table>{''.join(rows)}</table>"

    def web_actions(self, observation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The default action and those that the environment's view names; the form offers the rest."""
        return [
            ("Defaults", self.bound.action_model().model_dump(mode="json")),
            *((label, dict(action)) for label, action in view_of(self.bound.spec).actions),
        ]

    def _task_at(self, split: Any, index: Any) -> str:
        count = self.num_tasks(split)
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
            raise RejectedError(f"index: must be a whole number from 0 to {count - 1}.")
        return self.get_task(split, index)["id"]

    def _started(self) -> Session:
        if self._session is None:
            raise EpisodeNotStartedError("There is no episode yet.", "Send a reset first.")
        return self._session

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise EpisodeNotStartedError(
                "This session has ended, for example after its idle time.", "Connect again and reset."
            )


def _short(value: Any) -> str:
    """A number with the digits that tell something, anything else as it is."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def make_environment(
    bound: BoundEnv, sessions: SessionManager | None = None, costs: Costs | None = None
) -> type[RegistryEnvironment]:
    """The Environment class of one environment.

    Args:
        bound: the environment.
        sessions: keeps the episodes; by default one of its own.
        costs: charges for resets and gradings; by default nobody is charged.
    """
    return type(
        f"{bound.spec.name.capitalize()}Environment",
        (RegistryEnvironment,),
        {
            "bound": bound,
            "models": wire_models(bound),
            "sessions": sessions or SessionManager(Places(warm=50)),
            "costs": costs or Costs("off"),
            "__doc__": bound.spec.description,
        },
    )
