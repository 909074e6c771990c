"""Two pricing policies side by side on the same customers: the engine behind the dashboard's comparison.

Both sides look at one :class:`~simulator.market.engine.Demand`; only their prices decide who joins where. A
surge or a shock changes that demand and so hits both. A side whose market has died stands still.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from io import StringIO

from agents.market.play import Policy, make_demand
from agents.market.traces import write_csv
from env.market.reward import TERMS, expected_wait, goal_of, weigh_hour
from inferencegym.errors import EpisodeDoneError, InvalidValueError
from inferencegym.models.market import EPISODE_HOURS
from simulator.kernels.sums import ordered_sum
from simulator.market.config import MarketSetup
from simulator.market.engine import HourCounts, MarketEngine
from simulator.market.kernel import DEATH_SILENCE, OPENING_HOURS, SCALE

__all__ = ["Duel", "Row", "Side", "Summary"]

SURGE_ARRIVALS, SHOCK_LIMITS = 2 * SCALE, 6 * SCALE // 10
EVENT_HOURS = 12


@dataclass(frozen=True, slots=True)
class Row:
    """An hour of one side, in natural units, as charts show it."""

    hour: int
    price: float
    queue_depth: int
    utilization: float
    expected_wait_h: float
    arrivals: int
    revenue: float
    reward: float
    cumulative_reward: float
    death_risk: float
    dead: bool

    def deltas(self, before: Row) -> dict[str, float]:
        """Changes since another hour."""
        names = ("price", "queue_depth", "utilization", "expected_wait_h", "revenue", "cumulative_reward")
        return {name: getattr(self, name) - getattr(before, name) for name in names}


@dataclass(frozen=True, slots=True)
class Summary:
    """Means and totals of one side over its active hours: those in which its market lived."""

    active_hours: int
    died_at_hour: int | None
    mean_price: float
    mean_queue_depth: float
    mean_utilization: float
    mean_expected_wait_h: float
    total_revenue: float
    total_reward: float
    jobs_taken_over: int
    """Running or in line when the duel began"""
    jobs_joined: int
    jobs_finished: int


@dataclass(slots=True)
class Side:
    """One policy with its own market."""

    name: str
    policy: Policy
    engine: MarketEngine
    last: HourCounts
    rows: list[Row] = field(default_factory=list[Row])
    cumulative_reward: int = 0
    revenue: int = 0
    taken_over: int = 0
    joined: int = 0
    finished: int = 0

    @property
    def dead(self) -> bool:
        """Its market has died."""
        return bool(self.last.dead)


class Duel:
    """Two policies in lockstep.

    Args:
        setup: the market of both.
        left, right: names and policies.
        seed: of the customers; the same as in an episode of that seed.
        hours: length.
    """

    def __init__(
        self,
        setup: MarketSetup,
        left: tuple[str, Policy],
        right: tuple[str, Policy],
        seed: int,
        hours: int = EPISODE_HOURS,
    ) -> None:
        self.setup = setup
        self.hours = hours
        self.hour = 0
        self.demand = make_demand(setup, seed, hours)
        self._goal = goal_of(setup)
        self.sides = tuple(self._side(*one) for one in (left, right))

    @property
    def done(self) -> bool:
        """No hour is left, or both markets are dead."""
        return self.hour >= self.hours or all(side.dead for side in self.sides)

    def step(self) -> tuple[Row, Row]:
        """Play an hour on both sides and return it; a dead side repeats its last line with nothing sold.

        Raises:
            EpisodeDoneError: the duel is over.
        """
        if self.done:
            raise EpisodeDoneError(f"The duel ended after {self.hour} hours.", "Start a new one.")
        self.hour += 1
        left, right = (self._advance(side) for side in self.sides)
        return left, right

    def surge(self, hours: int = EVENT_HOURS, arrivals: int = SURGE_ARRIVALS) -> None:
        """From the next hour on, multiply arrivals by ``arrivals`` (at SCALE)."""
        self._change(hours, arrivals, SCALE)

    def shock(self, hours: int = EVENT_HOURS, limits: int = SHOCK_LIMITS) -> None:
        """From the next hour on, multiply what new customers would pay by ``limits`` (at SCALE)."""
        self._change(hours, SCALE, limits)

    def summary(self) -> tuple[Summary, Summary]:
        """Both sides over their active hours."""
        left, right = (self._summary(side) for side in self.sides)
        return left, right

    def csv(self) -> str:
        """All hours of both sides as CSV."""
        text = StringIO()
        columns = ("side", *Row.__slots__)
        rows = [
            {"side": side.name, **{name: getattr(row, name) for name in Row.__slots__}}
            for side in self.sides
            for row in side.rows
        ]
        write_csv(text, columns, rows)
        return text.getvalue()

    # --- parts ---------------------------------------------------------------------------------------------

    def _side(self, name: str, policy: Policy) -> Side:
        engine = MarketEngine(self.setup, self.demand)
        last = engine.open()
        return Side(name, policy, engine, last, taken_over=last.running_jobs + last.waiting_jobs)

    def _change(self, hours: int, arrivals: int, limits: int) -> None:
        if hours < 1:
            raise InvalidValueError("hours", hours, "a whole number from 1")
        if min(arrivals, limits) < 0:
            raise InvalidValueError("factor", min(arrivals, limits), "a number from 0")
        self.demand.change(OPENING_HOURS + self.hour, hours, arrivals, limits)

    def _advance(self, side: Side) -> Row:
        if side.dead:
            row = self._row(side, side.last._replace(revenue=0, running_gpus=0, waiting_jobs=0, joined=0), 0)
        else:
            side.last = side.engine.trade(self.setup.clamped(side.policy(side.last)))
            reward = weigh_hour(self._goal, side.last, [0] * len(TERMS))
            side.cumulative_reward += reward
            side.revenue += side.last.revenue
            side.joined += side.last.joined
            side.finished += side.last.finished
            row = self._row(side, side.last, reward)
        side.rows.append(row)
        return row

    def _row(self, side: Side, counts: HourCounts, reward: int) -> Row:
        return Row(
            hour=self.hour,
            price=counts.price / SCALE,
            queue_depth=counts.waiting_jobs,
            utilization=counts.running_gpus / self.setup.gpus,
            expected_wait_h=expected_wait(self._goal, counts.waiting_jobs) / SCALE,
            arrivals=counts.joined,
            revenue=counts.revenue / SCALE,
            reward=reward / SCALE,
            cumulative_reward=side.cumulative_reward / SCALE,
            death_risk=counts.silence / DEATH_SILENCE,
            dead=side.dead,
        )

    def _summary(self, side: Side) -> Summary:
        died = next((row.hour for row in side.rows if row.dead), None)
        active = [row for row in side.rows if died is None or row.hour <= died]

        def mean(value: Callable[[Row], float]) -> float:
            return ordered_sum(value(row) for row in active) / len(active) if active else 0.0

        return Summary(
            active_hours=len(active),
            died_at_hour=died,
            mean_price=mean(lambda row: row.price),
            mean_queue_depth=mean(lambda row: row.queue_depth),
            mean_utilization=mean(lambda row: row.utilization),
            mean_expected_wait_h=mean(lambda row: row.expected_wait_h),
            total_revenue=side.revenue / SCALE,
            total_reward=side.cumulative_reward / SCALE,
            jobs_taken_over=side.taken_over,
            jobs_joined=side.joined,
            jobs_finished=side.finished,
        )
