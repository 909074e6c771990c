"""Typed schema of InferenceGym/Market-v0: what an agent sends and what it gets back.

The single source of field names, units and bounds. Bounds of the price belong to the scenario that is
played; those here hold for any scenario.
"""

from __future__ import annotations

from math import inf
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from inferencegym.models.base import Validate, Weight, real_number, whole_number

__all__ = [
    "AVG_WAIT_MAX",
    "AVG_WAIT_MIN",
    "EPISODE_HOURS",
    "LINE_CAPACITY",
    "MarketConfig",
    "MarketObservation",
    "MarketState",
    "PriceAction",
]

EPISODE_HOURS = 200
"""Steps (hours) of an episode: a little more than eight days."""

PRICE_LIMIT_LOW, PRICE_LIMIT_HIGH = 0.01, 100.0
"""Prices that any scenario may allow, USD per GPU-hour."""
AVG_WAIT_MIN, AVG_WAIT_MAX = 0.1, 1000.0
"""Average waits that an objective may call too long, hours."""
CHANGE_MAX = 0.5
GPUS_MIN, GPUS_MAX = 8, 256
ARRIVAL_RATE_MIN, ARRIVAL_RATE_MAX = 0.01, 20.0
"""Mean jobs an hour. With fewer than one in 100 hours most episodes would have no customer at all."""
LINE_CAPACITY = 256
"""Jobs that may wait; more are turned away."""
JOBS_PER_HOUR_MAX = 128
WAIT_HOURS_MAX = 50_000.0


def _any_number(value: Any) -> Any:
    """A number of any size: a whole one beyond all floats is infinite."""
    value = real_number(value)
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return inf if value > 0 else -inf
    return value


# The limits stand first and inside: elsewhere an optional field keeps them out of its JSON schema.
_Price = Annotated[
    float,
    Field(allow_inf_nan=True),
    BeforeValidator(_any_number),
    WithJsonSchema({"type": "number", "minimum": PRICE_LIMIT_LOW, "maximum": PRICE_LIMIT_HIGH}),
]
"""Any number: the environment refuses it with the bounds of its scenario, which alone are in force."""
_Change = Annotated[float, Field(ge=-CHANGE_MAX, le=CHANGE_MAX), BeforeValidator(real_number)]
_Gpus = Annotated[int, Field(ge=GPUS_MIN, le=GPUS_MAX), BeforeValidator(whole_number)]
_Bound = Annotated[float, Field(ge=PRICE_LIMIT_LOW, le=PRICE_LIMIT_HIGH), BeforeValidator(real_number)]
_Wait = Annotated[float, Field(ge=AVG_WAIT_MIN, le=AVG_WAIT_MAX), BeforeValidator(real_number)]
_Rate = Annotated[float, Field(ge=ARRIVAL_RATE_MIN, le=ARRIVAL_RATE_MAX), BeforeValidator(real_number)]


class PriceAction(BaseModel):
    """The price of the next hour: either the price itself, or a change of the last one. Neither keeps it."""

    # NaN stays NaN on its way to a server: as null it would keep the price.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, ser_json_inf_nan="constants")
    validate: ClassVar[Any] = Validate()

    price: _Price | None = Field(
        default=None,
        description="Price in USD per GPU-hour, within the scenario's bounds (min_price and max_price of the "
        "observation); outside of them it is refused. Without price and change the last price stays.",
    )
    change: _Change | None = Field(
        default=None,
        description="Change relative to the last price: 0.05 is 5 % up. It ends at the scenario's bounds.",
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> PriceAction:
        if self.price is not None and self.change is not None:
            raise ValueError("give price or change, not both")
        return self


class MarketObservation(BaseModel):
    """What the provider sees after each hour (and at reset). It does not see who was put off by the price."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    price: float = Field(ge=0.0, le=PRICE_LIMIT_HIGH, description="Price of the last hour, USD per GPU-hour.")
    queue_depth: int = Field(ge=0, le=LINE_CAPACITY, description="Jobs waiting at the end of the hour.")
    utilization: float = Field(ge=0.0, le=1.0, description="Share of the GPUs that worked in the hour.")
    running_gpus: int = Field(ge=0, le=GPUS_MAX, description="GPUs that worked in the hour.")
    arrivals: int = Field(
        ge=0, le=JOBS_PER_HOUR_MAX, description="Jobs that accepted the price and joined the line."
    )
    expected_wait_h: float = Field(
        ge=0.0, le=WAIT_HOURS_MAX, description="Hours that a job joining the line now would wait, about."
    )
    revenue: float = Field(ge=0.0, description="Revenue of the hour, USD: price x running_gpus.")
    interrupted_gpus: int = Field(
        ge=0, le=GPUS_MAX, description="GPUs whose jobs stopped because the price rose above their limit."
    )
    zero_streak: int = Field(
        ge=0, le=EPISODE_HOURS, description="Hours in a row in which nobody accepted the price."
    )
    death_risk: float = Field(
        ge=0.0, le=1.0, description="How near the streak is to the market's death, which comes at 1."
    )
    hour_of_day: int = Field(ge=0, le=23, description="Hour of the day that comes next.")
    timestep: int = Field(ge=0, le=EPISODE_HOURS, description="Hours played in this episode.")
    gpus: int = Field(ge=GPUS_MIN, le=GPUS_MAX, description="GPUs that the provider has.")
    min_price: float = Field(ge=PRICE_LIMIT_LOW, le=PRICE_LIMIT_HIGH, description="Lowest price allowed.")
    max_price: float = Field(ge=PRICE_LIMIT_LOW, le=PRICE_LIMIT_HIGH, description="Highest price allowed.")

    @property
    def price_level(self) -> float:
        """Where the price stands between its bounds, in [0, 1]."""
        return (self.price - self.min_price) / (self.max_price - self.min_price)


class MarketConfig(BaseModel):
    """What an episode changes of its task: scenario, size, demand, or the objective, which is the weights of
    the reward and the constraints."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    scenario: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="A scenario of GET /info instead of the task's."
    )
    gpus: _Gpus | None = Field(default=None, description="GPUs instead of the scenario's.")
    arrival_rate: _Rate | None = Field(
        default=None,
        description="Mean jobs per hour instead of the scenario's, before its factors; with the largest of "
        "them at most 64 (surge: 17.77, adversarial: 19.04).",
    )
    revenue: Weight | None = Field(default=None, description="Weight of revenue.")
    low_wait_time: Weight | None = Field(default=None, description="Weight of short waits.")
    fairness: Weight | None = Field(default=None, description="Weight of fairness.")
    market_activity: Weight | None = Field(default=None, description="Weight of a live market.")
    min_price: _Bound | None = Field(
        default=None, description="Lowest price, USD per GPU-hour; at most the scenario's opening price."
    )
    max_price: _Bound | None = Field(
        default=None, description="Highest price, USD per GPU-hour; at least the scenario's opening price."
    )
    max_avg_wait: _Wait | None = Field(
        default=None, description="Expected wait, hours, that costs half of the weight of short waits."
    )


class MarketState(BaseModel):
    """Metadata of an episode; with the actions it reproduces the episode exactly."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    session_id: str = ""
    episode_id: str
    task_id: str
    scenario: str
    seed: int = Field(ge=0)
    step_count: int = Field(ge=0)
    cumulative_reward: float
    done: bool
    dead: bool = Field(description="Nobody accepted the price for too long; the episode ended there.")
