"""Traces of market episodes: canonical JSON lines, their Merkle root, and CSV logs.

A trace has one line an hour, with sorted keys and whole numbers only: equal episodes have equal bytes. Money
is in micro-USD, rewards and factors at SCALE.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, TextIO

from agents.market.play import PlayedHour, Policy, play_market
from env.market.reward import TERMS
from simulator.market.config import MarketSetup, canonical_json
from simulator.market.engine import Demand
from simulator.market.kernel import OPENING_HOURS, SCALE

__all__ = ["CSV_COLUMNS", "csv_row", "merkle_root", "trace_lines", "write_csv"]


def trace_lines(setup: MarketSetup, policy: Policy, demand: Demand, seed: int) -> Iterator[str]:
    """The lines of an episode, without line ends. The jobs are the latent ones: also those priced out."""
    for played in play_market(setup, policy, demand):
        hour = OPENING_HOURS + played.hour - 1
        yield canonical_json(
            {
                "counts": played.counts._asdict(),
                "cumulative_reward": played.cumulative_reward,
                "hour": played.hour,
                "jobs": [list(job) for job in demand.jobs(hour)],
                "rate": demand.rates[hour],
                "reward": played.reward,
                "reward_terms": dict(zip(TERMS, played.terms, strict=True)),
                "seed": seed,
                "willing": demand.willing[hour],
            }
        )


def merkle_root(leaves: Iterable[bytes]) -> str:
    """Root of the SHA-256 tree over ``leaves``, in hexadecimal; of none, the hash of nothing.

    Leaves and inner nodes are hashed with different prefixes, so that none can stand for the other (RFC
    6962); a node without a sibling moves up as it is.
    """
    level = [sha256(b"\0" + leaf).digest() for leaf in leaves]
    while len(level) > 1:
        pairs = [
            sha256(b"\1" + level[i] + level[i + 1]).digest() if i + 1 < len(level) else level[i]
            for i in range(0, len(level), 2)
        ]
        level = pairs
    return level[0].hex() if level else sha256(b"").hexdigest()


CSV_COLUMNS = (
    *("hour", "price", "revenue", "queue_depth", "utilization", "arrivals", "finished", "interrupted_gpus"),
    *("driven_off_gpus", "gave_up", "zero_streak", "dead", "reward", "cumulative_reward"),
)


def csv_row(setup: MarketSetup, played: PlayedHour) -> dict[str, float | int]:
    """An hour in natural units."""
    counts = played.counts
    return {
        "hour": played.hour,
        "price": counts.price / SCALE,
        "revenue": counts.revenue / SCALE,
        "queue_depth": counts.waiting_jobs,
        "utilization": counts.running_gpus / setup.gpus,
        "arrivals": counts.joined,
        "finished": counts.finished,
        "interrupted_gpus": counts.interrupted_gpus,
        "driven_off_gpus": counts.driven_off_gpus,
        "gave_up": counts.gave_up,
        "zero_streak": counts.zero_streak,
        "dead": counts.dead,
        "reward": played.reward / SCALE,
        "cumulative_reward": played.cumulative_reward / SCALE,
    }


def write_csv(file: TextIO, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """A header and a line for each row."""
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
