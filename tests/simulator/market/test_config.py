"""Objective and scenario files: the shipped ones, and what is wrong with others, by file and key."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferencegym.errors import InvalidValueError, UnknownNameError
from simulator.market.config import LOGNORMAL_LIMITS, OBJECTIVE_PATH, SCENARIOS_PATH, load_market
from simulator.market.engine import accepting_share, fluid_revenue
from simulator.market.kernel import SCALE

OBJECTIVE: dict[str, Any] = yaml.safe_load(OBJECTIVE_PATH.read_text())
SCENARIOS: dict[str, Any] = yaml.safe_load(SCENARIOS_PATH.read_text())


def load(tmp_path: Path, objective: Any = OBJECTIVE, scenarios: Any = SCENARIOS) -> Any:
    paths = tmp_path / "objective.yaml", tmp_path / "scenarios.yaml"
    for path, document in zip(paths, (objective, scenarios), strict=True):
        path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return load_market(*paths)


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    copy = deepcopy(document)
    *parents, last = path.split(".")
    here = copy
    for key in parents:
        here = here[key]
    here[last] = value
    return copy


def test_the_shipped_files_are_what_they_say(tmp_path: Path):
    files = load(tmp_path)
    assert set(files.scenarios) >= {"steady", "surge", "adversarial"}
    setup = files.setup("steady")
    assert (setup.min_price, setup.max_price, setup.max_avg_wait) == (1_000_000, 7_000_000, 4_000_000)
    assert setup.size_shares == (800_000, 900_000, 970_000, SCALE)
    weights = [setup.weight_revenue, setup.weight_low_wait_time]
    weights += [setup.weight_fairness, setup.weight_market_activity]
    assert sum(weights) == SCALE
    assert files.setup("hobby").max_price == 1_500_000
    assert files.setup("steady") == load_market().setup("steady")


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("weights.revenu", 1, "weights.revenu"),
        ("weights.revenue", -0.1, "weights.revenue"),
        ("weights.revenue", "much", "weights.revenue"),
        ("weights.fairness", None, "weights.fairness"),
        ("weights", dict.fromkeys(OBJECTIVE["weights"], 0), "must not all be 0"),
        ("weights", dict.fromkeys(OBJECTIVE["weights"], 4e-7), "must not all be 0"),
        (
            "constraints",
            {"min_price": 1, "max_price": 1.0000001, "max_avg_wait": 4},
            "must be below max_price",
        ),
        ("constraints.min_price", 8, "min_price (8.0) must be below max_price (7.0)"),
        ("constraints.max_price", 1e9, "constraints.max_price"),
        ("constraints.max_avg_wait", 0, "constraints.max_avg_wait"),
        ("constraints.max_price", float("nan"), "constraints.max_price"),
        ("extra", 1, "extra"),
    ],
)
def test_a_wrong_objective_is_named_by_file_and_key(tmp_path: Path, path: str, value: Any, says: str):
    with pytest.raises(InvalidValueError) as caught:
        load(tmp_path, objective=changed(OBJECTIVE, path, value))
    assert "objective.yaml" in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("surge.gpu", 3, "surge.gpu"),
        ("surge.gpus", 4, "surge.gpus"),
        ("surge.card", "V100", "surge.card"),
        ("surge.arrival_rate", 19.9, "surge.arrival_rate: 19.9 is not allowed; allowed: at most 17.77"),
        ("surge.arrival_rate", 4e-7, "surge.arrival_rate"),
        ("surge.hourly_arrivals", [0.0] * 24, "must not all be 0"),
        ("surge.arrival_rate", True, "surge.arrival_rate"),
        ("surge.job_gpus", {1: 0.5}, "must sum to 1"),
        ("surge.job_gpus", {3: 1.0}, "surge.job_gpus"),
        ("surge.job_hours", {0: 1.0}, "surge.job_hours"),
        ("surge.hourly_arrivals", [1.0] * 23, "surge.hourly_arrivals"),
        ("surge.opening_price", 9, "opening_price"),
        ("surge.events", [{"name": "x", "period_h": 10, "duration_h": 11}], "must not exceed period_h"),
        ("surge.events", [{"name": "x", "period_h": 10, "duration_h": 1, "arrival": 2}], "arrival"),
        ("surge.objective", {"constraints": {"min_price": 7.5}}, "must be below max_price"),
        ("surge.objective", {"weights": {"luck": 1}}, "weights.luck"),
    ],
)
def test_a_wrong_scenario_is_named_by_file_and_key(tmp_path: Path, path: str, value: Any, says: str):
    with pytest.raises(InvalidValueError) as caught:
        load(tmp_path, scenarios=changed(SCENARIOS, path, value))
    assert "scenarios.yaml" in str(caught.value)
    assert says in str(caught.value)


def test_a_key_that_stands_there_twice_is_refused(tmp_path: Path):
    text = SCENARIOS_PATH.read_text().replace("  gpus: 64\n", "  gpus: 64\n  gpus: 32\n", 1)
    with pytest.raises(InvalidValueError, match=r"scenarios\.yaml.*'gpus' stands there twice"):
        load(tmp_path, scenarios=text)


def test_a_misspelt_key_is_named_with_what_is_missing(tmp_path: Path):
    wrong = {("gpuss" if key == "gpus" else key): value for key, value in SCENARIOS["steady"].items()}
    with pytest.raises(InvalidValueError, match=r"steady\.gpuss.*missing: gpus"):
        load(tmp_path, scenarios={"steady": wrong})


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", "", "\ttab: 1", "[" * 100_000])
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str):
    with pytest.raises(InvalidValueError, match=r"scenarios\.yaml"):
        load(tmp_path, scenarios=text)
    with pytest.raises(InvalidValueError, match=r"missing\.yaml"):
        load_market(tmp_path / "missing.yaml")


def test_an_unknown_scenario_gets_near_matches():
    with pytest.raises(UnknownNameError, match="Did you mean surge"):
        load_market().setup("sruge")


def test_overrides_are_checked_too():
    files = load_market()
    assert files.setup("steady", gpus=32, arrival_rate=4.0).gpus == 32
    with pytest.raises(InvalidValueError, match="gpus"):
        files.setup("steady", gpus=1)
    with pytest.raises(InvalidValueError, match="at most 64"):
        files.setup("surge", arrival_rate=20.0)


def test_every_number_is_in_the_config_hash():
    files = load_market()
    hashes = {
        files.setup("steady", gpus=gpus, arrival_rate=rate).config_hash()
        for gpus in (64, 65)
        for rate in (15, 16)
    }
    assert len(hashes) == 4


def test_the_limits_are_a_lognormal():
    scipy_stats = pytest.importorskip("scipy.stats")
    levels = [0.005, *(place / 16 for place in range(1, 16)), 0.995]
    assert list(LOGNORMAL_LIMITS) == [round(SCALE * scipy_stats.lognorm.ppf(level, 0.5)) for level in levels]


def test_shares_and_the_fluid_benchmark_follow_from_the_limits():
    setup = load_market().setup("steady")
    assert accepting_share(setup, setup.limits[8]) == SCALE // 2
    assert accepting_share(setup, 1) == SCALE
    assert accepting_share(setup, 10**9) == 0
    shares = [accepting_share(setup, price) for price in range(500_000, 9_000_000, 50_000)]
    assert shares == sorted(shares, reverse=True)
    few, many = (fluid_revenue(setup, [rate * SCALE], [SCALE]) for rate in (2, 60))
    # Two jobs an hour at about two dollars; and a house that is full at a price that few would pay.
    assert 13_000_000 < few < 20_000_000
    assert setup.gpus * 4_000_000 < many < setup.gpus * 5_000_000
