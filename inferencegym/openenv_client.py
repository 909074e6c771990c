"""Typed OpenEnv client: one episode after another over a WebSocket (/ws).

Example::

    from inferencegym import InferenceGymEnv, ServeAction

    with InferenceGymEnv("http://127.0.0.1:7860").sync() as env:
        result = env.reset(task_id="task1", seed=0, episode_id="first")
        while not result.done:
            result = env.step(ServeAction(batch_size=64))
        print(env.state().cumulative_reward)

``openenv`` is heavy to import (seconds), so only this module of the client needs it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from pydantic import BaseModel
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.protocol import State

from inferencegym.connection import DEFAULT_URL, resolve_url, wake_time, without_mount
from inferencegym.errors import (
    EpisodeNotStartedError,
    InferenceGymError,
    InvalidValueError,
    ServerUnavailableError,
    SessionNotFoundError,
)
from inferencegym.models.serving import EpisodeState, ServeAction, ServeObservation
from inferencegym.registry import EnvSpec, get_spec
from inferencegym.session import action_body
from inferencegym.token import with_token
from inferencegym.wire import gave_up, pauses

__all__ = ["EnvServerError", "InferenceGymEnv"]


class EnvServerError(InferenceGymError, RuntimeError):
    """The server refused a message; ``code`` is the one of the WebSocket protocol in lower case."""

    code = "env_server_error"


class InferenceGymEnv(EnvClient[ServeAction, ServeObservation, EpisodeState]):
    """OpenEnv client that never plays on an episode it has lost.

    The base class reconnects by itself after a timeout or a dropped connection, and the new connection
    belongs to a fresh environment on the server. Here a step or state after that raises
    ``SessionNotFoundError`` until the next reset.

    Args:
        base_url: http(s) address of the server; default ``INFERENCEGYM_URL``, else http://127.0.0.1:7860.
        env: id or short name of the environment.
        wake_timeout_s: longest wait for a server that does not answer yet, seconds; default as for the REST
            client, 5 for this machine and else 180.
        token: of a server that asks for one; default ``INFERENCEGYM_TOKEN``. It is never shown.
        options: as for ``EnvClient`` (``connect_timeout_s``, ``message_timeout_s``, ``headers``, …).
    """

    def __init__(
        self,
        base_url: str | None = None,
        env: str = "serving",
        *,
        wake_timeout_s: float | None = None,
        token: str | None = None,
        **options: Any,
    ) -> None:
        self.spec: EnvSpec = get_spec(env)
        options["headers"] = with_token(options.get("headers") or {}, token) or None
        self._episode_socket: object | None = None
        self.wake_timeout_s = wake_timeout_s
        wake_time(DEFAULT_URL, wake_timeout_s)
        if base_url is None and options.get("provider") is not None:
            super().__init__(base_url=None, **options)
        else:
            super().__init__(base_url=resolve_url(base_url), **options)

    def _set_base_url(self, base_url: str) -> None:
        super()._set_base_url(without_mount(base_url.rstrip("/"), self.spec) + self.spec.mount)

    def _create_session_client(self) -> EnvClient[Any, Any, Any]:
        child = super()._create_session_client()
        own = cast(InferenceGymEnv, child)
        own.spec, own.wake_timeout_s = self.spec, self.wake_timeout_s
        return child

    async def _connect_async(self) -> EnvClient[Any, Any, Any]:
        """Connect; waits for a server that is starting, as the REST client does.

        Raises ServerUnavailableError: none answered in time, or what did is not one.
        """
        started_s = time.monotonic()
        for pause_s in pauses():
            try:
                return await cast("Any", super())._connect_async()  # noqa: SLF001 (its own)
            except ConnectionError as error:
                waited_s = time.monotonic() - started_s
                if not self._may_try_again(error, waited_s + pause_s):
                    raise _unreachable(error, waited_s) from error
            await asyncio.sleep(pause_s)
        raise AssertionError("pauses never end")

    def _may_try_again(self, error: ConnectionError, waited_s: float) -> bool:
        """A failure has stopped the container of a provider, if there was one; and who says no means it."""
        if self._provider is not None or self.base_url is None or _status_of(error) in range(400, 500):
            return False
        return waited_s <= wake_time(self.base_url, self.wake_timeout_s)

    async def _reset_async(self, **kwargs: Any) -> StepResult[ServeObservation]:
        """Start an episode: ``task_id``, ``seed``, ``episode_id``, ``config``; None means the default."""
        given = {name: value for name, value in kwargs.items() if value is not None}
        config = given.get("config")
        if isinstance(config, BaseModel):
            given["config"] = config.model_dump(exclude_unset=True)
        self._episode_socket = None
        result = await super()._reset_async(**given)
        self._episode_socket = self._ws
        return result

    async def _send_and_receive(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["type"] != "reset":
            self._require_episode(str(message["type"]))
        with suppress(ConnectionClosed):  # a server that refuses a session says why before it closes
            await self._send(message)
        try:
            response = await self._receive()
        except TimeoutError as error:
            raise self._lost(f"no answer within {self._message_timeout:g} s") from error
        except ConnectionClosed as error:
            raise self._lost(f"the connection was closed ({error})") from error
        if response.get("type") == "error":
            raise _server_error(response.get("data") or {})
        return response

    def _require_episode(self, kind: str) -> None:
        """Raise unless the socket in use is the one that the last reset went over."""
        socket = self._episode_socket
        if socket is None:
            if kind == "step":
                raise EpisodeNotStartedError("step before the first reset.", "Call reset() first.")
            return
        ws = self._ws
        alive = ws is not None and ws is socket and ws.state not in (State.CLOSING, State.CLOSED)
        if not (alive and self._ws_loop is asyncio.get_running_loop()):
            raise SessionNotFoundError(
                f"{kind}: the connection of this episode is gone, and its episode with it.",
                "Call reset() to start a new one; the same task and seed begin the same way.",
            )

    def _lost(self, reason: str) -> ServerUnavailableError:
        return ServerUnavailableError(
            f"{self.base_url}: {reason}; this episode cannot go on.",
            "Call reset() to start a new one, or raise message_timeout_s.",
        )

    def _step_payload(self, action: ServeAction | Mapping[str, Any]) -> dict[str, Any]:
        return action_body(action, {})

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ServeObservation]:
        """Typed observation; every other field that the server sent is in ``metadata``."""
        model: type[BaseModel] = self.spec.part("observation_model")
        sent: dict[str, Any] = dict(payload.get("observation") or {})
        rest = {name: value for name, value in sent.items() if name not in model.model_fields}
        own = {name: value for name, value in sent.items() if name in model.model_fields}
        nested: dict[str, Any] = rest.pop("metadata", None) or {}
        outer: dict[str, Any] = payload.get("metadata") or {}
        metadata = {**nested, **rest, **outer}
        observation = cast(ServeObservation, model.model_validate(own))
        return StepResult(observation, payload.get("reward"), bool(payload.get("done")), metadata)

    def _parse_state(self, payload: dict[str, Any]) -> EpisodeState:
        model: type[BaseModel] = self.spec.part("state_model")
        own = {name: value for name, value in payload.items() if name in model.model_fields}
        return cast(EpisodeState, model.model_validate(own))


def _status_of(error: ConnectionError) -> int | None:
    """HTTP status of an answer that was no WebSocket."""
    cause = error.__cause__
    return cause.response.status_code if isinstance(cause, InvalidStatus) else None


def _unreachable(error: ConnectionError, waited_s: float) -> ServerUnavailableError:
    refused = _status_of(error) in range(400, 500)
    hint = "Check the URL (INFERENCEGYM_URL), and the token if the Space is private."
    return ServerUnavailableError(f"{error}.", hint if refused else gave_up(waited_s))


def _server_error(data: Mapping[str, Any]) -> InferenceGymError:
    """The exception for an error frame: ``{"message", "code", "errors"?}``."""
    faults: list[dict[str, Any]] = data.get("errors") or []
    if faults:
        first = faults[0]
        field = ".".join(str(part) for part in first.get("loc", ())) or "message"
        return InvalidValueError(field, first.get("input"), str(first.get("msg", "see /schema")))
    code = str(data.get("code", "")).lower()
    if code == "capacity_reached":
        return ServerUnavailableError(
            str(data.get("message", "server at capacity")), "Close a session or wait."
        )
    error = EnvServerError(str(data.get("message", "unknown error")))
    error.code = code or error.code
    return error
