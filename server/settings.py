"""Settings of the server, read once from environment variables that start with ``INFERENCEGYM_``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import limits
from pydantic import AliasChoices, Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

__all__ = ["Settings"]

PREFIX = "INFERENCEGYM_"
MIB = 1024 * 1024


class Settings(BaseSettings):
    """Every knob of the server. Unknown variables are ignored, wrong values stop the start."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True, populate_by_name=True)

    host: str = Field(default="0.0.0.0", description="Address to listen on.")  # noqa: S104 (a server in a container)
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
        description="REST episodes kept and, counted apart for each environment, MCP sessions kept (of both "
        "the least recently used goes first) and open WebSockets.",
    )
    session_idle_timeout_s: float = Field(
        default=3600.0,
        ge=0.0,
        description="Seconds without a call after which a session ends. 0 never ends one.",
    )
    rate_limit: str = Field(
        default="60000/minute",
        description="Requests a client (address) may make, as `N/second`, `N/minute` or `N/hour`; `off` "
        "switches the limit off. A WebSocket counts once, when it opens.",
    )
    cors_origins: Annotated[list[str], NoDecode] = Field(
        default=["*"],
        description="Browser origins that may call the server, separated by commas; empty for none.",
    )
    max_body_bytes: int = Field(
        default=MIB, ge=1024, description="Largest request body and WebSocket message, bytes."
    )
    grader_max_body_bytes: int = Field(
        default=8 * MIB, ge=1024, description="Largest body of POST /grader, bytes."
    )
    grader_threads: int = Field(
        default=2,
        ge=1,
        le=64,
        description="Gradings and replays that may run at once, beside the event loop.",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO",
        description="INFO logs one JSON line per request to standard error; WARNING only trouble.",
    )
    metrics: bool = Field(default=True, description="Serve Prometheus metrics at /metrics.")
    web: bool = Field(default=True, description="Serve the page for people at /web.")
    keep_alive_s: int = Field(default=75, ge=1, description="Seconds an idle HTTP connection stays open.")
    shutdown_grace_s: int = Field(
        default=5, ge=0, description="Seconds that open requests and WebSockets get to finish at shutdown."
    )
    forwarded_allow_ips: str = Field(
        default="127.0.0.1",
        description="Proxies (addresses, separated by commas, or `*`) whose X-Forwarded-For header names "
        "the client. Set `*` only where no client can reach the server around the proxy.",
    )

    @field_validator("rate_limit")
    @classmethod
    def _is_a_rate(cls, value: str) -> str:
        if value.strip().lower() in ("", "0", "off", "none", "false"):
            return "off"
        try:
            limits.parse(value)
        except ValueError:
            raise ValueError("must look like 60000/minute, or be off") from None
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
