"""Objectives and scenarios of the GPU market: YAML files, validated, and what an engine needs of them.

The shipped files are ``simulator/data/market/objective.yaml`` and ``scenarios.yaml``. In the files, money is
in USD per GPU-hour and time in hours; :class:`MarketSetup` holds the same as whole numbers at ``SCALE``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from math import floor, prod
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from inferencegym.errors import InvalidValueError, UnknownNameError
from inferencegym.models.base import Real, Weight, Whole
from inferencegym.models.market import (
    ARRIVAL_RATE_MAX,
    ARRIVAL_RATE_MIN,
    AVG_WAIT_MAX,
    AVG_WAIT_MIN,
    GPUS_MAX,
    GPUS_MIN,
    PRICE_LIMIT_HIGH,
    PRICE_LIMIT_LOW,
)
from simulator.kernels.sums import ordered_sum
from simulator.market.kernel import EVENTS_MAX, HOURS_PER_DAY, JOB_GPUS, MAX_RATE, PERIOD_HOURS_MIN, SCALE

__all__ = [
    "OBJECTIVE_PATH",
    "SCENARIOS_PATH",
    "Event",
    "MarketFiles",
    "MarketSetup",
    "Objective",
    "Scenario",
    "ScheduledEvent",
    "canonical_json",
    "load_market",
    "micro",
]

_FOLDER = Path(__file__).parents[1] / "data" / "market"
OBJECTIVE_PATH = _FOLDER / "objective.yaml"
SCENARIOS_PATH = _FOLDER / "scenarios.yaml"

LOGNORMAL_LIMITS = (
    *(275_845, 464_376, 562_607, 641_739, 713_734, 783_184, 852_724, 924_358, 1_000_000),
    *(1_081_831, 1_172_713, 1_276_840, 1_401_082, 1_558_265, 1_777_441, 2_153_426, 3_625_219),
)
"""Quantiles 0/16 to 16/16 of a lognormal with median 1 and sigma 0.5, at SCALE; the outermost are those of
0.005 and 0.995. Written out, so that no platform's exp() decides who joins."""

HOURLY_ARRIVALS = (*(0.70,) * 9, *(1.20,) * 3, 0.85, *(1.15,) * 5, 0.85, 0.95, *(1.00,) * 3, 0.95)
"""Arrivals by hour of the day, relative: the workload generator of Joulie, after the submissions that the
Helios cluster study (arXiv 2109.01313) reports: quiet nights, a midday dip, a busy working day."""

GPU_SHARES = {1: 0.80, 2: 0.10, 4: 0.07, 8: 0.03}
"""Share of jobs by GPUs: the prior of the same generator, after the shape of the Helios traces."""

HOUR_SHARES = {1: 0.30, 2: 0.25, 4: 0.20, 8: 0.17, 16: 0.08}
"""Share of jobs by hours they run. Ours: short rentals are most, long ones are most of the GPU-hours."""


def micro(value: float) -> int:
    """A number at SCALE."""
    return round(value * SCALE)


class _Strict(BaseModel, frozen=True):
    """No unknown keys, no infinities."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Weights(_Strict, frozen=True):
    """Relative weights of the reward's parts."""

    revenue: Weight
    low_wait_time: Weight
    fairness: Weight
    market_activity: Weight

    @model_validator(mode="after")
    def _something_counts(self) -> Weights:
        if not any(map(micro, (self.revenue, self.low_wait_time, self.fairness, self.market_activity))):
            raise ValueError("the weights must not all be 0 (they count in millionths)")
        return self


Model = TypeVar("Model", bound=BaseModel)
Price = Annotated[Real, Field(ge=PRICE_LIMIT_LOW, le=PRICE_LIMIT_HIGH)]


class Constraints(_Strict, frozen=True):
    """Bounds of the price, USD per GPU-hour, and the average wait that counts as too long, hours."""

    min_price: Price
    max_price: Price
    max_avg_wait: Real = Field(ge=AVG_WAIT_MIN, le=AVG_WAIT_MAX)

    @model_validator(mode="after")
    def _ordered(self) -> Constraints:
        if micro(self.min_price) >= micro(self.max_price):
            raise ValueError(
                f"min_price ({self.min_price}) must be below max_price ({self.max_price}) by 0.000001 or more"
            )
        return self


