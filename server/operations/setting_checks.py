"""What a setting may hold, beyond its type: each check names what is wrong in one sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit

from inferencegym.errors import InferenceGymError
from inferencegym.registry import load
from inferencegym.token import TOKEN_MAX_CHARS, is_token

__all__ = ["checked_host", "checked_origins", "checked_proxies", "checked_token", "environment_problems"]

URL_VARIABLE = "INFERENCEGYM_URL"

TOKEN_MIN_CHARS = 16
"""Of a random token, 16 characters are some 90 bits: nobody tries them out over a network."""

_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?", re.ASCII)


def checked_host(host: str) -> str:
    """An address of this machine, or a name; whether it can be listened on is tried at the start."""
    if not (_is_address(host.partition("%")[0]) or _NAME.fullmatch(host)):
        raise ValueError("must be an address or a host name; 0.0.0.0 is every address")
    return host


def checked_origins(origins: list[str]) -> list[str]:
    """`*` alone, or origins as browsers send them."""
    if origins == ["*"]:
        return origins
    for origin in origins:
        if not _is_origin(origin):
            raise ValueError(
                f"{origin!r} is not allowed; allowed: * alone, or origins such as https://lab.example:8443 "
                "(http or https, a host in lower case, no path)"
            )
    return origins


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    whole = f"{parts.scheme}://{shown}" + (f":{port}" if port is not None else "")
    return (
        parts.scheme in ("http", "https")
        and whole == text
        and bool(_NAME.fullmatch(host) or _is_address(host))
    )


def checked_proxies(proxies: str) -> str:
    """`*` alone, or addresses and networks; empty for none."""
    named = [proxy.strip() for proxy in proxies.split(",")] if proxies.strip() else []
    if named == ["*"]:
        return "*"
    for proxy in named:
        if not _is_network(proxy):
            raise ValueError(
                f"{proxy!r} is not allowed; allowed: * alone, or addresses and networks such as 10.0.0.0/8"
            )
    return ",".join(named)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def checked_token(token: str) -> str:
    """A token that is not tried out and fits into a header."""
    if not is_token(token) or len(token) < TOKEN_MIN_CHARS:
        raise ValueError(
            f"must be {TOKEN_MIN_CHARS} to {TOKEN_MAX_CHARS} printable ASCII characters without spaces"
        )
    return token


def environment_problems(*, web_llm: bool, environ: Mapping[str, str] | None = None) -> list[str]:
    """What is wrong with variables that the server's parts read by themselves, a line each.

    Args:
        web_llm: the page may play the language-model agent.
        environ: by default the environment.
    """
    return list(_problems(os.environ if environ is None else environ, web_llm))


def _problems(environ: Mapping[str, str], web_llm: bool) -> Iterator[str]:
    url = environ.get(URL_VARIABLE)
    if url:
        try:
            load("inferencegym.connection:http_address")(URL_VARIABLE, url)
        except InferenceGymError as error:
            yield f"setting {error.message}"
    policy = environ.get("INFERENCEGYM_PPO_CHECKPOINT")
    if policy and not Path(policy).exists():
        yield (
            f"setting INFERENCEGYM_PPO_CHECKPOINT: {policy!r} does not exist; allowed: a file .npz, or the "
            "folder that agents.ppo.demo has written"
        )
    if web_llm:
        try:
            load("agents.llm.api:ChatSettings").from_environment(environ)
        except InferenceGymError as error:
            yield f"setting INFERENCEGYM_WEB_LLM: {error}"
