"""OpenEnv's playground, with an episode for every visitor."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from gradio.context import LocalContext
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State

from server.guard.clients import current_client, visitor_of
from server.openenv.adapter import RegistryEnvironment

__all__ = ["PlaygroundEnvironment"]


class PlaygroundEnvironment(Environment[Action, Observation, State]):
    """Looks like one environment to OpenEnv's interface and hands each visitor's calls to their own.

    Args:
        make: the environment's class.
        most: visitors whose episodes are kept; beyond that the least recently seen loses theirs.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, make: type[RegistryEnvironment], most: int) -> None:
        super().__init__()
        self._make, self._most = make, most
        self._pattern = make()
        self._visitors: OrderedDict[str, RegistryEnvironment] = OrderedDict()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Observation:
        """Start the visitor's episode."""
        return self._mine().reset(seed, episode_id, **kwargs)

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Observation:
        """The same on the event loop, where the visitor is known."""
        return self.reset(seed, episode_id, **kwargs)

    @property
    def step(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The visitor's own ``step``.

        OpenEnv hands what it finds here to a thread, which does not know the visitor any more; so it is
        looked up before.
        """
        return self._mine().step

    @property
    def state(self) -> State:
        """State of the visitor's episode."""
        return self._mine().state

    def forget(self, visitor: str) -> None:
        """Give a visitor's episode up."""
        left = self._visitors.pop(visitor, None)
        if left is not None:
            left.close()

    def get_metadata(self) -> EnvironmentMetadata:
        """Title, description and version of the environment."""
        metadata = self._pattern.get_metadata()
        return metadata.model_copy(update={"name": self._make.bound.spec.title})

    def render_web(self, observation: dict[str, Any]) -> str | None:
        """The environment's drawing of an observation."""
        return self._pattern.render_web(observation)

    def web_actions(self, observation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The environment's one-click actions."""
        return self._pattern.web_actions(observation)

    def _mine(self) -> RegistryEnvironment:
        request = LocalContext.request.get(None)
        current_client.set(visitor_of(request))
        visitor = str(getattr(request, "session_hash", None) or "")
        if visitor not in self._visitors:
            self._visitors[visitor] = self._make()
        self._visitors.move_to_end(visitor)
        if len(self._visitors) > self._most:
            self.forget(next(iter(self._visitors)))
        return self._visitors[visitor]
