"""One episode on a server, as the caller steps through it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self

from pydantic import BaseModel

from inferencegym.calls import Call, Calls, Config
from inferencegym.errors import InvalidValueError, SessionNotFoundError
from inferencegym.replies import Grade, ObsT, ResetReply, StepResult

__all__ = ["AsyncSession", "Session", "action_body"]


Action = BaseModel | Mapping[str, Any] | str | int | None
"""An action model, a mapping, or the value of a field that is itself called ``action``."""


def action_body(action: Action, fields: Mapping[str, Any], names: Container[str] = ()) -> dict[str, Any]:
    """The JSON of an action given as a model, a mapping, or keyword fields (which win).

    Where the action model's ``names`` hold a field ``action``, a plain value is that field's:
    ``step(action="scale_up")``. Fields that were not set are left out, so that the server's defaults apply.
    """
    if action is None:
        given: dict[str, Any] = {}
    elif isinstance(action, BaseModel):
        given = action.model_dump(mode="json", exclude_unset=True)
    elif isinstance(action, Mapping):
        given = dict(action)
    elif "action" in names and isinstance(action, str | int):  # pyright: ignore[reportUnnecessaryIsInstance]
        given = {"action": action}
    else:
        raise InvalidValueError("action", action, "an action model, a mapping, or keyword fields")
    return {**given, **fields}


class _Episode(Generic[ObsT]):
    """What both sessions remember of their episode."""

    def __init__(
        self,
        run: Callable[[Call[Any]], Any],
        calls: Calls,
        reply: ResetReply[ObsT],
        config: Config | None,
    ) -> None:
        self._run = run
        self._calls = calls
        self.session_id = reply.session_id
        self.task_id = reply.task_id
        self.seed = reply.seed
        self.episode_length = reply.episode_length
        self.config = config
        self.observation: ObsT = reply.observation
        self.done = False
        self.total_reward = 0.0
        self.log: list[dict[str, Any]] = []
        """What ``grade_log`` takes: {action, reward, metrics, task_id, timestep} of each step; ``action`` is
        what was sent."""

    def _keep(self, action: Mapping[str, Any], result: StepResult[ObsT]) -> StepResult[ObsT]:
        self.observation, self.done = result.observation, result.done
        self.total_reward += result.reward
        self.log.append(
            {
                "action": dict(action),
                "reward": result.reward,
                "metrics": dict(result.info.get("metrics", {})),
                "task_id": self.task_id,
                "timestep": len(self.log) + 1,
            }
        )
        return result

    def __repr__(self) -> str:
        state = "done" if self.done else f"step {len(self.log)} of {self.episode_length}"
        return f"<{type(self).__name__} {self.session_id} {self.task_id} seed {self.seed}: {state}>"


class Session(_Episode[ObsT]):
    """Returned by ``InferenceGymClient.reset``; holds the newest ``observation``, ``done`` and ``log``."""

    def step(self, action: Action = None, **fields: Any) -> StepResult[ObsT]:
        """Play one step: ``step(ServeAction(batch_size=64))``, ``step({"batch_size": 64})`` or
        ``step(batch_size=64)``. Fields left out take their defaults. Where a field is called ``action``,
        ``step(action="scale_up")`` sets it.

        Raises:
            InvalidValueError: a field outside what it allows; nothing was changed.
            EpisodeDoneError: the episode is over.
            SessionNotFoundError: the server has evicted the session.
            ServerUnavailableError: the answer was lost; the step may have been counted.
        """
        body = action_body(action, fields, self._calls.action_fields)
        return self._keep(body, self._run(self._calls.step(self.session_id, body)))

    def state(self) -> Any:
        """The episode's metadata, as the environment's state model."""
        return self._run(self._calls.state(self.session_id))

    def grade(self) -> Grade:
        """Grade the server's own record of this episode."""
        return self._run(self._calls.grade_session(self.session_id))

    def close(self) -> None:
        """End the episode on the server, which frees its place there; no harm if it has ended."""
        with suppress(SessionNotFoundError):
            self._run(self._calls.delete(self.session_id))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncSession(_Episode[ObsT]):
    """Returned by ``AsyncInferenceGymClient.reset``; see :class:`Session`."""

    async def step(self, action: Action = None, **fields: Any) -> StepResult[ObsT]:
        """See :meth:`Session.step`."""
        body = action_body(action, fields, self._calls.action_fields)
        answer: Awaitable[StepResult[ObsT]] = self._run(self._calls.step(self.session_id, body))
        return self._keep(body, await answer)

    async def state(self) -> Any:
        """See :meth:`Session.state`."""
        return await self._run(self._calls.state(self.session_id))

    async def grade(self) -> Grade:
        """See :meth:`Session.grade`."""
        return await self._run(self._calls.grade_session(self.session_id))

    async def close(self) -> None:
        """See :meth:`Session.close`."""
        with suppress(SessionNotFoundError):
            await self._run(self._calls.delete(self.session_id))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
