"""Prometheus metrics, in a registry of their own for each application."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from server.sessions import SessionManager

__all__ = ["Metrics"]

_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_METHODS = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "WEBSOCKET"})


class Metrics:
    """Request counts and latencies by route, and the number of sessions."""

    def __init__(self, sessions: SessionManager, socket_sessions: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "inferencegym_requests",
            "Requests answered.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "inferencegym_request_seconds",
            "Time to answer a request.",
            ("route",),
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        # Looking a child up by its labels costs more than counting: keep the few there are.
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._gauge("sessions_active", "REST episodes kept.", lambda: len(sessions))
        self._gauge("sessions_created", "REST episodes started.", lambda: sessions.created)
        self._gauge("sessions_evicted", "REST episodes evicted.", lambda: sum(sessions.ended.values()))
        self._gauge("socket_sessions_active", "WebSocket and MCP sessions open.", socket_sessions)
        started_s = time.monotonic()
        self._gauge("uptime_seconds", "Seconds since the start.", lambda: time.monotonic() - started_s)

    def _gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        Gauge(f"inferencegym_{name}", text, registry=self.registry).set_function(read)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """One answered request. ``route`` is a route's template, never a client's own text."""
        key = (method, route, status)
        children = self._children.get(key)
        if children is None:
            known = method if method in _METHODS else "OTHER"
            children = (self._requests.labels(known, route, str(status)), self._seconds.labels(route))
            if method in _METHODS:
                self._children[key] = children
        children[0].inc()
        children[1].observe(seconds)

    async def endpoint(self, _request: Request) -> Response:
        """GET /metrics in the text format of Prometheus."""
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)