class Objective(_Strict, frozen=True):
    """What a provider is rewarded for, within which prices."""

    weights: Weights
    constraints: Constraints


class Event(_Strict, frozen=True):
    """Something that happens once in every ``period_h`` hours, at an hour drawn by the seed."""

    name: str = Field(min_length=1, max_length=40)
    period_h: Whole = Field(ge=PERIOD_HOURS_MIN, le=1000)
    duration_h: Whole = Field(ge=1, le=1000)
    arrivals: Real = Field(1.0, ge=0.0, le=10.0, description="Factor on the arrival rate.")
    limits: Real = Field(1.0, ge=0.1, le=10.0, description="Factor on what new customers would pay.")

    @model_validator(mode="after")
    def _fits(self) -> Event:
        if self.duration_h > self.period_h:
            raise ValueError(f"duration_h ({self.duration_h}) must not exceed period_h ({self.period_h})")
        return self


Factor = Annotated[Real, Field(ge=0.0, le=10.0)]
Share = Annotated[Real, Field(ge=0.0, le=1.0)]


class Scenario(_Strict, frozen=True):
    """A market: what is sold, who comes, and what happens."""

    card: Literal["H100", "H200", "A100-80", "A100-40", "L40S", "RTX 4090", "B200"]
    gpus: Whole = Field(ge=GPUS_MIN, le=GPUS_MAX)
    arrival_rate: Real = Field(
        ge=ARRIVAL_RATE_MIN, le=ARRIVAL_RATE_MAX, description="Jobs per hour that look at the price."
    )
    median_limit: Price = Field(description="Half of the customers pay more, USD per GPU-hour.")
    opening_price: Price
    hourly_arrivals: tuple[Factor, ...] = Field(
        HOURLY_ARRIVALS, min_length=HOURS_PER_DAY, max_length=HOURS_PER_DAY
    )
    job_gpus: dict[Literal[1, 2, 4, 8], Share] = Field(default=cast("Any", GPU_SHARES))
    job_hours: dict[Annotated[int, Field(ge=1, le=168)], Share] = Field(default=HOUR_SHARES, max_length=12)
    patience_h: Whole = Field(12, ge=1, le=168, description="Hours after which a waiting job gives up.")
    events: tuple[Event, ...] = Field((), max_length=EVENTS_MAX)
    objective: dict[str, dict[str, Any]] = Field(
        default={}, description="Fields of the objective that this market changes."
    )

    @model_validator(mode="after")
    def _sums(self) -> Scenario:
        for name in ("job_gpus", "job_hours"):
            total = ordered_sum(getattr(self, name).values())
            if abs(total - 1.0) > 1e-6:
                raise ValueError(f"the shares of {name} must sum to 1, they sum to {total:.6g}")
        if not any(map(micro, self.hourly_arrivals)):
            raise ValueError("hourly_arrivals must not all be 0")
        factor = max(self.hourly_arrivals) * prod(max(1.0, event.arrivals) for event in self.events)
        if micro(self.arrival_rate * factor) > MAX_RATE:
            most = MAX_RATE // SCALE
            raise PydanticCustomError(
                "arrival_rate",
                "at most {rate}, so that with the largest factors ({factor}) at most {most} jobs/h come",
                {
                    "key": "arrival_rate",
                    "value": self.arrival_rate,
                    "rate": floor(most / factor * 100) / 100,
                    "factor": round(factor, 6),
                    "most": most,
                },
            )
        return self


@dataclass(frozen=True, slots=True)
class ScheduledEvent:
    """An :class:`Event` at SCALE."""

    name: str
    period_h: int
    duration_h: int
    arrivals: int
    limits: int


