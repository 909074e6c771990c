"""The real server as a process of its own, for tests that go over a socket."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import httpx

ROOT = Path(__file__).resolve().parents[1]
START_LIMIT_S = 60


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def live_server(
    command: Sequence[str] = ("-m", "server.app"), stderr: BinaryIO | None = None, **settings: str
) -> Iterator[str]:
    """Start ``python *command`` on a free port, yield its address, stop it.

    ``{port}`` in the command stands for the port; without it the port goes by the variable PORT.
    """
    with live_process(command, stderr=stderr, **settings) as (url, _):
        yield url


@contextmanager
def live_process(
    command: Sequence[str] = ("-m", "server.app"),
    port: int | None = None,
    stderr: BinaryIO | None = None,
    **settings: str,
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The same on a port of one's choice; yields the address and the process."""
    chosen = str(port or free_port())
    env = {**os.environ, "INFERENCEGYM_LOG_LEVEL": "WARNING", **settings}
    arguments = [word.format(port=chosen) for word in command]
    if arguments == list(command):
        env["PORT"] = chosen
    process = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, env=env, stderr=stderr)
    try:
        url = f"http://127.0.0.1:{chosen}"
        wait_for_health(url, process)
        yield url, process
    finally:
        process.terminate()
        process.wait(30)


def wait_for_health(url: str, process: subprocess.Popen[bytes]) -> httpx.Response:
    """The first answer of /health. Raises AssertionError when the process ends or is too slow."""
    deadline = time.monotonic() + START_LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            return httpx.get(f"{url}/health", trust_env=False)
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"no answer from {url}; exit code {process.poll()}")
