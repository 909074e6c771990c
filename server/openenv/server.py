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

from server.guard.clients import current_client, is_limited
from server.openenv.adapter import RegistryEnvironment
from server.operations.settings import Settings

__all__ = ["EnvServer", "without_connection"]

without_connection: ContextVar[bool] = ContextVar("without_connection", default=False)
"""Set while a POST /mcp is answered: a session made there outlives the request."""


class EnvServer(HTTPEnvServer):
    """Keeps ``max_sockets`` connections and, counted apart, ``max_sockets`` MCP sessions made by POST.

    Of each a client has its share; one more is refused. One more MCP session than there may be evicts the
    least recently used of those that have no episode going on, for a client that never comes back would
    hold its place until the idle timeout.
    """

    def __init__(self, environment: type[RegistryEnvironment], settings: Settings) -> None:
        self._each = settings.max_sockets
        self._share = settings.share_of(self._each)
        self._limit_loopback = settings.limit_loopback
        self._clients: dict[str, str] = {}
        """Who opened each session."""
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
            self._refuse_above_share(by_post)
            taken = len(self._by_post) if by_post else len(self._living) - len(self._by_post)
            if taken >= self._each:
                await self._make_room(by_post, taken)
            made = await super()._create_session()  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
            session_id, environment = cast("tuple[str, Any]", made)
            self._clients[session_id] = current_client.get()
            if by_post:
                self._by_post.add(session_id)
        return session_id, environment

    def _refuse_above_share(self, by_post: bool) -> None:
        """Raises SessionCapacityError: the client has its share of connections, or of MCP sessions."""
        self._clients = {each: client for each, client in self._clients.items() if each in self._living}
        client = current_client.get()
        if not is_limited(client, self._limit_loopback):
            return
        own = sum(
            1 for each, who in self._clients.items() if who == client and (each in self._by_post) == by_post
        )
        if own >= self._share:
            raise SessionCapacityError(active_sessions=own, max_sessions=self._share)

    async def _make_room(self, by_post: bool, taken: int) -> None:
        idle = {
            each
            for each in (self._by_post - self._session_websocket_attachments if by_post else ())
            if not self._living[each].is_playing
        }
        if not idle:
            raise SessionCapacityError(active_sessions=taken, max_sessions=self._each)
        order = list(self._living)
        await self._destroy_session(
            min(idle, key=lambda each: (self._session_info[each].last_activity_at, order.index(each)))
        )
