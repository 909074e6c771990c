"""The integer kernel of the market: sampling, one hour of trade, and what must hold after any hour."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.market import kernel
from simulator.market.config import load_market
from simulator.market.engine import Demand, HourCounts, Job, MarketEngine
from simulator.market.kernel import OPENING_HOURS, POISSON_WORDS, SCALE, exp_minus, poisson, uniform
from tests.simulator.properties import bounded

BOUNDED = bounded(25)
SCENARIOS = list(load_market().scenarios)


def words(seed: int, count: int = POISSON_WORDS) -> list[int]:
    return (np.random.PCG64(seed).random_raw(count) >> np.uint64(1)).tolist()


def started(name: str = "surge", seed: int = 7, hours: int = 80, **changes: Any) -> MarketEngine:
    setup = load_market().setup(name, **changes)
    return MarketEngine(setup, Demand(setup, np.random.PCG64(seed), hours))


# --- sampling: numbers written out, so that another platform that draws otherwise is found out --------------


def test_words_and_uniforms_are_these_on_every_platform():
    first = [
        6233443864366703988,
        1976782621150144620,
        2854191208382115952,
        7373773241406430706,
    ]
    assert words(2024, 4) == first
    assert [uniform(word) for word in words(2024, 6)] == [675832, 214324, 309453, 799467, 995803, 142232]
    assert (uniform(0), uniform(2**63 - 1)) == (1, SCALE)


POISSON_VECTORS = {
    500_000: [1, 0, 0, 0, 1, 2, 0, 1, 0, 1, 1, 0],
    2_000_000: [2, 2, 1, 0, 3, 3, 2, 3, 2, 3, 3, 0],
    8_000_000: [10, 9, 4, 4, 15, 5, 7, 9, 7, 9, 13, 4],
    14_000_000: [14, 12, 11, 10, 23, 13, 13, 16, 12, 23, 20, 13],
    20_000_000: [22, 21, 18, 14, 33, 17, 17, 20, 15, 27, 26, 20],
    60_000_000: [63, 66, 55, 64, 73, 58, 66, 53, 48, 66, 69, 47],
}


@pytest.mark.parametrize("rate", POISSON_VECTORS)
def test_poisson_draws_are_these_on_every_platform(rate: int):
    assert [poisson(rate, words(seed), 0) for seed in range(12)] == POISSON_VECTORS[rate]


def test_the_latent_jobs_are_these_on_every_platform():
    demand = started(hours=80).demand
    assert demand.rates[:10] == [7_700_000] * 9 + [13_200_000]
    assert (demand.rates[19], demand.willing[19]) == (31_350_000, 1_400_000)  # a rush
    assert demand.jobs(19)[:3] == [Job(1, 8, 4575041), Job(1, 8, 9020439), Job(4, 2, 3071693)]
    assert demand.jobs(5)[:3] == [Job(1, 1, 1555951), Job(1, 16, 1816880), Job(1, 8, 2939904)]


def test_exp_minus_is_the_exponential_to_the_unit():
    assert exp_minus(0) == SCALE
    assert exp_minus(2 * SCALE) == kernel.EXP_MINUS_CHUNK == 135_335
    for mean in range(0, 2 * SCALE + 1, 9973):
        assert abs(exp_minus(mean) - SCALE * math.exp(-mean / SCALE)) <= 0.5 + 1e-9


@pytest.mark.parametrize("mean", [0.5, 2, 8, 14, 20, 60])
def test_poisson_has_mean_and_variance_within_a_hundredth(mean: float):
    drawn = many_poissons(round(mean * SCALE), 400_000)
    assert drawn.mean() == pytest.approx(mean, rel=0.01)
    assert drawn.var() == pytest.approx(mean, rel=0.01)


def _fill(rate: int, source: Any, out: Any, draw: Any) -> None:
    for index in range(len(out)):
        out[index] = draw(rate, source[index], 0)


def many_poissons(rate: int, count: int) -> Any:
    """By the compiled copy, which the vectors above hold to the plain one."""
    from simulator.kernels.compiled import compiled

    fill = compiled(_fill, draw=poisson)
    out = np.zeros(count, dtype=np.int64)
    source = np.random.PCG64(99)
    for start in range(0, count, 20_000):
        raw = source.random_raw((20_000, POISSON_WORDS)) >> np.uint64(1)
        fill(rate, raw.astype(np.int64), out[start : start + 20_000])
    assert out[:12].tolist() == [
        poisson(rate, row.tolist(), 0)
        for row in (np.random.PCG64(99).random_raw((12, POISSON_WORDS)) >> np.uint64(1))
    ]
    return out


def test_plain_knuth_would_stick_near_thirteen(monkeypatch: pytest.MonkeyPatch):
    """Why the sampler works in chunks: at six decimals e^-20 is 0, and the product gets there first."""
    monkeypatch.setattr(kernel, "POISSON_CHUNK", 64 * SCALE)
    source = np.random.PCG64(5)
    drawn = [
        kernel.poisson(rate, (source.random_raw(POISSON_WORDS) >> np.uint64(1)).tolist(), 0)
        for rate in [20 * SCALE] * 3000
    ]
    assert np.mean(drawn) < 15


# --- customers do not depend on the price ------------------------------------------------------------------


def test_prices_decide_who_joins_and_not_who_comes():
    cheap, dear = started(seed=3), started(seed=3)
    for hour in range(80):
        low, high = cheap.trade(1_500_000), dear.trade(3_500_000)
        assert low.arrived == high.arrived == len(cheap.demand.jobs(hour))
        assert cheap.demand.jobs(hour) == dear.demand.jobs(hour)
        willing = sum(job.limit >= 3_500_000 for job in dear.demand.jobs(hour))
        assert high.joined + high.turned_away == willing
        assert low.joined >= high.joined or low.turned_away


def test_a_surge_adds_jobs_in_its_hours_and_changes_no_other():
    plain, surged = started(seed=4).demand, started(seed=4).demand
    surged.change(30, 5, arrivals=2 * SCALE)
    for hour in range(80):
        before, after = plain.jobs(hour), surged.jobs(hour)
        if 30 <= hour < 35:
            assert after[: len(before)] == before
        else:
            assert after == before
    assert sum(len(surged.jobs(hour)) - len(plain.jobs(hour)) for hour in range(30, 35)) > 20


def test_other_seeds_bring_other_jobs():
    assert started(seed=1).demand.jobs(0) != started(seed=2).demand.jobs(0)


def test_events_come_once_a_period_at_an_hour_of_the_seeds_choosing():
    starts = set()
    for seed in range(40):
        willing = started(seed=seed, hours=200).demand.willing
        for period in range(4):
            inside = [h for h in range(50) if willing[50 * period + h] != SCALE]
            assert len(inside) == 18
            assert inside == list(range(inside[0], inside[0] + 18))
            starts.add(inside[0])
    assert len(starts) > 25
    assert max(starts) <= 32


# --- an hour of trade --------------------------------------------------------------------------------------

PLANS = st.lists(st.tuples(st.integers(0, SCALE), st.integers(1, 30)), min_size=1, max_size=20)
"""Prices as shares of the way from the lowest to the highest, and for how many hours each is held."""


@BOUNDED
@given(st.sampled_from(SCENARIOS), st.integers(0, 2**63 - 1), PLANS)
def test_jobs_gpus_and_money_are_conserved(name: str, seed: int, plan: list[tuple[int, int]]):
    setup = load_market().setup(name)
    engine = MarketEngine(setup, Demand(setup, np.random.PCG64(seed), 60))
    joined = gone = revenue = 0
    prices = [share for share, hours in plan for _ in range(hours)]
    for hour in range(60):
        share = prices[min(hour, len(prices) - 1)]
        price = setup.min_price + (setup.max_price - setup.min_price) * share // SCALE
        counts = engine.trade(price)
        joined += counts.joined
        gone += counts.finished + counts.interrupted + counts.driven_off + counts.gave_up
        assert joined == gone + counts.running_jobs + counts.waiting_jobs
        assert counts.arrived == counts.joined + counts.priced_out + counts.turned_away
        assert 0 <= counts.running_gpus <= setup.gpus
        assert counts.revenue == price * counts.running_gpus
        revenue += counts.revenue
        assert min(counts) >= 0
    assert revenue >= 0


def test_whoever_runs_or_waits_would_pay_the_price():
    engine = started()
    engine.open()
    for price in (1_200_000, 4_000_000, 2_000_000, 3_000_000):
        counts = engine.trade(price)
        _, rows = engine.snapshot()
        assert all(limit >= price for limit in rows[2][: counts.running_jobs])
        assert all(limit >= price for limit in rows[5][: counts.waiting_jobs])


def test_a_rise_puts_out_and_a_fall_does_not():
    engine = started("steady")
    engine.open()
    before = engine.trade(2_000_000)
    assert engine.trade(2_000_000).interrupted == 0
    risen = engine.trade(3_500_000)
    assert 0 < risen.interrupted < before.running_jobs
    assert engine.trade(1_000_000).interrupted == 0


def test_jobs_start_in_order_of_arrival_and_the_line_is_bounded():
    engine = started("surge", hours=200)
    waited: list[int] = []
    for _ in range(199):
        counts = engine.trade(1_000_000)
        _, rows = engine.snapshot()
        line = rows[6][: counts.waiting_jobs]
        assert line == sorted(line, reverse=True)  # whoever waited longest is in front
        assert counts.waiting_jobs <= 256
        waited.append(max(line, default=0))
    assert max(waited) == 6  # patience_h of the scenario


def test_a_fair_price_is_not_killed_by_luck():
    setup = load_market().setup("steady")
    assert accepting(setup, 3_200_000) > SCALE // 4
    for seed in range(150):
        engine = MarketEngine(setup, Demand(setup, np.random.PCG64(seed), 224))
        engine.open()
        while not engine.over:
            counts = engine.trade(3_200_000)
        assert not counts.dead


def accepting(setup: Any, price: int) -> int:
    from simulator.market.engine import accepting_share

    return accepting_share(setup, price)


def test_death_comes_sooner_where_more_customers_are_expected():
    def hours_to_die(rate: float) -> int:
        engine = started("steady", hours=900, arrival_rate=rate)
        hours = 0
        while not engine.over:
            counts = engine.trade(100_000_000)
            hours += 1
            assert counts.zero_streak == hours
        assert counts.dead
        return hours

    found = [hours_to_die(rate) for rate in (20.0, 5.0, 1.0)]
    assert found == sorted(found)
    assert found[0] < 8
    assert found[2] > 50


def test_the_opening_is_forgiven():
    engine = started("steady")
    opened = engine.open()
    assert engine.hour == OPENING_HOURS
    assert (opened.zero_streak, opened.silence, opened.dead) == (0, 0, 0)
    assert opened.running_gpus > 15


def test_a_snapshot_brings_the_same_future():
    engine = started()
    engine.open()
    kept = engine.snapshot()
    first = [engine.trade(2_500_000) for _ in range(20)]
    engine.restore(kept)
    assert [engine.trade(2_500_000) for _ in range(20)] == first
    assert isinstance(first[0], HourCounts)
