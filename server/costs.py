"""What a client may have computed: a budget of simulated steps a minute for each address.

Steps of a live episode are not counted, for a client plays them one by one and waits for each. What one
small request can make expensive is: a reset draws an episode's traffic, a replay is its whole length, traffic
in a request's text has to be read.
"""

from __future__ import annotations

import math
import time

import limits
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from server.clients import is_loopback
from server.errors import CostLimitError

__all__ = ["BYTES_A_STEP", "RESET_STEPS", "Costs"]

RESET_STEPS = 20
"""What starting an episode costs, in steps: 1–8 ms where a step takes 0.03–0.3 ms (2-core EPYC)."""
BYTES_A_STEP = 100
"""Bytes of a body that cost as much as a step to read: 900 kB of traffic text take 1.4 s, 9,000 steps
0.6–2 s (2-core EPYC)."""


class Costs:
    """Charges clients for what they ask for.

    Args:
        rate: steps a client may cause, as ``N/minute``; ``off`` charges nobody.
        limit_loopback: charge programs on this machine too.
    """

    def __init__(self, rate: str, limit_loopback: bool = False) -> None:
        self._rate = rate
        self._item = None if rate == "off" else limits.parse(rate)
        self._limit_loopback = limit_loopback
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    def charge(self, client: str, steps: int, body: bytes = b"") -> None:
        """Charge ``steps`` for a request whose ``body`` was charged before.

        A request that costs more than a whole window's budget passes once a window.

        Raises:
            CostLimitError: the budget of this window does not reach; nothing was charged.
        """
        item = self._item
        if item is None or not steps or (is_loopback(client) and not self._limit_loopback):
            return
        cost = min(steps, max(1, item.amount - len(body) // BYTES_A_STEP))
        if not self._limiter.test(item, client, cost=cost):
            window = self._limiter.get_window_stats(item, client)
            raise CostLimitError(self._rate, steps, max(1, math.ceil(window.reset_time - time.time())))
        self._limiter.hit(item, client, cost=cost)

    def charge_body(self, client: str, body: bytes, steps: int = 0) -> None:
        """Charge for reading a body, and ``steps`` besides."""
        self.charge(client, steps + len(body) // BYTES_A_STEP)
