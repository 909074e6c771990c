"""``python -m server.bench.abuse``: what one abusive address costs an honest client, as ratios in one run.

A server with its default limits, which here hold for loopback addresses too, is attacked from 127.0.0.2 in
each of the ways of :data:`ATTACKS`, at full speed, by processes of their own. Meanwhile an honest client at
127.0.0.1 plays episodes at a steady pace. Printed for each attack: the 50th and 99th percentile of the honest
steps' times over those of the quiet stretch right before, how many honest requests failed, and how many
requests the abuser sent and got served. The aim: p99 under 10 × quiet, and no honest failure.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

import httpx
from rich.console import Console
from rich.table import Table

from server.bench.main import serving

__all__ = ["ATTACKS", "main", "measure"]

HONEST, ABUSER = "127.0.0.1", "127.0.0.2"
QUIET_S, ATTACK_S, WARM_UP_S = 6.0, 10.0, 1.0
PACE_S = 0.01
"""Time between the honest client's steps."""
CONNECTIONS = 16
TRAFFIC_ROWS = 20_000
"""Rows of recorded traffic in a reset, 900 kB."""
AIM = 10.0


class Shot(NamedTuple):
    """A request of an abuser."""

    method: str
    path: str
    body: bytes = b""


def _replay(_url: str) -> Shot:
    actions = [{"batch_size": 64}] * 200
    return Shot("POST", "/grader", json.dumps({"task_id": "task3", "seed": 1, "actions": actions}).encode())


def _long_log(_url: str) -> Shot:
    """A log that is refused at its end, of nearly 8 MB."""
    entry: dict[str, Any] = {"action": {}, "reward": 0.0, "metrics": {}, "note": "x" * 39_000}
    return Shot("POST", "/grader", json.dumps({"task_id": "task1", "episode_log": [entry] * 200}).encode())


def _traffic(_url: str) -> Shot:
    rows = "".join(f"{second / 10},100,{100 + second % 7}\n" for second in range(TRAFFIC_ROWS))
    text = "Timestamp,Request tokens,Response tokens\n" + rows + " " * (900_000 - 20 * TRAFFIC_ROWS)
    return Shot("POST", "/reset", json.dumps({"config": {"traffic": {"text": text.rstrip()}}}).encode())


def _watch(url: str) -> Shot:
    """A run of two agents, as the page asks for it."""
    functions = httpx.get(f"{url}/web/config").json()["dependencies"]
    play = next(each["id"] for each in functions if each["api_name"] == "play")
    data = ["InferenceGym/Routing-v0", "stream_3", 1, "lookahead", "nobody"]
    body = {"data": data, "fn_index": play, "session_hash": "abuse"}
    return Shot("POST", "/web/gradio_api/queue/join", json.dumps(body).encode())


def _retrain(url: str) -> Shot:
    """A training of the market lab with the page's own values."""
    config = httpx.get(f"{url}/market/web/config").json()
    values = {each["id"]: each["props"].get("value") for each in config["components"]}
    train = next(each for each in config["dependencies"] if str(each["api_name"]).startswith("train"))
    data = [values[number] for number in train["inputs"]]
    body = {"data": data, "fn_index": train["id"], "session_hash": "abuse"}
    return Shot("POST", "/market/web/gradio_api/queue/join", json.dumps(body).encode())


HALF_OPEN = "half-open connections"
UNREAD = "requests whose replies nobody reads"
SOCKETS = 200
"""Connections that an abuser of one of these two tries to hold."""

ATTACKS: dict[str, Callable[[str], Shot]] = {
    "replays": _replay,
    "long logs": _long_log,
    "resets": lambda _url: Shot("POST", "/reset", b"{}"),
    "traffic of 900 kB": _traffic,
    "runs on the page": _watch,
    "retraining on the page": _retrain,
    HALF_OPEN: lambda _url: Shot("GET", "/health"),
    UNREAD: lambda _url: Shot("GET", "/health"),
    "descriptions": lambda _url: Shot("GET", "/info"),
    "what is not there": lambda _url: Shot("GET", "/nothing"),
    "broken JSON": lambda _url: Shot("POST", "/step", b"[" * 100_000),
}


def _client(url: str, address: str) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(
        local_address=address, limits=httpx.Limits(max_connections=CONNECTIONS), retries=1
    )
    return httpx.AsyncClient(base_url=url, transport=transport, timeout=30.0)


async def _shoot(url: str, shot: Shot, seconds: float) -> Counter[int]:
    """Sends as fast as answers come, on every connection; counts by status (0: no answer)."""
    counts: Counter[int] = Counter()
    until = time.monotonic() + seconds

    async def one(client: httpx.AsyncClient) -> None:
        while time.monotonic() < until:
            try:
                reply = await client.request(
                    shot.method, shot.path, content=shot.body, headers={"content-type": "application/json"}
                )
                counts[reply.status_code] += 1
            except httpx.HTTPError:
                counts[0] += 1
                await asyncio.sleep(0.01)

    async with _client(url, ABUSER) as client:
        await asyncio.gather(*(one(client) for _ in range(CONNECTIONS)))
    return counts


