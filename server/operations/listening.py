"""Whether the server will be able to listen where it is told to."""

from __future__ import annotations

import errno
import socket

__all__ = ["why_not_listen"]

_OF_THE_PORT = {
    errno.EADDRINUSE: "something listens there already",
    errno.EACCES: "this user may not listen there",
}


def why_not_listen(host: str, port: int) -> str | None:
    """Try an address out, as asyncio will use it: one sentence on what is wrong with it, or None."""
    try:
        places = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        return _bad_host(host, error)
    for family, kind, protocol, _, address in places:
        try:
            probe = socket.socket(family, kind, protocol)
        except OSError:  # a family that this machine lacks; asyncio passes it over too
            continue
        with probe:
            try:
                _bind(probe, address)
            except OSError as error:
                if error.errno not in _OF_THE_PORT:
                    return _bad_host(host, error)
                return (
                    f"setting INFERENCEGYM_PORT (or PORT): cannot listen on port {port} of {host!r}: "
                    f"{_OF_THE_PORT[error.errno]}; choose another port."
                )
    return None


def _bind(probe: socket.socket, address: tuple[object, ...]) -> None:
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if probe.family == socket.AF_INET6:
        probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    probe.bind(address)
    # Two sockets may be bound to one place with SO_REUSEADDR as long as neither listens.
    probe.listen(1)


def _bad_host(host: str, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    return f"setting INFERENCEGYM_HOST: cannot listen on {host!r}: {reason}; 0.0.0.0 is every address."
