"""The semantic cache of a routing stream: which answer it would give, whether that fits, and what it keeps.

Rows of queries and outcomes are those of :mod:`simulator.routing.kernel`, which compiles this source too.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "CACHE_THRESHOLD",
    "CACHE_TTL_H",
    "LOOKUP_S",
    "LOOKUP_WH",
    "look_up",
    "nearest_cached",
    "stores",
]

CACHE_THRESHOLD = 0.8
CACHE_TTL_H = 12.0
"""Similarity from which a cached answer is taken (GPT Semantic Cache, arXiv 2411.05276), and how long it
lives."""
LOOKUP_S, LOOKUP_WH = 0.05, 0.0005
"""An embedding and a nearest-neighbour search; our assumption."""


def nearest_cached(query: Any, cached_h: Any) -> int:
    """Topic of the fresh cached question nearest to this one: itself or its neighbour; -1 for neither."""
    nearest = -1
    for step in range(2):
        age = query[0] - cached_h[int(query[1 + step])]
        fresh = cached_h[int(query[1 + step])] >= 0.0 and 0.0 <= age <= CACHE_TTL_H
        if fresh and (nearest < 0 or query[11] > query[10]):
            nearest = int(query[1 + step])
    return nearest


def look_up(query: Any, cached_h: Any, cached_right: Any, out: Any) -> None:
    """The semantic cache: the nearest fresh answer, if it is near enough."""
    out[1] = LOOKUP_WH
    out[3] = LOOKUP_S
    topic = nearest_cached(query, cached_h)
    own = topic == int(query[1])
    if topic >= 0 and (query[10] if own else query[11]) >= CACHE_THRESHOLD:
        out[5] = 1.0
        outdated = cached_h[topic] < query[13] and query[13] <= query[0]
        if cached_right[topic] > 0.0 and ((own and not outdated) or (not own and query[12] > 0.0)):
            out[0] = 1.0
    out[6] = out[5] - out[0]


def stores(query: Any, cached_h: Any, out: Any) -> bool:
    """Whether the answer goes into the cache; one that is held does not replace a fresh one."""
    stored = cached_h[int(query[1])]
    return out[17] > 0.0 and (out[16] < 0.0 or stored < 0.0 or query[0] - stored > CACHE_TTL_H)
