"""Typed asynchronous HTTP client of an InferenceGym server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, Unpack, overload

import httpx

from inferencegym.calls import Actions, Call, Config
from inferencegym.connection import GOODBYE_S, REMEMBERED, ClientOptions, Connection
from inferencegym.errors import InferenceGymError
from inferencegym.models.serving import ServeObservation
from inferencegym.registry import TaskName
from inferencegym.replies import Baseline, Grade, Health, ObsT, TaskEntry
from inferencegym.session import AsyncSession
from inferencegym.wire import Outcome, Pause, exchange

__all__ = ["AsyncInferenceGymClient", "AsyncSession"]

T = TypeVar("T")


class AsyncInferenceGymClient(Generic[ObsT]):
    """Asynchronous client: the same arguments and methods as :class:`InferenceGymClient`, awaited."""

    @overload
    def __init__(
        self: AsyncInferenceGymClient[ServeObservation],
        base_url: str | None = None,
        env: Literal["serving"] = "serving",
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        **options: Unpack[ClientOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: AsyncInferenceGymClient[Any],
        base_url: str | None = None,
        env: str = ...,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        **options: Unpack[ClientOptions],
    ) -> None: ...

    def __init__(
        self,
        base_url: str | None = None,
        env: str = "serving",
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._link = Connection.create(base_url, env, options)
        self._started: dict[str, None] = {}
        self._http = httpx.AsyncClient(**self._link.http_options, transport=transport)

    @property
    def base_url(self) -> str:
        """Address of the server, without a trailing slash."""
        return self._link.base_url

    async def close(self) -> None:
        """End the sessions that this client started, which frees their places on the server, and close the
        connections. A server that does not answer at once is not waited for."""
        if not self._http.is_closed:
            for session_id in self._started:
                call = self._link.calls.delete(session_id)
                try:
                    await self._http.request(call.method, call.path, timeout=GOODBYE_S)
                except httpx.TransportError:
                    break
        self._started.clear()
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def health(self) -> Health:
        """See :meth:`InferenceGymClient.health`."""
        return await self._run(self._link.calls.health())

    async def tasks(self, *, everything: bool = False) -> list[TaskEntry]:
        """See :meth:`InferenceGymClient.tasks`."""
        return await self._run(self._link.calls.tasks(everything))

    async def info(self) -> dict[str, Any]:
        """See :meth:`InferenceGymClient.info`."""
        return await self._run(self._link.calls.info())

    async def baseline(self) -> Baseline:
        """See :meth:`InferenceGymClient.baseline`."""
        return await self._run(self._link.calls.baseline())

    async def reset(
        self,
        task_id: TaskName | None = None,
        seed: int = 42,
        *,
        episode_id: str | None = None,
        config: Config | None = None,
    ) -> AsyncSession[ObsT]:
        """See :meth:`InferenceGymClient.reset`."""
        reply = await self._run(self._link.calls.reset(task_id, seed, episode_id, config))
        self._started[reply.session_id] = None
        if len(self._started) > REMEMBERED:
            del self._started[next(iter(self._started))]
        return AsyncSession(self._run, self._link.calls, reply, config)

    async def grade_log(self, task_id: TaskName, log: Sequence[Mapping[str, Any]]) -> Grade:
        """See :meth:`InferenceGymClient.grade_log`."""
        return await self._run(self._link.calls.grade_log(task_id, log))

    async def grade_replay(
        self, task_id: TaskName, seed: int, actions: Actions, config: Config | None = None
    ) -> Grade:
        """See :meth:`InferenceGymClient.grade_replay`."""
        return await self._run(self._link.calls.grade_replay(task_id, seed, actions, config))

    async def _run(self, call: Call[T]) -> T:
        flow = exchange(call, self._link.policy)
        outcome: Outcome | None = None
        while True:
            try:
                effect = flow.send(outcome)
            except StopIteration as stop:
                return stop.value
            outcome = await (self._pause(effect) if isinstance(effect, Pause) else self._send(effect))

    async def _pause(self, pause: Pause) -> None:
        await asyncio.sleep(pause.seconds)

    async def _send(self, call: Call[T]) -> Outcome:
        if self._http.is_closed:
            raise InferenceGymError("This client is closed.", "Make a new one.")
        waits = self._link.waits(call)
        try:
            return await self._http.request(
                call.method, call.path, content=call.body, params=call.params, timeout=waits
            )
        except httpx.TransportError as error:
            return error
