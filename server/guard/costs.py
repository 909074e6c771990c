"""What a client may have computed: a budget of simulated steps a minute for each address.

Steps of a live episode are not counted, for a client plays them one by one and waits for each. What one
small request can make expensive is: a reset draws an episode's traffic, a replay is its whole length, traffic
in a request's text has to be read.
"""

from __future__ import annotations

import math
import time

import limits
from limits import RateLimitItem, RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from server.api.errors import CostLimitError
from server.guard.clients import is_limited

__all__ = ["RESET_STEPS", "Costs"]

RESET_STEPS = 60
"""What starting an episode costs, in steps: 2–8 ms and one more to cool another session, where a step takes
0.03–0.3 ms (2-core EPYC)."""
BYTES_A_STEP = 100
"""Bytes of a body that cost as much as a step to read: 900 kB of traffic text take 1.4 s, 9,000 steps
0.6–2 s (2-core EPYC)."""
FREE_BYTES = 4096
"""Bytes of a body that cost nothing: those of any step."""
BURST_STEPS = 3000
"""What a client may spend of its budget within one second: spent at once, it would leave nobody else served
well for seconds."""


class Costs:
    """Charges clients for what they ask for.

    Args:
        rate: steps a client may cause, as ``N/minute``; ``off`` charges nobody.
        limit_loopback: charge programs on this machine too.
    """

    def __init__(self, rate: str, limit_loopback: bool = False) -> None:
        self._rate = rate
        whole = None if rate == "off" else limits.parse(rate)
        self._windows: tuple[RateLimitItem, ...] = ()
        if whole is not None:
            self._windows = (RateLimitItemPerSecond(min(whole.amount, BURST_STEPS)), whole)
        self._limit_loopback = limit_loopback
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    def charge(self, client: str, steps: int) -> None:
        """Charge ``steps``. More than half of a window's budget is charged as half of it: a request may be
        charged twice, for its body and for what it asks, and has to pass in a window of its own.

        Raises:
            CostLimitError: the budget does not reach; nothing was charged.
        """
        if not self._windows or not steps or not is_limited(client, self._limit_loopback):
            return
        for window in self._windows:
            if not self._limiter.test(window, client, cost=_within(window, steps)):
                ends_s = self._limiter.get_window_stats(window, client).reset_time
                raise CostLimitError(self._rate, steps, max(1, math.ceil(ends_s - time.time())))
        for window in self._windows:
            self._limiter.hit(window, client, cost=_within(window, steps))

    def charge_body(self, client: str, size: int) -> None:
        """Charge for reading a body of ``size`` bytes. Raises CostLimitError as :meth:`charge`."""
        if size > FREE_BYTES:
            self.charge(client, (size - FREE_BYTES) // BYTES_A_STEP)


def _within(window: RateLimitItem, steps: int) -> int:
    return min(steps, max(1, window.amount // 2))
