"""Pricing policies of InferenceGym/Market-v0 in whole numbers: the rule, and the five-parameter one that is
evolved.

Prices are micro-USD per GPU-hour, shares and gains at SCALE. The functions are plain arithmetic: training
runs compiled copies of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from typing import Any

from inferencegym.errors import InvalidValueError, UnknownNameError
from simulator.market.config import MarketSetup, canonical_json, micro
from simulator.market.kernel import SCALE

__all__ = ["PARAMETER_NAMES", "PriceParameters", "gain_price", "parameter_bounds", "rule_price"]

RISE, FALL = 105, 95
"""Steps of the rule, per cent of the price."""
BUSY_ABOVE, IDLE_BELOW = 900_000, 600_000


def rule_price(price: int, busy: int, waiting: int, gpus: int, low: int, high: int) -> int:
    """5 % up when more than 0.9 of the GPUs work or the line is longer than half of them, 5 % down when
    less than 0.6 work."""
    share = busy * SCALE // gpus
    if share > BUSY_ABOVE or 2 * waiting > gpus:
        price = price * RISE // 100
    elif share < IDLE_BELOW:
        price = price * FALL // 100
    return min(max(price, low), high)


def gain_price(parameters: Any, price: int, busy: int, waiting: int, gpus: int, low: int, high: int) -> int:
    """A proportional controller on the line and on utilization around a base price, smoothed.

    Args:
        parameters: five numbers, see :class:`PriceParameters`.
        price: the last price.
        busy: GPUs that worked in the last hour.
        waiting: jobs in line.
        gpus: all GPUs.
        low, high: bounds of the price.
    """
    queue, share = waiting * SCALE // gpus, busy * SCALE // gpus
    factor = SCALE + parameters[1] * queue // SCALE + parameters[2] * (share - parameters[3]) // SCALE
    target = parameters[0] * factor // SCALE
    smooth = (parameters[4] * price + (SCALE - parameters[4]) * target) // SCALE
    return min(max(smooth, low), high)


@dataclass(frozen=True, slots=True)
class PriceParameters:
    """The five numbers of :func:`gain_price`, at SCALE."""

    base_price: int
    """Price with an empty line at the utilization target, micro-USD per GPU-hour."""
    queue_gain: int
    """Relative rise for each waiting job per GPU."""
    utilization_gain: int
    """Relative rise for each share of GPUs above the target (fall below it)."""
    utilization_target: int
    smoothing: int
    """Share of the last price in the next one."""

    @classmethod
    def checked(cls, values: Mapping[str, Any], setup: MarketSetup) -> PriceParameters:
        """Parameters from numbers in natural units (USD, shares).

        Raises:
            UnknownNameError: a name that is not a parameter's.
            InvalidValueError: one is missing, not a number, or outside its bounds.
        """
        for name in values:
            if name not in PARAMETER_NAMES:
                raise UnknownNameError("parameter", name, PARAMETER_NAMES)
        found: list[int] = []
        for name, (low, high) in zip(PARAMETER_NAMES, parameter_bounds(setup), strict=True):
            value = values.get(name)
            allowed = f"a number from {low / SCALE:g} to {high / SCALE:g}"
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e6:
                raise InvalidValueError(f"parameters.{name}", value, allowed)
            if not low <= micro(value) <= high:
                raise InvalidValueError(f"parameters.{name}", value, allowed)
            found.append(micro(value))
        return cls(*found)

    @classmethod
    def untrained(cls, setup: MarketSetup) -> PriceParameters:
        """Where the search starts from: the middle of every range."""
        return cls(*((low + high) // 2 for low, high in parameter_bounds(setup)))

    def values(self) -> tuple[int, ...]:
        """In the order of :func:`gain_price`."""
        return tuple(asdict(self).values())

    def natural(self) -> dict[str, float]:
        """In natural units, six decimals."""
        return {name: value / SCALE for name, value in asdict(self).items()}

    def hash(self) -> str:
        """SHA-256 over the whole numbers, in hexadecimal."""
        return sha256(canonical_json(asdict(self)).encode()).hexdigest()


PARAMETER_NAMES = tuple(field.name for field in fields(PriceParameters))

GAIN_MAX = 4 * SCALE
TARGET_LOW, TARGET_HIGH = 300_000, SCALE
SMOOTHING_MAX = 950_000


def parameter_bounds(setup: MarketSetup) -> Sequence[tuple[int, int]]:
    """Lowest and highest value of each parameter; policy and trainer hold to them."""
    return (
        (setup.min_price, setup.max_price),
        (0, GAIN_MAX),
        (0, GAIN_MAX),
        (TARGET_LOW, TARGET_HIGH),
        (0, SMOOTHING_MAX),
    )
