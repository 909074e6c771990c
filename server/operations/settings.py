"""Settings of the server, read once from environment variables that start with ``INFERENCEGYM_``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from os import environ
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from server.guard.clients import share_of
from server.operations.setting_checks import checked_host, checked_origins, checked_proxies, checked_token

__all__ = ["Settings", "told"]

PREFIX = "INFERENCEGYM_"
MIB = 1024 * 1024
DAY_S = 86_400

_READ_ELSEWHERE = frozenset(
    PREFIX + name for name in ("URL", "PPO_CHECKPOINT", "TRACE_PACK", "TRACE_PACKS", "TRAFFIC")
)
"""Variables of clients, agents and environments, which may be set where a server starts."""
_RATE = re.compile(r"[1-9]\d{0,8}/(second|minute|hour)", re.ASCII)


class Settings(BaseSettings):
    """Every knob of the server. Unknown variables with the prefix and wrong values stop the start."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="ignore", frozen=True, populate_by_name=True, hide_input_in_errors=True
    )

    host: Annotated[str, AfterValidator(checked_host)] = Field(
        default="0.0.0.0",  # noqa: S104 (a server in a container)
        description="Address to listen on.",
    )
    port: int = Field(
        default=7860,
        ge=0,
        le=65535,
        validation_alias=AliasChoices(f"{PREFIX}PORT", "PORT"),
        description="Port to listen on; the plain variable PORT works too. 0 takes a free one.",
    )
    max_sessions: int = Field(
        default=50,
        ge=1,
        le=10_000,
        description="Episodes kept warm, ready to step, a megabyte each; the least recently used one goes "
        "cold, to some kilobytes, and comes back at its next call. Also visitors of the page kept.",
    )
    max_episodes: int = Field(
        default=4000,
        ge=1,
        le=1_000_000,
        description="Episodes kept, warm and cold, of all transports; at least MAX_SESSIONS. When all are "
        "unfinished, a new one gets 503 with Retry-After.",
    )
    max_sockets: int = Field(
        default=1000,
        ge=1,
        le=100_000,
        description="WebSockets open at once and, counted apart, MCP sessions, of each environment.",
    )
    client_share: float = Field(
        default=0.25,
        gt=0.0,
        le=1.0,
        allow_inf_nan=False,
        description="What one client (address) may take of MAX_EPISODES, MAX_SOCKETS and GRADER_QUEUE.",
    )
    limit_loopback: bool = Field(
        default=False,
        description="Whether limits a client hold for programs on this machine (loopback) too.",
    )
    session_idle_timeout_s: float = Field(
        default=3600.0,
        ge=0.0,
        allow_inf_nan=False,
        description="Seconds without a call after which a session ends. 0 never ends one.",
    )
    socket_idle_timeout_s: float = Field(
        default=600.0,
        ge=0.0,
        allow_inf_nan=False,
        description="Seconds without a message after which a WebSocket is closed and its episode ends, if "
        "SESSION_IDLE_TIMEOUT_S does not end it before. 0 never closes one.",
    )
    rate_limit: str = Field(
        default="600000/minute",
        description="Requests a client (address) may make, as `N/second`, `N/minute` or `N/hour`; `off` "
        "switches the limit off. A WebSocket counts once, when it opens.",
    )
    cost_limit: str = Field(
        default="60000/minute",
        description="Steps that a client (address) may have computed beside those of its live episodes, at "
        "most 3,000 within a second, written like RATE_LIMIT: a reset costs 60, a replay its length, a run "
        "on the page 400 to 1,500, 100 bytes of a body beyond the first 4 kB 1.",
    )
    cors_origins: Annotated[list[str], NoDecode, AfterValidator(checked_origins)] = Field(
        default=["*"],
        description="Browser origins that may call the server, separated by commas; empty for none.",
    )
    max_body_bytes: int = Field(
        default=MIB, ge=1024, le=1024 * MIB, description="Largest request body and WebSocket message, bytes."
    )
    grader_max_body_bytes: int = Field(
        default=8 * MIB, ge=1024, le=1024 * MIB, description="Largest body of POST /grader, bytes."
    )
    grader_queue: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="Gradings and replays that may run or wait; beyond, 503 with Retry-After.",
    )
    grader_threads: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Gradings and replays that may run at once, beside the event loop. They share one "
        "interpreter with the steps: more of them are not faster together, and steps wait longer.",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO",
        description="INFO logs one JSON line per request to standard error; WARNING only trouble.",
    )
    metrics: bool = Field(default=True, description="Serve Prometheus metrics at /metrics.")
    web: bool = Field(default=True, description="Serve the page for people at /web.")
    web_llm: bool = Field(
        default=False,
        description="Whether visitors of the page may let the agent `llm` play, where the server has a key "
        "of a chat service: every run is 200 to 300 paid calls an agent, two runs at once, for anybody who "
        "finds the page.",
    )
    token: SecretStr | None = Field(
        default=None,
        description="When set, everything but /health needs the header `Authorization: Bearer` with this "
        "token, and the page asks for it. 16 to 512 printable ASCII characters, no spaces; for example what "
        "`openssl rand -hex 24` prints.",
    )
    header_max_bytes: int = Field(
        default=32 * 1024,
        ge=1024,
        le=MIB,
        description="Largest head of a request: its line and headers, bytes.",
    )
    header_max_count: int = Field(default=100, ge=10, le=1000, description="Most headers of a request.")
    header_timeout_s: float = Field(
        default=20.0,
        gt=0.0,
        le=3600.0,
        description="Seconds for the head of a request, from its first byte or, of the first one, from the "
        "connection on.",
    )
    body_timeout_s: float = Field(
        default=30.0,
        gt=0.0,
        le=3600.0,
        description="Seconds for the body of a request, and one more for every 16 KiB that came.",
    )
    max_connections: int = Field(
        default=2000,
        ge=1,
        le=100_000,
        description="Open connections in all; fewer where the process may not open so many files. When they "
        "are all taken, one that never finished a request makes room.",
    )
    max_connections_per_client: int = Field(
        default=256,
        ge=0,
        le=100_000,
        description="Open connections of one address; 0 for no limit. This machine itself and the proxies of "
        "INFERENCEGYM_FORWARDED_ALLOW_IPS have none.",
    )
    keep_alive_s: int = Field(
        default=75, ge=1, le=DAY_S, description="Seconds an idle HTTP connection stays open."
    )
    shutdown_grace_s: int = Field(
        default=5,
        ge=0,
        le=3600,
        description="Seconds that open requests and WebSockets get to finish at shutdown.",
    )
    forwarded_allow_ips: Annotated[str, AfterValidator(checked_proxies)] = Field(
        default="127.0.0.1",
        description="Proxies (addresses and networks, separated by commas, or `*`) whose X-Forwarded-For "
        "header names the client. Set `*` only where no client can reach the server around the proxy.",
    )

    @field_validator("rate_limit", "cost_limit")
    @classmethod
    def _is_a_rate(cls, value: str) -> str:
        text = "".join(value.lower().split())
        if text != "off" and not _RATE.fullmatch(text):
            raise ValueError("must be N/second, N/minute or N/hour with a whole N ≥ 1, or off")
        return text

    @field_validator("token")
    @classmethod
    def _is_a_token(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            checked_token(value.get_secret_value())
        return value

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _split_commas(cls, value: Any) -> Any:
        if isinstance(value, str):
            return [origin.strip() for origin in value.split(",") if origin.strip()]
        return value

    @field_validator("log_level", mode="before")
    @classmethod
    def _any_case(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

    @property
    def socket_timeout_s(self) -> float:
        """Seconds without a message after which a WebSocket's session ends; 0 for never."""
        return min(filter(None, (self.socket_idle_timeout_s, self.session_idle_timeout_s)), default=0.0)

    def share_of(self, whole: int) -> int:
        """What one client may take of ``whole``."""
        return share_of(whole, self.client_share)

    @model_validator(mode="after")
    def _keeps_what_is_warm(self) -> Self:
        if self.max_episodes < self.max_sessions:
            raise ValueError(
                f"{PREFIX}MAX_EPISODES is {self.max_episodes}, allowed: at least {PREFIX}MAX_SESSIONS, "
                f"{self.max_sessions}"
            )
        return self

    @model_validator(mode="after")
    def _knows_every_variable(self) -> Self:
        known = {PREFIX + name.upper() for name in type(self).model_fields}
        unknown = [
            name
            for name in sorted(environ)
            if name.upper().startswith(PREFIX) and name.upper() not in known | _READ_ELSEWHERE
        ]
        if unknown:
            raise ValueError("; ".join(_unknown(name, known) for name in unknown))
        return self


def _unknown(name: str, known: Iterable[str]) -> str:
    # The prefix is the same in all of them and would make them all alike.
    near = get_close_matches(name.upper()[len(PREFIX) :], [each[len(PREFIX) :] for each in known], n=3)
    return f"{name} is no setting" + (
        f", did you mean {', '.join(PREFIX + each for each in near)}?" if near else ""
    )


def told(error: ValidationError) -> list[str]:
    """One line for each wrong setting: the variable, what is wrong, and what was given."""
    return [_line(finding["loc"], finding["msg"], finding["input"]) for finding in error.errors()]


def _line(place: tuple[int | str, ...], problem: str, given: Any) -> str:
    problem = problem.removeprefix("Value error, ")
    if not place:
        return f"settings: {problem}"
    name = str(place[0])
    if name in Settings.model_fields:
        name = PREFIX + name.upper()
    if name == f"{PREFIX}PORT" and name not in environ:
        name = "PORT"
    if name == f"{PREFIX}TOKEN":
        return f"setting {name}: {problem} (what was given is not shown)"
    return f"setting {name}: {problem} (given: {given!r})"
