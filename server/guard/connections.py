"""Who may be connected: open connections are counted, in all and of each address.

A server can only see the address of the socket's other end. Behind a proxy that is the proxy for everybody,
so the proxies of the setting ``forwarded_allow_ips`` have no limit of their own, nor has this machine itself.
The times and sizes of :mod:`server.guard.guarded_http` hold for all.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Protocol

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from inferencegym.errors import InferenceGymError
from server.guard.clients import counted_as
from server.operations.settings import Settings

__all__ = ["ClientFullError", "Connection", "Connections", "ServerFullError", "files_allowed"]

RESERVED_FILES = 128
"""File handles kept free of connections: those of the process itself, and of refusals that are still read."""


class ClientFullError(InferenceGymError):
    """One address holds all the connections it may have."""

    code = "too_many_connections"
    status = 429

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"This address has {limit} connections open, as many as this server allows one client.",
            "Close some, or send requests one after another over one; the operator sets "
            "INFERENCEGYM_MAX_CONNECTIONS_PER_CLIENT.",
        )


class ServerFullError(InferenceGymError):
    """All connections are taken."""

    code = "server_full"
    status = 503

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"All {limit} connections of this server are taken.",
            "Try again soon; the operator sets INFERENCEGYM_MAX_CONNECTIONS.",
        )


class Connection(Protocol):
    """What is known here of an open connection."""

    transport: asyncio.Transport


def files_allowed() -> int | None:
    """Files that this process may open, or None where there is no such limit."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


class Connections(Collector):
    """Every open connection of one server, by its transport: a WebSocket keeps the place of its handshake.

    Args:
        settings: of the server.
        files: that the process may open; None for any number.
    """

    def __init__(self, settings: Settings, files: int | None = None) -> None:
        self.settings = settings
        self.refused: Counter[str] = Counter()
        self.limit = settings.max_connections
        if files is not None:
            self.limit = min(self.limit, max(files - RESERVED_FILES, files // 2))
        self._places: dict[asyncio.BaseTransport, str | None] = {}
        self._of_client: Counter[str] = Counter()
        self._fresh: dict[asyncio.Transport, None] = {}
        self._proxies = _networks(settings.forwarded_allow_ips)
        # Addresses come again and again, and parsing one takes longer than the rest.
        self._client = lru_cache(maxsize=4096)(self._client_of)

    def __len__(self) -> int:
        return len(self._places)

    def enter(self, connection: Connection, address: str | None) -> InferenceGymError | None:
        """Give a new connection a place. Returns why there is none.

        When all are taken, the oldest that never finished a request is cut off: whoever only holds a place
        loses it to whoever uses one.
        """
        client = self._client(address)
        allowed = self.settings.max_connections_per_client
        if client is not None and allowed and self._of_client[client] >= allowed:
            return ClientFullError(allowed)
        if len(self._places) >= self.limit and not self._make_room():
            return ServerFullError(self.limit)
        self._places[connection.transport] = client
        self._fresh[connection.transport] = None
        if client is not None:
            self._of_client[client] += 1
        return None

    def proven(self, connection: Connection) -> None:
        """It has finished a request."""
        self._fresh.pop(connection.transport, None)

    def leave(self, connection: Connection) -> None:
        """It is gone. A second time does nothing."""
        self._fresh.pop(connection.transport, None)
        client = self._places.pop(connection.transport, None)
        if client is None:
            return
        self._of_client[client] -= 1
        if not self._of_client[client]:
            del self._of_client[client]

    def _make_room(self) -> bool:
        oldest = next(iter(self._fresh), None)
        if oldest is None:
            return False
        self.refused["made_room"] += 1
        self.leave(_Gone(oldest))
        oldest.abort()
        return True

    def _client_of(self, address: str | None) -> str | None:
        """What the limit counts: an address, or a network of IPv6; None for who has no limit."""
        try:
            ip = ip_address(address or "")
        except ValueError:  # a socket of this machine
            return None
        if isinstance(ip, IPv6Address):
            ip = ip.ipv4_mapped or ip
        if ip.is_loopback or any(ip in network for network in self._proxies):
            return None
        return counted_as(str(ip))

    def collect(self) -> Iterator[Metric]:
        """Prometheus asks; see its Collector."""
        yield GaugeMetricFamily("inferencegym_connections_open", "Open connections.", len(self))
        refused = CounterMetricFamily(
            "inferencegym_connections_refused", "Connections cut off or refused.", labels=["reason"]
        )
        for reason, count in self.refused.items():
            refused.add_metric([reason], count)
        yield refused


class _Gone:
    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport


def _networks(proxies: str) -> list[IPv4Network | IPv6Network]:
    if proxies == "*":
        return [ip_network("0.0.0.0/0"), ip_network("::/0")]
    return [ip_network(proxy) for proxy in proxies.split(",") if proxy]