@dataclass(frozen=True, slots=True)
class MarketSetup:
    """A scenario under an objective, in whole numbers: all that an engine, a policy and a reward need.

    Money in micro-USD per GPU-hour; rates, shares, factors and weights at SCALE. The weights sum to SCALE
    or a few units less.
    """

    scenario: str
    gpus: int
    arrival_rate: int
    opening_price: int
    min_price: int
    max_price: int
    max_avg_wait: int
    patience_h: int
    weight_revenue: int
    weight_low_wait_time: int
    weight_fairness: int
    weight_market_activity: int
    hourly_arrivals: tuple[int, ...]
    limits: tuple[int, ...]
    size_shares: tuple[int, ...]
    length_shares: tuple[int, ...]
    lengths: tuple[int, ...]
    events: tuple[ScheduledEvent, ...]

    def clamped(self, price: int) -> int:
        """The nearest price within the objective's bounds."""
        return min(max(price, self.min_price), self.max_price)

    @property
    def job_gpu_hours(self) -> int:
        """Mean GPU-hours of a job, at SCALE."""
        return _mean(JOB_GPUS, self.size_shares) * _mean(self.lengths, self.length_shares) // SCALE

    def config_hash(self) -> str:
        """SHA-256 over every number, in hexadecimal."""
        return sha256(canonical_json(asdict(self)).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and nothing optional in it: equal values have equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


@dataclass(frozen=True, slots=True)
class MarketFiles:
    """An objective and the scenarios that it applies to."""

    objective: Objective
    scenarios: dict[str, Scenario]
    scenarios_name: str = SCENARIOS_PATH.name

    def setup(
        self,
        name: str,
        gpus: int | None = None,
        arrival_rate: float | None = None,
        objective: Mapping[str, Mapping[str, float]] | None = None,
    ) -> MarketSetup:
        """A scenario with some of its numbers replaced.

        Args:
            name: of the scenario.
            gpus, arrival_rate: instead of the scenario's.
            objective: ``{"weights": {...}, "constraints": {...}}`` on top of the scenario's.

        Raises:
            UnknownNameError: no such scenario; lists near matches.
            InvalidValueError: a number that is not allowed, by its key.
        """
        scenario, merged = self._named(name), self._own_objective(name)
        given = {"gpus": gpus, "arrival_rate": arrival_rate}
        changed = {key: value for key, value in given.items() if value is not None}
        if changed:
            scenario = _validated(Scenario, {**scenario.model_dump(), **changed}, "config", separator=".")
        if not objective:
            return _setup(name, scenario, self.objective_of(name), self.scenarios_name)
        goal = _validated(Objective, _merged(merged, objective), "config")
        _check_opening(scenario, objective.get("constraints", {}))
        return _setup(name, scenario, goal, self.scenarios_name)

    def objective_of(self, name: str) -> Objective:
        """The objective of a scenario. Raises as :meth:`setup`."""
        where = f"{self.scenarios_name}: {name}.objective"
        return _validated(Objective, self._own_objective(name), where)

    def _own_objective(self, name: str) -> dict[str, Any]:
        return _merged(self.objective.model_dump(), self._named(name).objective)

    def _named(self, name: str) -> Scenario:
        if name not in self.scenarios:
            raise UnknownNameError("scenario", name, self.scenarios)
        return self.scenarios[name]


def load_market(objective: Path = OBJECTIVE_PATH, scenarios: Path = SCENARIOS_PATH) -> MarketFiles:
    """Read both files; the shipped ones by default.

    Raises:
        InvalidValueError: not readable, not YAML, or a value that is not allowed; names file and key.
    """
    files = _load(objective, scenarios)
    for name in files.scenarios:
        files.setup(name)
    return files


@cache
def _load(objective: Path, scenarios: Path) -> MarketFiles:
    goal = _validated(Objective, _read(objective), objective.name)
    found = _read(scenarios)
    if not found:
        raise InvalidValueError(scenarios.name, found, "at least one scenario")
    parsed = {str(name): _validated(Scenario, raw, scenarios.name, str(name)) for name, raw in found.items()}
    return MarketFiles(goal, parsed, scenarios.name)


class _OnceLoader(yaml.SafeLoader):
    """Refuses a mapping that has a key twice; YAML forbids it, the library takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping. Raises ConstructorError for a second key."""
        seen = set[tuple[str, str]]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} stands there twice", key.start_mark
                    )
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


