"""The same gymnasium environment over a server somewhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack, cast

import httpx
from pydantic import BaseModel

from env.protocols import TaskInfo, task_named
from inferencegym.client import InferenceGymClient, Session
from inferencegym.connection import ClientOptions
from inferencegym.errors import EpisodeNotStartedError, InvalidValueError
from inferencegym.gym.base import CodecEnv
from inferencegym.gym.codec import GymCodec
from inferencegym.gym.registration import codec_of
from inferencegym.registry import TaskName, get_spec

__all__ = ["HTTPGymEnv"]


class HTTPGymEnv(CodecEnv):
    """An environment on an InferenceGym server. Spaces, seeds and numbers are those of the local one.

    Every reset starts a new session; the server evicts the old ones by itself.

    Args:
        base_url: default ``INFERENCEGYM_URL``, else http://127.0.0.1:7860.
        task_id: default the server's first task.
        env_id: id or short name.
        action_mode: "flat", "dict" or "multidiscrete".
        render_mode: None, "ansi" or "rgb_array".
        config: the environment's own settings, for example reward weights.
        codec: default the environment's own.
        transport: an httpx transport, for tests and special networks.
        options: of the client, for example ``wake_timeout_s``.

    Raises:
        ServerUnavailableError: no server answered in time.
        UnknownNameError: the server has no such task; no such environment or option.
        InvalidValueError: an argument outside what is allowed.
    """

    def __init__(
        self,
        base_url: str | None = None,
        task_id: TaskName | None = None,
        env_id: str = "serving",
        action_mode: str = "flat",
        render_mode: str | None = None,
        config: Mapping[str, Any] | None = None,
        codec: GymCodec | None = None,
        transport: httpx.BaseTransport | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        spec = get_spec(env_id)
        self._config = _settings(config)
        self.client: InferenceGymClient[Any] = InferenceGymClient(
            base_url, spec.name, transport=transport, **options
        )
        self.session: Session[Any] | None = None
        try:
            super().__init__(codec or codec_of(spec), self._task(task_id), action_mode, render_mode)
        except BaseException:
            self.client.close()
            raise

    def _task(self, task_id: TaskName | None) -> TaskInfo:
        tasks = {task.id: TaskInfo(**dict(task)) for task in self.client.tasks(everything=True)}
        return next(iter(tasks.values())) if task_id is None else task_named(tasks, task_id)

    def _begin(self, seed: int) -> BaseModel:
        self.session = self.client.reset(self.task.id, seed, config=self._config)
        return self.session.observation

    def _play(self, action: BaseModel) -> tuple[BaseModel, float, bool, bool, dict[str, Any]]:
        if self.session is None:
            raise EpisodeNotStartedError("This episode has not been reset.", "Call reset() first.")
        result = self.session.step(action)
        return result.observation, result.reward, result.terminated, result.truncated, dict(result.info)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


def _settings(config: object) -> dict[str, Any] | None:
    """A copy of the environment's settings; their values are for the server to judge."""
    if config is None:
        return None
    if not isinstance(config, Mapping):
        raise InvalidValueError("config", config, "a mapping of the environment's settings, or None")
    return dict(cast("Mapping[str, Any]", config))
