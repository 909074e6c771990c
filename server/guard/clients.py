"""Who a request is from: the address that limits and quotas count by."""

from __future__ import annotations

from contextvars import ContextVar
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any, cast

from starlette.types import Scope

__all__ = [
    "LOCAL",
    "client_of",
    "counted_as",
    "current_client",
    "is_limited",
    "is_loopback",
    "share_of",
    "visitor_of",
]

LOCAL = "local"
"""A request without an address: in this process, or over a Unix socket."""

IPV6_HOST_BITS = 64
"""One household or machine has a whole /64 (RFC 6177), so its addresses count as one client."""

current_client: ContextVar[str] = ContextVar("current_client", default=LOCAL)
"""Whose request is being answered, where the request itself is not at hand (OpenEnv's handlers)."""


def client_of(scope: Scope) -> str:
    """The client's address, or its /64 network; behind a trusted proxy the address that the proxy names."""
    client = scope.get("client")
    return counted_as(client[0]) if client and client[0] else LOCAL


@lru_cache(maxsize=4096)
def counted_as(host: str) -> str:
    """What limits count an address as: itself, or the /64 network of an IPv6 address."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:  # the name that a test's transport or a proxy gives
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    if address.is_loopback:
        return str(address)
    network = int(address) >> IPV6_HOST_BITS << IPV6_HOST_BITS
    return f"{IPv6Address(network)}/{IPV6_HOST_BITS}"


def visitor_of(request: Any) -> str:
    """The client behind a request as gradio hands it to a function."""
    inner: Any = getattr(request, "request", None)
    scope: Any = getattr(inner, "scope", None)
    return client_of(cast("Scope", scope)) if isinstance(scope, dict) else LOCAL


def is_limited(client: str, limit_loopback: bool) -> bool:
    """Whether limits a client hold for this one: programs on this machine have none unless the operator wants
    it."""
    return limit_loopback or not is_loopback(client)


def share_of(whole: int, share: float) -> int:
    """What one client may have of a whole: at least one."""
    return max(1, int(whole * share))


@lru_cache(maxsize=4096)
def is_loopback(client: str) -> bool:
    """Whether a client of :func:`client_of` is a program on this very machine."""
    if client == LOCAL:
        return True
    try:
        return ip_address(client).is_loopback
    except ValueError:
        return False