async def _hold(url: str, sent: bytes, again: bool, seconds: float) -> Counter[int]:
    """Opens connections and sends bytes on them, once or again and again, without reading; a connection that
    the server closes is opened anew. Counts those that were made (200) and refused (0)."""
    counts: Counter[int] = Counter()
    until, address = time.monotonic() + seconds, httpx.URL(url)

    async def one() -> None:
        while time.monotonic() < until:
            try:
                reader, writer = await asyncio.open_connection(
                    address.host, address.port, local_addr=(ABUSER, 0), limit=1
                )
                counts[200] += 1
                while time.monotonic() < until and not writer.is_closing():
                    writer.write(sent)
                    async with asyncio.timeout(until - time.monotonic()):
                        await (writer.drain() if again else reader.read())
                    if not again:
                        break
                writer.close()
            except (OSError, TimeoutError):
                counts[0] += 1
            await asyncio.sleep(0.01)

    await asyncio.gather(*(one() for _ in range(SOCKETS)))
    return counts


def _abuse(url: str, attack: str, seconds: float, found: Any) -> None:
    shot = ATTACKS[attack](url)
    line = f"{shot.method} {shot.path} HTTP/1.1\r\nhost: x\r\n".encode()
    if attack == HALF_OPEN:
        abuse = _hold(url, line, False, seconds)
    elif attack == UNREAD:
        abuse = _hold(url, 50 * (line + b"\r\n"), True, seconds)
    else:
        abuse = _shoot(url, shot, seconds)
    found.put(asyncio.run(abuse))


async def _play(url: str, seconds: float) -> tuple[list[float], int]:
    """Milliseconds of an honest client's steps, and how many of its requests failed."""
    times_ms: list[float] = []
    failed, until = 0, time.monotonic() + seconds
    async with _client(url, HONEST) as client:
        session, left = "", 0
        while time.monotonic() < until:
            await asyncio.sleep(PACE_S)
            try:
                if not left:
                    reply = await client.post("/reset", json={"task_id": "task3"})
                    session, left = reply.json()["session_id"], 200
                started = time.perf_counter()
                reply = await client.post("/step", json={"session_id": session, "action": {}})
                times_ms.append(1e3 * (time.perf_counter() - started))
                left -= 1
                failed += reply.status_code != 200
            except (httpx.HTTPError, KeyError):
                failed += 1
    return times_ms, failed


def measure(url: str, attack: str) -> dict[str, Any]:
    """One attack; see the module's docstring."""
    quiet, _ = asyncio.run(_play(url, QUIET_S))
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    abuser = context.Process(target=_abuse, args=(url, attack, ATTACK_S + 2 * WARM_UP_S, found), daemon=True)
    abuser.start()
    time.sleep(WARM_UP_S)
    under, failed = asyncio.run(_play(url, ATTACK_S))
    counts: Counter[int] = found.get(timeout=60)
    abuser.join(10)
    before, during = quantiles(quiet, n=100), quantiles(under, n=100)
    return {
        "attack": attack,
        "quiet_p50_ms": before[49],
        "quiet_p99_ms": before[98],
        "p50_ratio": during[49] / before[49],
        "p99_ratio": during[98] / before[98],
        "honest_steps": len(under),
        "honest_failures": failed,
        "abuser_requests": dict(sorted(counts.items())),
    }


def main() -> None:
    """Print a table, or JSON with ``--json``; names of attacks choose some."""
    chosen = [word for word in sys.argv[1:] if word in ATTACKS] or list(ATTACKS)
    settings = {"INFERENCEGYM_LIMIT_LOOPBACK": "true"}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for attack in chosen:
            # A server each: what an attack has used up of a budget is not the next one's quiet.
            with serving("server.app", Path(folder) / "server.log", settings) as (port, _, _):
                url = f"http://{HONEST}:{port}"
                if "page" in attack:
                    for mount in ("", "/market"):
                        httpx.get(f"{url}{mount}/web/", timeout=30)
                    time.sleep(25.0)
                rows.append(measure(url, attack))
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    if "--json" in sys.argv:
        print(json.dumps(rows, indent=2))
    else:
        Console().print(_table(rows))


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title=f"one abusive address; aim: p99 under {AIM:g} × quiet, no honest failure")
    for name in ("attack", "p50 ×", "p99 ×", "honest failures", "abuser's requests by status"):
        table.add_column(name)
    for row in rows:
        counts = ", ".join(f"{status}: {count}" for status, count in row["abuser_requests"].items())
        ratios = (f"{row['p50_ratio']:.1f}", f"{row['p99_ratio']:.1f}")
        table.add_row(row["attack"], *ratios, str(row["honest_failures"]), counts)
    return table


if __name__ == "__main__":
    main()
