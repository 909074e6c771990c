"""Where a client's server is, and how patiently to wait for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict, cast

import httpx

from inferencegym.calls import Call, Calls
from inferencegym.errors import InvalidValueError, UnknownNameError
from inferencegym.registry import EnvSpec, all_specs, get_spec
from inferencegym.token import with_token
from inferencegym.wire import WakePolicy

__all__ = [
    "DEFAULT_URL",
    "URL_VARIABLE",
    "ClientOptions",
    "Connection",
    "Waiter",
    "http_address",
    "resolve_url",
    "wake_time",
    "without_mount",
]

DEFAULT_URL = "http://127.0.0.1:7860"
URL_VARIABLE = "INFERENCEGYM_URL"

WAKE_LOCAL_S = 5.0
"""A server on this machine starts within this time (the aim of the benchmark), or was never started."""
WAKE_REMOTE_S = 180.0
"""A Space that pulls its image again takes minutes; three cover what its own page calls usual."""

GOODBYE_S = 2.0
"""How long a client that is closed waits for each session to end on the server."""
REMEMBERED = 1000
"""Sessions that a client remembers to end when it is closed, the newest of those that it started."""

SECONDS_MIN, SECONDS_MAX = 0.001, 86_400.0
"""A time limit lies between a millisecond and a day."""

Waiter = Callable[[str, float], None]
"""Gets (reason, seconds waited so far) before each further try."""


class ClientOptions(TypedDict, total=False):
    """Keyword options of both clients."""

    timeout_s: float
    """Longest wait for one answer, seconds; default 30."""
    wake_timeout_s: float
    """Longest wait for a server that does not answer yet; default 5 s for this machine, else 180 s. When
    given, it also bounds the wait for the first answer of a server that takes connections and is silent."""
    busy_timeout_s: float
    """Longest wait, in all, for a server that refuses a request and says when to come again (429 or 503 with
    Retry-After); default 120 s, 0 never waits."""
    headers: Mapping[str, str]
    """Sent with every request, for example the authorization of a private Space."""
    token: str | None
    """Of a server that asks for one; default ``INFERENCEGYM_TOKEN``. It goes to the server alone, also where
    that redirects elsewhere, and is never shown."""
    on_wait: Waiter
    """Called with (reason, seconds waited so far) before each further try."""


@dataclass(frozen=True, slots=True)
class Connection:
    """What both clients need beside their httpx client."""

    base_url: str
    calls: Calls
    policy: WakePolicy

    http_options: Mapping[str, Any] = field(repr=False)
    """Arguments of the ``httpx`` client."""

    @classmethod
    def create(cls, base_url: str | None, env: str, options: ClientOptions) -> Connection:
        """Resolve the address and the environment.

        Raises:
            InvalidValueError: the address is no http(s) URL, or an option outside what is allowed.
            UnknownNameError: no such environment, or no such option.
        """
        _check_options(options)
        spec = get_spec(env)
        url = without_mount(resolve_url(base_url), spec)
        local = _is_local(url)
        wake_s = wake_time(url, options.get("wake_timeout_s"))
        http_options = {
            "base_url": url,
            "timeout": options.get("timeout_s", 30.0),
            "headers": with_token(
                {"content-type": "application/json", **options.get("headers", {})}, options.get("token")
            ),
            "trust_env": not local,  # a proxy from the environment is not asked for this machine
            "follow_redirects": True,
        }
        policy = WakePolicy(url, wake_s, options.get("on_wait"), bounds_first="wake_timeout_s" in options)
        policy.busy_timeout_s = options.get("busy_timeout_s", policy.busy_timeout_s)
        return cls(url, Calls(spec), policy, http_options)

    def waits(self, call: Call[Any]) -> float:
        """Longest wait for the answer to a call, seconds."""
        usual_s: float = self.http_options["timeout"]
        return usual_s if call.timeout_s is None else min(usual_s, call.timeout_s)


def _check_options(options: Mapping[str, Any]) -> None:
    """What Python does not check of keyword options that are passed on."""
    for name in options:
        if name not in ClientOptions.__annotations__:
            raise UnknownNameError("option", name, ClientOptions.__annotations__)
    headers: object = options.get("headers", {})
    if not isinstance(headers, Mapping):
        raise InvalidValueError("headers", headers, "a mapping of names to values")
    on_wait: object = options.get("on_wait")
    if not (on_wait is None or callable(on_wait)):
        raise InvalidValueError("on_wait", on_wait, "a function of (reason, seconds waited), or None")
    for name, least in (("timeout_s", SECONDS_MIN), ("wake_timeout_s", 0.0), ("busy_timeout_s", 0.0)):
        _check_seconds(name, options.get(name, least), least)


def wake_time(url: str, given: float | None = None) -> float:
    """Longest wait for a server that does not answer yet, seconds. Raises InvalidValueError for a bad one."""
    if given is None:
        return WAKE_LOCAL_S if _is_local(url) else WAKE_REMOTE_S
    _check_seconds("wake_timeout_s", given, 0.0)
    return given


def _check_seconds(name: str, value: object, least: float) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and least <= cast("float", value) <= SECONDS_MAX):
        raise InvalidValueError(name, value, f"a number from {least:g} to {SECONDS_MAX:g}, seconds")


def resolve_url(base_url: str | None) -> str:
    """The given address, else ``INFERENCEGYM_URL``, else this machine; without a trailing slash."""
    return http_address("base_url", base_url or os.environ.get(URL_VARIABLE) or DEFAULT_URL)


def without_mount(url: str, spec: EnvSpec) -> str:
    """The server's address, also when the given one goes on with the environment's mount.

    Raises InvalidValueError: it ends with the mount of another environment, whose replies would be taken for
    those of ``spec``.
    """
    path = httpx.URL(url).path.rstrip("/")
    for other in all_specs():
        if other.mount and path.endswith(other.mount):
            if other.id == spec.id:
                return url.removesuffix(other.mount)
            raise InvalidValueError(
                "base_url",
                url,
                f"the address of the server, or of {spec.id} on it",
                f"{other.mount} is {other.id}: name it, env={other.name!r} (on the command line --env "
                f"{other.name}).",
            )
    return url


def http_address(field: str, text: object) -> str:
    """An address without a trailing slash. Raises InvalidValueError that names ``field``."""
    address = text.strip() if isinstance(text, str) else ""
    parsed = _parse(address)
    if parsed is None or parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidValueError(field, text, "an http:// or https:// address")
    return address.rstrip("/")


def _parse(url: str) -> httpx.URL | None:
    try:
        return httpx.URL(url)
    except httpx.InvalidURL:
        return None


def _is_local(url: str) -> bool:
    return httpx.URL(url).host in ("localhost", "127.0.0.1", "::1")
