"""Prometheus metrics, in a registry of their own for each application."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from server.sessions.manager import SessionManager

__all__ = ["Metrics"]

_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_METHODS = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "WEBSOCKET"})


class _Sessions(Collector):
    """Numbers that are read from the stores when they are asked for."""

    def __init__(self, sessions: SessionManager, socket_sessions: Callable[[], int]) -> None:
        self._sessions = sessions
        self._socket_sessions = socket_sessions
        self._started_s = time.monotonic()

    def collect(self) -> Iterator[Metric]:
        """Prometheus asks; see its Collector."""
        name, sessions = "inferencegym_{}".format, self._sessions
        yield GaugeMetricFamily(name("sessions_active"), "REST episodes kept.", len(sessions))
        yield GaugeMetricFamily(
            name("sessions_warm"), "Episodes of all transports ready to step.", sessions.warm_count
        )
        yield GaugeMetricFamily(
            name("places_taken"), "Places taken by episodes of all transports.", sessions.places_taken
        )
        yield GaugeMetricFamily(
            name("socket_sessions_active"), "WebSocket and MCP sessions open.", self._socket_sessions()
        )
        yield CounterMetricFamily(name("sessions_started"), "REST episodes started.", sessions.created)
        ended = CounterMetricFamily(name("sessions_ended"), "REST episodes ended.", labels=["reason"])
        for reason, count in sessions.ended.items():
            ended.add_metric([reason], count)
        yield ended
        yield GaugeMetricFamily(
            name("uptime_seconds"), "Seconds since the start.", time.monotonic() - self._started_s
        )


class _Reading(Collector):
    """A count that somebody else keeps."""

    def __init__(self, name: str, description: str, count: Callable[[], float]) -> None:
        self._name, self._description, self._count = name, description, count

    def collect(self) -> Iterator[Metric]:
        """Prometheus asks; see its Collector."""
        yield CounterMetricFamily(self._name, self._description, self._count())


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
        self.registry.register(_Sessions(sessions, socket_sessions))

    def watch_log(self, dropped: Callable[[], int]) -> None:
        """Show how many log lines were dropped."""
        self.registry.register(
            _Reading("inferencegym_log_lines_dropped", "Log lines that could not be written.", dropped)
        )

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
