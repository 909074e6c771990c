"""Drawn days: reproducible, calibrated to their figures, and the same but for what is asked to differ."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from env.routing.tasks import TASKS, get_task
from inferencegym.models.routing import CATEGORIES, REGIONS, Region
from simulator.routing.grid import BRITAIN, GERMANY, GRIDS, HORIZON_H, draw_carbon, draw_forecast
from simulator.routing.kernel import MODELS, Query
from simulator.routing.stream import ACCURACY, STREAM_HOURS, Stream, StreamConfig, draw_stream

STREAMS = [task_id for task_id in TASKS if get_task(task_id).stream]


def config_of(task_id: str) -> StreamConfig:
    config = get_task(task_id).stream
    assert config is not None
    return config


def draw(task_id: str, seed: int, **place: object) -> Stream:
    return draw_stream(config_of(task_id), np.random.default_rng(seed), **place)  # type: ignore[arg-type]


def same(one: Stream, two: Stream) -> bool:
    return all(np.array_equal(getattr(one, f.name), getattr(two, f.name)) for f in fields(Stream))


@pytest.mark.parametrize("task_id", STREAMS)
def test_a_seed_is_a_day(task_id: str) -> None:
    assert same(draw(task_id, 5), draw(task_id, 5))
    assert not np.array_equal(draw(task_id, 5).queries, draw(task_id, 6).queries)


@pytest.mark.parametrize("task_id", STREAMS)
def test_days_are_in_order_and_in_range(task_id: str) -> None:
    for seed in range(20):
        day = draw(task_id, seed)
        arrival = day.queries[:, Query.ARRIVAL_H]
        assert (np.diff(arrival) >= 0).all()
        assert arrival[0] >= 0
        assert arrival[-1] < STREAM_HOURS
        assert (day.hours[:, 0] > 0).all()
        assert (day.hours[:, 1:] >= 0).all()
        assert (day.hours[:, 1:] <= 0.9).all()
        assert set(np.unique(day.down)) <= {0.0, 1.0}
        assert np.isfinite(day.queries).all()


def test_the_region_changes_the_carbon_and_nothing_else() -> None:
    clean, dirty = draw("stream_3", 4, region="Stockholm"), draw("stream_3", 4, region="Mumbai")
    assert clean.hours[:, 0].max() < 10 < 300 < dirty.hours[:, 0].min()
    assert np.array_equal(clean.hours[:, 1:], dirty.hours[:, 1:])
    # All but the two columns of carbon, and how long the forecast says to wait.
    kept = [c for c in Query if c not in (Query.CARBON, Query.CARBON_IF_WAIT, Query.WAIT_H)]
    assert np.array_equal(clean.queries[:, kept], dirty.queries[:, kept])
    drawn = draw("stream_3", 4)
    assert same(drawn, draw("stream_3", 4, region=drawn.region, start_hour=drawn.start_hour))


def test_accuracy_is_the_published_one() -> None:
    """Over many days, the share of questions that each model knows, by category."""
    days = np.concatenate([draw("stream_2", seed).queries for seed in range(300)])
    for index, category in enumerate(CATEGORIES):
        rows = days[days[:, Query.CATEGORY] == index]
        for model in range(MODELS):
            known = (rows[:, Query.RANK] < rows[:, Query.RIGHT_SMALL + model]).mean()
            assert known == pytest.approx(ACCURACY[category][model], abs=0.04)


def test_the_estimate_says_something_but_not_everything() -> None:
    days = np.concatenate([draw("stream_2", seed).queries for seed in range(30)])
    correlation = np.corrcoef(days[:, Query.RANK], days[:, Query.ESTIMATE])[0, 1]
    assert 0.8 < correlation < 0.95


@pytest.mark.parametrize("task_id", STREAMS)
def test_queries_wait_until_within_their_deadline(task_id: str) -> None:
    for seed in range(10):
        rows = draw(task_id, seed).queries
        start = np.floor(rows[:, Query.ARRIVAL_H]) + rows[:, Query.WAIT_H]
        patient = rows[:, Query.DEADLINE_H] > 0
        held = (start - rows[:, Query.ARRIVAL_H])[patient]
        assert (held <= rows[patient, Query.DEADLINE_H]).all()
        assert (held > 0).all()
        assert (rows[~patient, Query.WAIT_H] == 1).all()
        assert patient.any() == (config_of(task_id).held_share > 0)


@pytest.mark.parametrize("region", REGIONS)
def test_carbon_has_the_published_mean_and_a_swing_as_published(region: Region) -> None:
    grid = GRIDS[region]
    usual = grid.hourly()
    assert usual.mean() == pytest.approx(grid.mean_g_per_kwh)
    assert 1.1 < usual.max() / usual.min() < 1.45
    drawn = [draw_carbon(grid, 0, np.random.default_rng(seed))[:24].mean() for seed in range(400)]
    assert np.mean(drawn) == pytest.approx(grid.mean_g_per_kwh, rel=0.03)


def test_hourly_profiles_are_those_of_the_study() -> None:
    assert (BRITAIN.min(), BRITAIN.max(), round(BRITAIN.mean())) == (178, 255, 215)
    assert (GERMANY.min(), GERMANY.max(), round(GERMANY.mean())) == (275, 350, 313)


@pytest.mark.parametrize(("limit_h", "low", "high"), [(2, 0.03, 0.05), (8, 0.09, 0.14)])
@pytest.mark.parametrize("region", ["London", "Frankfurt"])
def test_waiting_saves_as_much_as_the_study_found(
    region: Region, limit_h: int, low: float, high: float
) -> None:
    """The best saving of waiting up to so long, over all hours of many days."""
    savings: list[float] = []
    for seed in range(200):
        carbon = draw_carbon(GRIDS[region], 0, np.random.default_rng(seed))
        savings += [1 - carbon[hour : hour + limit_h + 1].min() / carbon[hour] for hour in range(24)]
    assert low < np.mean(savings) < high


def test_forecasts_err_more_the_further_they_look() -> None:
    errors = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        carbon = draw_carbon(GRIDS["Iowa"], 0, rng)
        forecast = draw_forecast(carbon, rng)
        leads = np.arange(forecast.shape[1])
        truth = carbon[np.arange(HORIZON_H - 8)[:, None] + leads]
        errors.append(np.abs(forecast / truth - 1).mean(axis=0))
    spread = np.mean(errors, axis=0)
    assert spread[0] == 0.0
    assert (np.diff(spread[:8]) > 0).all()
    assert 0.03 < spread[8] < 0.08


def test_neighbours_are_of_the_same_category() -> None:
    rows = draw("stream_1", 0).queries
    category = dict(zip(rows[:, Query.TOPIC], rows[:, Query.CATEGORY], strict=True))
    known = [(t, n) for t, n in rows[:, [Query.TOPIC, Query.NEIGHBOUR]] if n in category]
    assert known
    assert all(category[topic] == category[neighbour] for topic, neighbour in known)
