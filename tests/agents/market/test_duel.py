"""Two policies in lockstep: same customers, surges and shocks for both, death, summary."""

from __future__ import annotations

import csv
import io

import pytest

from agents.market.duel import Duel
from agents.market.play import Policy, gain_policy, make_demand, named_policy, play_market
from agents.market.policies import PriceParameters
from env.market.episode import make_env
from inferencegym.errors import EpisodeDoneError, InvalidValueError, UnknownNameError
from inferencegym.models.market import PriceAction
from simulator.market.config import load_market
from simulator.market.engine import HourCounts

SETUP = load_market().setup("surge")
DEAR: Policy = lambda last: SETUP.max_price  # noqa: E731


def duel(left: str = "rule", right: str = "evolved", seed: int = 3, hours: int = 120) -> Duel:
    return Duel(SETUP, (left, named_policy(left, SETUP)), (right, named_policy(right, SETUP)), seed, hours)


def test_each_side_plays_its_own_episode_of_that_seed():
    both = duel()
    while not both.done:
        both.step()
    for side in both.sides:
        alone = list(play_market(SETUP, side.policy, make_demand(SETUP, 3, 120)))
        assert [row.cumulative_reward for row in side.rows] == [
            hour.cumulative_reward / 1e6 for hour in alone
        ]
    env = make_env("surge", 3)
    env.reset()
    for row in both.sides[0].rows:
        observation, reward, _, _ = env.step(PriceAction(price=row.price))
        assert (observation.revenue, reward) == (row.revenue, row.reward)


def test_both_meet_the_same_customers_at_different_prices():
    both = duel()
    seen: list[tuple[HourCounts, HourCounts]] = []
    while not both.done:
        both.step()
        left, right = both.sides
        seen.append((left.last, right.last))
    assert all(left.arrived == right.arrived for left, right in seen)
    assert any(left.price != right.price for left, right in seen)
    assert any(left.joined != right.joined for left, right in seen)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_bad_seed_is_refused(seed: int):
    with pytest.raises(InvalidValueError, match="seed"):
        duel(seed=seed)


def test_totals_are_exact_and_jobs_taken_over_are_counted():
    both = duel("hold", "rule", hours=200)
    while not both.done:
        both.step()
    for summary, side in zip(both.summary(), both.sides, strict=True):
        assert summary.total_revenue == sum(round(row.revenue * 1e6) for row in side.rows) / 1e6
        assert summary.jobs_taken_over > 0
        assert summary.jobs_finished <= summary.jobs_taken_over + summary.jobs_joined
    assert {row.price for row in both.sides[0].rows} == {SETUP.opening_price / 1e6}


def test_a_surge_hits_both_from_the_next_hour_on():
    calm, surged = duel("static", "static"), duel("static", "static")
    for hour in range(120):
        if hour == 50:
            surged.surge(hours=10)
        calm.step()
        surged.step()
        for side in (0, 1):
            one, other = calm.sides[side].last, surged.sides[side].last
            assert (other.arrived > one.arrived) == (50 <= hour < 60) or one.arrived == other.arrived
    assert [surged.sides[0].rows[i].arrivals for i in range(50)] == [
        calm.sides[0].rows[i].arrivals for i in range(50)
    ]
    gained = [
        sum(surged.sides[side].rows[i].arrivals - calm.sides[side].rows[i].arrivals for i in range(50, 60))
        for side in (0, 1)
    ]
    assert gained[0] == gained[1] > 0


def test_a_shock_lowers_what_new_customers_of_both_pay():
    calm, shocked = duel("static", "static"), duel("static", "static")
    for hour in range(70):
        if hour == 50:
            shocked.shock(hours=10)
        calm.step()
        shocked.step()
    for side in (0, 1):
        after, before = shocked.sides[side].rows[50:60], calm.sides[side].rows[50:60]
        assert sum(row.arrivals for row in after) < sum(row.arrivals for row in before)
    with pytest.raises(InvalidValueError, match="hours"):
        shocked.shock(hours=0)
    with pytest.raises(InvalidValueError, match="factor"):
        shocked.surge(arrivals=-1)


def test_a_dead_side_stands_still_while_the_other_goes_on():
    both = Duel(SETUP, ("dear", DEAR), ("evolved", named_policy("evolved", SETUP)), 3, 150)
    while not both.done:
        both.step()
    dead, alive = both.sides
    assert dead.dead
    assert not alive.dead
    assert len(dead.rows) == len(alive.rows) == 150
    died = next(row.hour for row in dead.rows if row.dead)
    after = dead.rows[died:]
    assert {row.cumulative_reward for row in after} == {dead.rows[died - 1].cumulative_reward}
    assert {(row.revenue, row.reward, row.arrivals, row.queue_depth) for row in after} == {(0, 0, 0, 0)}
    lost, won = both.summary()
    assert (lost.active_hours, lost.died_at_hour) == (died, died)
    assert (won.active_hours, won.died_at_hour) == (150, None)
    assert lost.mean_price == 7.0
    assert lost.mean_utilization == pytest.approx(sum(r.utilization for r in dead.rows[:died]) / died)
    assert lost.total_revenue == pytest.approx(sum(row.revenue for row in dead.rows))


def test_it_ends_with_the_hours_or_with_both_markets():
    both = duel(hours=5)
    assert both.summary()[0].active_hours == 0
    for _ in range(5):
        left, right = both.step()
    assert left.hour == right.hour == 5
    with pytest.raises(EpisodeDoneError):
        both.step()
    dying = Duel(SETUP, ("a", DEAR), ("b", DEAR), 3, 500)
    while not dying.done:
        dying.step()
    assert dying.hour < 200


def test_deltas_and_the_csv_log():
    both = duel(hours=30)
    while not both.done:
        both.step()
    rows = both.sides[1].rows
    assert rows[9].deltas(rows[8])["price"] == rows[9].price - rows[8].price
    logged = list(csv.DictReader(io.StringIO(both.csv())))
    assert len(logged) == 60
    assert {row["side"] for row in logged} == {"rule", "evolved"}
    assert float(logged[-1]["cumulative_reward"]) == rows[-1].cumulative_reward


def test_a_newly_trained_policy_can_take_a_side():
    parameters = PriceParameters.untrained(SETUP)
    both = Duel(
        SETUP, ("old", named_policy("untrained", SETUP)), ("new", gain_policy(SETUP, parameters)), 1, 20
    )
    while not both.done:
        left, right = both.step()
        assert left == right
    with pytest.raises(UnknownNameError):
        named_policy("best", SETUP)


@pytest.mark.parametrize("scenario", list(load_market().scenarios))
def test_a_random_price_wins_no_scenario(scenario: str):
    import numpy as np

    setup = load_market().setup(scenario)
    totals: dict[str, list[int]] = {"random": [], "rule": [], "evolved": []}
    for seed in range(200, 210):
        rng = np.random.default_rng((seed, 1))
        policies = {name: named_policy(name, setup) for name in ("rule", "evolved")}
        policies["random"] = lambda last, rng=rng: int(rng.integers(setup.min_price, setup.max_price + 1))
        for name, policy in policies.items():
            totals[name].append(
                list(play_market(setup, policy, make_demand(setup, seed)))[-1].cumulative_reward
            )
    for name in ("rule", "evolved"):
        gains = np.array(totals[name]) - np.array(totals["random"])
        assert gains.mean() > 4 * gains.std() / 10**0.5
