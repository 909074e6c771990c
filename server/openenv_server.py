"""OpenEnv's server with room of its own for MCP sessions, which no connection holds open."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, cast

from openenv.core.env_server.exceptions import SessionCapacityError
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import ConcurrencyConfig

from server.openenv_adapter import RegistryEnvironment
from server.settings import Settings

__all__ = ["EnvServer", "without_connection"]

without_connection: ContextVar[bool] = ContextVar("without_connection", default=False)
"""Set while a POST /mcp is answered: a session made there outlives the request."""


class EnvServer(HTTPEnvServer):
    """Keeps ``max_sessions`` connections and, counted apart, ``max_sessions`` MCP sessions made by POST.

    One more connection is refused, since its sessions are in use. One more MCP session evicts the least
    recently used one, for a client that never comes back would hold its place until the idle timeout.
    """

    def __init__(self, environment: type[RegistryEnvironment], settings: Settings) -> None:
        self._each = settings.max_sessions
        self._creating = asyncio.Lock()
        self._by_post: set[str] = set()
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            environment,
            environment.models.action,
            environment.models.observation,
            concurrency_config=ConcurrencyConfig(
                # Both kinds together; each kind is counted here.
                max_concurrent_envs=2 * self._each,
                session_timeout=settings.session_idle_timeout_s or None,
            ),
            env_name=environment.bound.spec.name,
            state_cls=environment.models.state,
        )

    @property
    def _living(self) -> Mapping[str, Any]:
        """All sessions by id, oldest first."""
        return vars(self)["_sessions"]

    def knows(self, session_id: str) -> bool:
        """Whether a session lives."""
        return session_id in self._living

    async def open_session(self) -> str:
        """A new session for who sends POST /mcp. Raises SessionCapacityError when all are in use."""
        return (await self._create_session())[0]

    async def _create_session(self) -> tuple[str, Environment[Any, Any, Any]]:
        # One at a time, so that no two take the same place; making an environment is quick.
        async with self._creating:
            by_post = without_connection.get()
            self._by_post &= self._living.keys()
            taken = len(self._by_post) if by_post else len(self._living) - len(self._by_post)
            if taken >= self._each:
                await self._make_room(by_post, taken)
            made = await super()._create_session()  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
            session_id, environment = cast("tuple[str, Any]", made)
            if by_post:
                self._by_post.add(session_id)
        return session_id, environment

    async def _make_room(self, by_post: bool, taken: int) -> None:
        idle = self._by_post - self._session_websocket_attachments if by_post else set[str]()
        if not idle:
            raise SessionCapacityError(active_sessions=taken, max_sessions=self._each)
        order = list(self._living)
        await self._destroy_session(
            min(idle, key=lambda each: (self._session_info[each].last_activity_at, order.index(each)))
        )
