"""InferenceGym/Market-v0: an agent sets the price of GPU capacity every hour.

The core environment: no web framework, no OpenEnv. See :class:`MarketEnv`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from pydantic import ValidationError

from env.checks import check_alike, checked_progress, checked_seed, checked_snapshot, invalid_value
from env.market.reward import TERMS, expected_wait, goal_of, weigh_hour
from env.market.tasks import TASKS, get_market_task
from env.protocols import TaskInfo, TaskName
from inferencegym.errors import EpisodeDoneError, EpisodeNotStartedError, InvalidValueError
from inferencegym.models.base import construct
from inferencegym.models.market import MarketConfig, MarketObservation, PriceAction
from simulator.market.config import MarketSetup, load_market, micro
from simulator.market.engine import Demand, HourCounts, MarketEngine, fluid_revenue
from simulator.market.kernel import DEATH_SILENCE, HOURS_PER_DAY, OPENING_HOURS, SCALE

__all__ = ["COUNT_METRICS", "MarketEnv", "describe", "make_env", "market_of", "parse_price"]

_CHANGING = ("seed", "engine", "last", "step_count", "cumulative_reward")
"""Parts of a snapshot that change as the episode goes on."""

_OBJECTIVE = {
    "weights": ("revenue", "low_wait_time", "fairness", "market_activity"),
    "constraints": ("min_price", "max_price", "max_avg_wait"),
}
"""Fields of a config that change the objective, by its parts."""

COUNT_METRICS = (
    *("running_gpus", "joined", "joined_gpus", "turned_away", "started", "finished"),
    *("interrupted", "interrupted_gpus", "driven_off", "driven_off_gpus", "gave_up", "zero_streak"),
)
"""Metrics that are counts of the hour, by their names in ``HourCounts``."""


def market_of(task_id: TaskName, config: MarketConfig | Mapping[str, Any] | None = None) -> MarketSetup:
    """The market of a task under a config.

    Raises:
        UnknownNameError: no such task or scenario.
        InvalidValueError: a config field that is not allowed.
    """
    given = _config(config)
    name = get_market_task(task_id).id if given.scenario is None else given.scenario
    return load_market().setup(name, given.gpus, given.arrival_rate, _objective(given))


def _objective(config: MarketConfig) -> dict[str, dict[str, float]] | None:
    given = config.model_dump(exclude_none=True)
    parts = {part: {key: given[key] for key in keys if key in given} for part, keys in _OBJECTIVE.items()}
    return {part: values for part, values in parts.items() if values} or None


class MarketEnv:
    """One episode of a provider's market.

    **Description.** A provider rents out its GPUs by the hour at one posted price. Customers with jobs look
    at it; those whose limit it exceeds go elsewhere, the others join the line, start in order of arrival, and
    pay the hour's price for every GPU and hour they run. A price above the limit of a running or waiting job
    puts it out. Demand follows the hour of the day and events; it does not depend on the price.

    **Action space.** :class:`~inferencegym.models.market.PriceAction`: a price, or a relative change. A price
    outside the scenario's bounds is refused; a change ends at the bound, and ``info["saturated"]`` says so.

    **Observation space.** :class:`~inferencegym.models.market.MarketObservation`, 15 fields with units.

    **Rewards.** In [-1, 1]; see :mod:`env.market.reward`. ``info["reward_terms"]`` holds the signed parts.

    **Starting state.** A day at the scenario's opening price, begun by a provider that was empty.

    **Episode end.** Truncated after 200 hours. Terminated when the market dies: when so many hours in a row
    brought nobody that 16 customers would have been expected at a fair price.

    **Arguments.** ``task_id``, ``seed`` (int, 0 to 2**63 - 1), ``config`` (a
    :class:`~inferencegym.models.market.MarketConfig` or mapping), ``setup`` (any other market, instead of the
    task's; no replay by (task, seed, actions) repeats it) and ``engine`` (a faster one with the same numbers:
    :class:`~simulator.market.compiled.CompiledMarketEngine`).

    **Version history.** v0: first release.
    """

    def __init__(
        self,
        task_id: TaskName,
        seed: int = 42,
        config: MarketConfig | Mapping[str, Any] | None = None,
        setup: MarketSetup | None = None,
        engine: Callable[[MarketSetup, Demand], MarketEngine] = MarketEngine,
    ) -> None:
        self.task: TaskInfo = get_market_task(task_id)
        self.setup = market_of(task_id, config) if setup is None else setup
        self.episode_id = ""
        self._seed = checked_seed(seed)
        self._goal = goal_of(self.setup)
        self._terms = [0] * len(TERMS)
        self._bounds = (self.setup.min_price / SCALE, self.setup.max_price / SCALE)
        self._make_engine = engine
        self._engine: MarketEngine | None = None
        self._last = HourCounts(*[0] * len(HourCounts._fields))
        self._fluid_revenue = 0.0
        self._step_count = 0
        self._cumulative_reward = 0

    # --- episode -------------------------------------------------------------------------------------------

    def reset(self, seed: int | None = None) -> MarketObservation:
        """Start over with ``seed`` (``None``: the current one) and return the first observation."""
        if seed is not None:
            self._seed = checked_seed(seed)
        demand = self._demand(self._seed)
        self._engine = self._make_engine(self.setup, demand)
        self._fluid_revenue = (
            fluid_revenue(self.setup, demand.rates[OPENING_HOURS:], demand.willing[OPENING_HOURS:]) / SCALE
        )
        self._last = self._engine.open()
        self._step_count = 0
        self._cumulative_reward = 0
        return self._observe()

    def step(
        self, action: PriceAction | Mapping[str, Any]
    ) -> tuple[MarketObservation, float, bool, dict[str, Any]]:
        """Trade for one hour.

        Raises:
            InvalidValueError: a mapping with a bad field, or a price outside the scenario's bounds; nothing
                changed.
            EpisodeNotStartedError, EpisodeDoneError: wrong time to step; nothing changed.
        """
        engine = self._started()
        if self.done:
            raise EpisodeDoneError(
                f"The episode ended after {self._step_count} steps.", "Call reset() to start a new one."
            )
        if not isinstance(action, PriceAction):
            action = parse_price(action)
        price, saturated = self._price(action)
        counts = engine.trade(price)
        self._last = counts
        self._step_count += 1
        reward = weigh_hour(self._goal, counts, self._terms)
        self._cumulative_reward += reward
        info: dict[str, Any] = {
            "timestep": self._step_count,
            "action": {"price": price / SCALE},
            "saturated": saturated,
            "terminated": bool(counts.dead),
            "metrics": self._metrics(counts),
            "workload": {
                "hour_of_day": (self._step_count - 1) % HOURS_PER_DAY,
                "scenario": self.setup.scenario,
            },
            "masked_actions": [],
            "reward_terms": {name: term / SCALE for name, term in zip(TERMS, self._terms, strict=True)},
        }
        return self._observe(), reward / SCALE, self.done, info

    @property
    def done(self) -> bool:
        """Whether the episode has ended: by its length, or by the market's death."""
        return self._step_count >= self.task.episode_length or bool(self._last.dead)

    def state(self) -> dict[str, Any]:
        """Episode metadata: the fields of :class:`~inferencegym.models.market.MarketState`."""
        self._started()
        return {
            "session_id": "",
            "episode_id": self.episode_id or f"{self.task.id}-{self._seed}",
            "task_id": self.task.id,
            "scenario": self.setup.scenario,
            "seed": self._seed,
            "step_count": self._step_count,
            "cumulative_reward": self._cumulative_reward / SCALE,
            "done": self.done,
            "dead": bool(self._last.dead),
        }

    def snapshot(self) -> dict[str, Any]:
        """Copy of the whole episode; keep it as long as you like."""
        return {
            "setup": self.setup,
            "seed": self._seed,
            "engine": self._started().snapshot(),
            "last": self._last,
            "step_count": self._step_count,
            "cumulative_reward": self._cumulative_reward,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Back to a snapshot of an episode of the same market; what follows is byte-identical.

        Raises InvalidValueError for anything else, also for a snapshot of another market; nothing is changed
        then.
        """
        checked_snapshot(snapshot, {**dict.fromkeys(_CHANGING), "setup": self.setup})
        seed, steps, total = checked_progress(snapshot, self.task.episode_length)
        check_alike("snapshot.last", snapshot["last"], self._last)
        engine = self._engine or self._make_engine(self.setup, self._demand(seed))
        check_alike("snapshot.engine", snapshot["engine"], engine.snapshot())
        if snapshot["engine"][0] != OPENING_HOURS + steps:
            raise InvalidValueError("snapshot.engine[0]", snapshot["engine"][0], f"{OPENING_HOURS + steps}")
        check_alike("snapshot.cumulative_reward", total, 0)
        if self._engine is None or self._seed != seed:
            self.reset(seed)
        self._started().restore(snapshot["engine"])
        self._last = snapshot["last"]
        self._step_count, self._cumulative_reward = steps, int(total)

    # --- parts ---------------------------------------------------------------------------------------------

    def _demand(self, seed: int) -> Demand:
        return Demand(self.setup, np.random.PCG64(seed), OPENING_HOURS + self.task.episode_length)

    def _started(self) -> MarketEngine:
        if self._engine is None:
            raise EpisodeNotStartedError("This episode has not been reset.", "Call reset() first.")
        return self._engine

    def _price(self, action: PriceAction) -> tuple[int, bool]:
        """The hour's price (micro-USD), and whether a change was cut at a bound."""
        setup = self.setup
        if action.price is not None:
            low, high = self._bounds
            if not low <= action.price <= high:  # nan neither
                allowed = f"a number from {low} to {high}, the price bounds of scenario {setup.scenario}"
                raise InvalidValueError("action.price", action.price, allowed)
            return micro(action.price), False
        wanted = self._last.price * (SCALE + micro(action.change or 0.0)) // SCALE
        price = setup.clamped(wanted)
        return price, price != wanted

    def _expected_wait_h(self, counts: HourCounts) -> float:
        return expected_wait(self._goal, counts.waiting_jobs) / SCALE

    def _metrics(self, counts: HourCounts) -> dict[str, Any]:
        return {
            "price": counts.price / SCALE,
            "revenue": counts.revenue / SCALE,
            "utilization": counts.running_gpus / self.setup.gpus,
            "expected_wait_h": self._expected_wait_h(counts),
            "death_risk": counts.silence / DEATH_SILENCE,
            "fluid_revenue": self._fluid_revenue,
            "queue_depth": counts.waiting_jobs,
            **{name: getattr(counts, name) for name in COUNT_METRICS},
            "dead": bool(counts.dead),
        }

    def _observe(self) -> MarketObservation:
        counts, (low, high) = self._last, self._bounds
        return construct(
            MarketObservation,
            {
                "price": counts.price / SCALE,
                "queue_depth": counts.waiting_jobs,
                "utilization": counts.running_gpus / self.setup.gpus,
                "running_gpus": counts.running_gpus,
                "arrivals": counts.joined,
                "expected_wait_h": self._expected_wait_h(counts),
                "revenue": counts.revenue / SCALE,
                "interrupted_gpus": counts.interrupted_gpus,
                "zero_streak": counts.zero_streak,
                "death_risk": counts.silence / DEATH_SILENCE,
                "hour_of_day": self._step_count % HOURS_PER_DAY,
                "timestep": self._step_count,
                "gpus": self.setup.gpus,
                "min_price": low,
                "max_price": high,
            },
        )


def parse_price(action: Any, where: str = "action") -> PriceAction:
    """Validate a mapping. Raises InvalidValueError that names the first bad field, after ``where``."""
    try:
        return PriceAction.model_validate(action)
    except ValidationError as error:
        raise invalid_value(where, error, PriceAction) from None


def _config(config: MarketConfig | Mapping[str, Any] | None) -> MarketConfig:
    if isinstance(config, MarketConfig):
        return config
    try:
        return MarketConfig.model_validate({} if config is None else config)
    except ValidationError as error:
        raise invalid_value("config", error, MarketConfig) from None


def make_env(task_id: TaskName, seed: int = 42, config: Mapping[str, Any] | None = None) -> MarketEnv:
    """An environment over the shipped scenarios (the registry's factory). Call ``reset()`` next."""
    return MarketEnv(task_id, seed, config)


def describe() -> dict[str, Any]:
    """This environment's part of GET /info: objective and scenarios."""
    files = load_market()
    setups = {name: files.setup(name) for name in files.scenarios}
    return {
        "objective": files.objective.model_dump(mode="json"),
        "scenarios": {name: scenario.model_dump(mode="json") for name, scenario in files.scenarios.items()},
        "config_hashes": {name: setup.config_hash() for name, setup in setups.items()},
        "markets": {name: asdict(setup) for name, setup in setups.items()},
        "tasks": {task_id: task_id for task_id in TASKS},
    }