def _read(path: Path) -> dict[str, Any]:
    try:
        document: Any = yaml.load(path.read_text(encoding="utf-8"), _OnceLoader)  # noqa: S506 - a SafeLoader
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InvalidValueError(path.name, str(path), "a readable YAML file", str(error)) from None
    if not isinstance(document, dict):
        raise InvalidValueError(path.name, cast("object", document), "a mapping of keys to values")
    return cast("dict[str, Any]", document)


def _validated(model: type[Model], raw: Any, where: str, *path: str, separator: str = ": ") -> Model:
    """``raw`` as a model; the first fault is raised with the file and the key."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        # An unknown key first: it is what a missing one was misspelt as.
        faults = sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
        detail = faults[0]
        rule: dict[str, Any] = detail.get("ctx", {})
        key = ".".join([*path, *(str(part) for part in detail["loc"]), *filter(None, [rule.get("key")])])
        allowed = detail["msg"].removeprefix("Value error, ")
        missing = [str(fault["loc"][-1]) for fault in faults if fault["type"] == "missing"]
        if detail["type"] == "extra_forbidden" and missing:
            allowed = f"a known key (missing: {', '.join(missing)})"
        field = f"{where}{separator}{key}" if key else where
        raise InvalidValueError(field, rule.get("value", detail.get("input")), allowed) from None


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = dict(base)
    for key, value in over.items():
        before = merged.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            merged[key] = _merged(cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", value))
        else:
            merged[key] = value
    return merged


def _check_opening(scenario: Scenario, constraints: Mapping[str, float]) -> None:
    """Raises InvalidValueError for a bound of a config that the market's first price would break."""
    opening = scenario.opening_price
    for key, at_least in (("min_price", False), ("max_price", True)):
        bound = constraints.get(key, opening)
        if micro(bound) < micro(opening) if at_least else micro(bound) > micro(opening):
            allowed = f"at {'least' if at_least else 'most'} {opening}, the scenario's opening price"
            raise InvalidValueError(f"config.{key}", bound, allowed)


def _setup(name: str, scenario: Scenario, objective: Objective, file: str) -> MarketSetup:
    constraints, weights = objective.constraints, objective.weights
    low, high = micro(constraints.min_price), micro(constraints.max_price)
    opening = micro(scenario.opening_price)
    if not low <= opening <= high:
        allowed = f"within the objective's bounds, {constraints.min_price} to {constraints.max_price}"
        raise InvalidValueError(f"{file}: {name}.opening_price", scenario.opening_price, allowed)
    parts = [micro(part) for part in weights.model_dump().values()]
    whole = sum(parts)  # whole numbers
    revenue, wait, fairness, activity = (part * SCALE // whole for part in parts)
    lengths = sorted(scenario.job_hours)
    return MarketSetup(
        scenario=name,
        gpus=scenario.gpus,
        arrival_rate=micro(scenario.arrival_rate),
        opening_price=opening,
        min_price=low,
        max_price=high,
        max_avg_wait=micro(constraints.max_avg_wait),
        patience_h=scenario.patience_h,
        weight_revenue=revenue,
        weight_low_wait_time=wait,
        weight_fairness=fairness,
        weight_market_activity=activity,
        hourly_arrivals=tuple(micro(factor) for factor in scenario.hourly_arrivals),
        limits=tuple(micro(scenario.median_limit) * limit // SCALE for limit in LOGNORMAL_LIMITS),
        size_shares=_cumulative([scenario.job_gpus.get(cast("Any", size), 0.0) for size in JOB_GPUS]),
        length_shares=_cumulative([scenario.job_hours[hours] for hours in lengths]),
        lengths=tuple(lengths),
        events=tuple(
            ScheduledEvent(
                event.name, event.period_h, event.duration_h, micro(event.arrivals), micro(event.limits)
            )
            for event in scenario.events
        ),
    )


def _cumulative(shares: list[float]) -> tuple[int, ...]:
    """Cumulative shares at SCALE; from the last that is above 0 on they are SCALE."""
    total, sums = 0, list[int]()
    for share in shares:
        total += micro(share)
        sums.append(total)
    return tuple(SCALE if done >= total else done for done in sums)


def _mean(values: tuple[int, ...], shares: tuple[int, ...]) -> int:
    before = (0, *shares)
    return sum(value * (shares[i] - before[i]) for i, value in enumerate(values))  # whole numbers
