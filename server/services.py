"""What all environments of one server share: settings, sessions, grading threads, metrics."""

from __future__ import annotations

import time
from collections.abc import Callable

from server.api.raw import Handler
from server.guard.costs import Costs
from server.operations.metrics import Metrics
from server.operations.settings import Settings
from server.sessions.grading import GradingDesk
from server.sessions.manager import Places, SessionManager

__all__ = ["Services"]


class Services:
    """Made once per application."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.started_s = time.monotonic()
        places = Places(
            settings.max_sessions, settings.max_episodes, settings.client_share, settings.limit_loopback
        )
        self.sessions = SessionManager(places, settings.session_idle_timeout_s)
        self.costs = Costs(settings.cost_limit, settings.limit_loopback)
        self.desk = GradingDesk(self.sessions, self.costs, settings)
        self.fast_lane: dict[tuple[str, str], Handler] = {}
        self.socket_counts: list[Callable[[], int]] = []
        self.metrics = Metrics(self.sessions, self.socket_sessions)

    def socket_sessions(self) -> int:
        """Open WebSocket and MCP sessions of all environments."""
        return sum(count() for count in self.socket_counts)

    def active_sessions(self) -> int:
        """REST episodes kept and WebSocket sessions open."""
        return len(self.sessions) + self.socket_sessions()
