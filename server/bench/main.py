"""``python -m server.bench.main``: speed, start-up time and memory of the server, in one run.

Prints one JSON document (and nothing else) to standard output:

- steps/s and milliseconds of a reset in this process (:mod:`server.bench.process`);
- steps/s over HTTP and over the WebSocket with 1 and 8 clients, and the same as shares of a FastAPI echo
  (``async def``, JSON body in, the same dict out) that is served alike and measured right before;
- seconds from starting the process to the first answer of /health;
- resident memory after the start, and with as many REST episodes as the server keeps;
- once the page at /web has been asked for: the seconds it took to build, steps/s over HTTP as a share of
  those before, and resident memory.

Server, yardstick and load generator are processes of their own. The server runs with its default
settings but the rate limit, which the load would meet; its log goes to a file.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from env.protocols import listed_tasks
from inferencegym.registry import all_specs
from server.bench import process as bench_process
from server.bench.process import random_actions
from server.bound import BoundEnv

__all__ = ["main", "measure", "serving"]

CLIENTS = (1, 8)
SECONDS = 3.0
ROUNDS = 3
"""The median of this many measurements is reported: other work on the machine comes and goes."""
ACTIONS = 64
START_TIMEOUT_S = 60.0
UNLIMITED = {"INFERENCEGYM_RATE_LIMIT": "off"}


def make_plan(bound: BoundEnv) -> dict[str, Any]:
    """What the load generator plays: the hardest task under random actions."""
    task = list(listed_tasks(bound.tasks).values())[-1]
    return {
        "task_id": task.id,
        "episode_length": task.episode_length,
        "actions": random_actions(bound.action_model.model_json_schema(), ACTIONS),
    }


@contextmanager
def serving(
    module: str, log: Path, settings: Mapping[str, str] = UNLIMITED
) -> Generator[tuple[int, int, float]]:
    """A server process: its port, its process id, and the seconds it took to answer /health."""
    port = _free_port()
    environment = os.environ | {
        "PORT": str(port),
        "INFERENCEGYM_HOST": "127.0.0.1",
        **settings,
    }
    started = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module], env=environment, stdout=output, stderr=output
        )
        try:
            yield port, process.pid, _wait_for_health(port, started)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_health(port: int, started: float) -> float:
    while time.perf_counter() - started < START_TIMEOUT_S:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                return time.perf_counter() - started
        except OSError:
            time.sleep(0.02)
    raise SystemExit(f"no answer on port {port} within {START_TIMEOUT_S} s")


def load(kind: str, port: int, clients: int, plan: dict[str, Any], seconds: float) -> float:
    """Steps a second that the load generator sees."""
    command = [sys.executable, "-m", "server.bench.load", kind, str(port), str(clients), str(seconds)]
    done = subprocess.run(command, input=json.dumps(plan).encode(), stdout=subprocess.PIPE, check=True)
    return float(done.stdout)


def resident_mb(pid: int) -> float:
    """Resident memory of a process, MB (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1000.0


def fill_sessions(port: int, count: int, plan: dict[str, Any]) -> None:
    """Start ``count`` episodes and play each to its end, so that every log is as long as it gets."""
    for _ in range(count):
        session = _post(port, "reset", {"task_id": plan["task_id"]})["session_id"]
        for step in range(plan["episode_length"]):
            _post(port, "step", {"session_id": session, "action": plan["actions"][step % ACTIONS]})


def _post(port: int, path: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/{path}", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.load(reply)


def measure(seconds: float = SECONDS, rounds: int = ROUNDS, sessions: int = 50) -> dict[str, Any]:
    """All figures; see the module's docstring."""
    bound = BoundEnv(next(spec for spec in all_specs() if not spec.mount))
    plan = make_plan(bound)
    report: dict[str, Any] = {
        "machine": f"{os.cpu_count()} CPUs, Python {sys.version.split()[0]}",
        "in_process": bench_process.measure(bound.spec),
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        serving("server.bench.echo", Path(folder, "echo.log")) as (echo_port, _, _),
        serving("server.app", Path(folder, "server.log")) as (port, pid, start_s),
    ):
        report["seconds_to_health"] = round(start_s, 2)
        report["rss_mb_after_start"] = round(resident_mb(pid))
        for clients in CLIENTS:
            for kind in ("http", "ws"):
                report |= _compare(kind, clients, port, echo_port, plan, seconds, rounds)
        fill_sessions(port, sessions, plan)
        report[f"rss_mb_with_{sessions}_sessions"] = round(resident_mb(pid))
        report["with_page"] = _with_page(port, pid, plan, seconds, rounds)
    return report


def _with_page(port: int, pid: int, plan: dict[str, Any], seconds: float, rounds: int) -> dict[str, Any]:
    """What the page costs those who do not look at it."""
    before = sorted(load("http", port, 1, plan, seconds) for _ in range(rounds))[rounds // 2]
    started = time.perf_counter()
    while not _page_is_built(port):
        time.sleep(0.05)
    built_s = time.perf_counter() - started
    after = sorted(load("http", port, 1, plan, seconds) for _ in range(rounds))[rounds // 2]
    return {
        "seconds_to_build": round(built_s, 1),
        "http_1_client_share_of_before": round(after / before, 2),
        "rss_mb": round(resident_mb(pid)),
    }


def _page_is_built(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/web/", timeout=60) as reply:
        return b"gradio" in reply.read()


def _compare(
    kind: str, clients: int, port: int, echo_port: int, plan: dict[str, Any], seconds: float, rounds: int
) -> dict[str, Any]:
    """Our rate and the yardstick's, measured in turns."""
    pairs = [
        (load(f"{kind}-echo", echo_port, clients, plan, seconds), load(kind, port, clients, plan, seconds))
        for _ in range(rounds)
    ]
    echo = sorted(pair[0] for pair in pairs)[rounds // 2]
    ours = sorted(pair[1] for pair in pairs)[rounds // 2]
    return {
        f"{kind}_{clients}_clients": {
            "steps_per_s": round(ours),
            "echo_per_s": round(echo),
            "share_of_echo": round(ours / echo, 2),
        }
    }


def main() -> None:
    """Print the report."""
    print(json.dumps(measure(), indent=2))


if __name__ == "__main__":
    main()
