"""Typed blocking HTTP client of an InferenceGym server.

Example::

    from inferencegym import InferenceGymClient

    with InferenceGymClient("http://127.0.0.1:7860") as client:
        session = client.reset("task1", seed=0)
        while not session.done:
            result = session.step(batch_size=64)
        print(session.grade().score)

It waits for a server that is starting or a Space that is waking, sends again only what may be sent twice (a
step never, once a byte of it has left), and raises the server's errors as the exceptions of
:mod:`inferencegym.errors`. :mod:`inferencegym.async_client` is the same, awaited.
"""

from __future__ import annotations

import time
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
from inferencegym.session import Session
from inferencegym.wire import Outcome, Pause, exchange

__all__ = ["InferenceGymClient", "Session"]

T = TypeVar("T")


class InferenceGymClient(Generic[ObsT]):
    """Blocking client.

    Args:
        base_url: address of the server; default ``INFERENCEGYM_URL``, else http://127.0.0.1:7860.
        env: id or short name of the environment, for example "routing"; picks its path on the server and its
            models.
        transport: an httpx transport, for tests and special networks.
        options: see :class:`~inferencegym.connection.ClientOptions`.
    """

    @overload
    def __init__(
        self: InferenceGymClient[ServeObservation],
        base_url: str | None = None,
        env: Literal["serving"] = "serving",
        *,
        transport: httpx.BaseTransport | None = None,
        **options: Unpack[ClientOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: InferenceGymClient[Any],
        base_url: str | None = None,
        env: str = ...,
        *,
        transport: httpx.BaseTransport | None = None,
        **options: Unpack[ClientOptions],
    ) -> None: ...

    def __init__(
        self,
        base_url: str | None = None,
        env: str = "serving",
        *,
        transport: httpx.BaseTransport | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._link = Connection.create(base_url, env, options)
        self._started: dict[str, None] = {}
        self._http = httpx.Client(**self._link.http_options, transport=transport)

    @property
    def base_url(self) -> str:
        """Address of the server, without a trailing slash."""
        return self._link.base_url

    def close(self) -> None:
        """End the sessions that this client started, which frees their places on the server, and close the
        connections. A server that does not answer at once is not waited for."""
        if not self._http.is_closed:
            for session_id in self._started:
                call = self._link.calls.delete(session_id)
                try:
                    self._http.request(call.method, call.path, timeout=GOODBYE_S)
                except httpx.TransportError:
                    break
        self._started.clear()
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def health(self) -> Health:
        """Is the server up?"""
        return self._run(self._link.calls.health())

    def tasks(self, *, everything: bool = False) -> list[TaskEntry]:
        """The environment's tasks, in order of difficulty; with ``everything`` those beyond the usual too."""
        return self._run(self._link.calls.tasks(everything))

    def info(self) -> dict[str, Any]:
        """Schemas, reward weights, provenance of the trace pack, versions."""
        return self._run(self._link.calls.info())

    def baseline(self) -> Baseline:
        """Scores of the fixed configuration, seed 0."""
        return self._run(self._link.calls.baseline())

    def reset(
        self,
        task_id: TaskName | None = None,
        seed: int = 42,
        *,
        episode_id: str | None = None,
        config: Config | None = None,
    ) -> Session[ObsT]:
        """Start an episode in a new session on the server; without ``task_id`` its first task.

        Raises:
            UnknownNameError: no such task.
            InvalidValueError: seed, episode_id or config outside what is allowed.
            ServerUnavailableError: no server answered in time.
        """
        reply = self._run(self._link.calls.reset(task_id, seed, episode_id, config))
        self._started[reply.session_id] = None
        if len(self._started) > REMEMBERED:
            del self._started[next(iter(self._started))]
        return Session(self._run, self._link.calls, reply, config)

    def grade_log(self, task_id: TaskName, log: Sequence[Mapping[str, Any]]) -> Grade:
        """Grade a list of /step replies or of their (action, reward, metrics); never ``verified``."""
        return self._run(self._link.calls.grade_log(task_id, log))

    def grade_replay(
        self, task_id: TaskName, seed: int, actions: Actions, config: Config | None = None
    ) -> Grade:
        """Let the server run the episode again from its seed and actions, and grade that (``verified``)."""
        return self._run(self._link.calls.grade_replay(task_id, seed, actions, config))

    def _run(self, call: Call[T]) -> T:
        flow = exchange(call, self._link.policy)
        outcome: Outcome | None = None
        while True:
            try:
                effect = flow.send(outcome)
            except StopIteration as stop:
                return stop.value
            outcome = self._pause(effect) if isinstance(effect, Pause) else self._send(effect)

    def _pause(self, pause: Pause) -> None:
        time.sleep(pause.seconds)

    def _send(self, call: Call[T]) -> Outcome:
        if self._http.is_closed:
            raise InferenceGymError("This client is closed.", "Make a new one.")
        waits = self._link.waits(call)
        try:
            return self._http.request(
                call.method, call.path, content=call.body, params=call.params, timeout=waits
            )
        except httpx.TransportError as error:
            return error
