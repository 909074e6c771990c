"""The rule, the five-parameter policy, its bounds and files, and the agents around them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.compare.episodes import Job, play_episode
from agents.market.agents import AGENTS
from agents.market.files import (
    DATA_FOLDER,
    load_parameters,
    newest_parameters,
    parameters_path,
    read_parameters,
    static_price,
)
from agents.market.policies import PARAMETER_NAMES, PriceParameters, gain_price, parameter_bounds, rule_price
from agents.registry import get_agent, rule_name
from env.market.episode import make_env
from inferencegym.errors import InferenceGymError, InvalidValueError, UnknownNameError
from inferencegym.registry import MARKET
from simulator.market.config import load_market
from simulator.market.kernel import SCALE
from tests.simulator.properties import bounded

SETUP = load_market().setup("steady")
LOW, HIGH = SETUP.min_price, SETUP.max_price
GOOD = PriceParameters.untrained(SETUP).natural()


def test_hold_is_doing_nothing():
    result, idle = play_episode(MARKET, Job("surge", "hold", 100)), make_env("surge", 100)
    idle.reset()
    total = 0.0
    while not idle.done:
        total += idle.step({})[1]
    assert result.reward == pytest.approx(total)


@pytest.mark.parametrize(
    ("busy", "waiting", "price"),
    [
        (58, 0, 2_100_000),  # above 0.9 of 64
        (57, 0, 2_000_000),
        (30, 33, 2_100_000),  # a line longer than half of the GPUs goes before idleness
        (30, 32, 1_900_000),
        (38, 0, 1_900_000),  # below 0.6
        (39, 0, 2_000_000),
    ],
)
def test_the_rule(busy: int, waiting: int, price: int):
    assert rule_price(2_000_000, busy, waiting, 64, LOW, HIGH) == price


def test_the_rule_ends_at_the_bounds():
    assert rule_price(6_900_000, 64, 64, 64, LOW, HIGH) == HIGH
    assert rule_price(1_000_001, 0, 0, 64, LOW, HIGH) == LOW


def test_the_gains_do_what_they_are_called():
    base = (2_000_000, 500_000, 1_000_000, 750_000, 0)
    assert gain_price(base, 5_000_000, 48, 0, 64, LOW, HIGH) == 2_000_000
    assert gain_price(base, 5_000_000, 48, 32, 64, LOW, HIGH) == 2_500_000
    assert gain_price(base, 5_000_000, 64, 0, 64, LOW, HIGH) == 2_500_000
    assert gain_price(base, 5_000_000, 32, 0, 64, LOW, HIGH) == 1_500_000
    smooth = (*base[:4], 900_000)
    assert gain_price(smooth, 5_000_000, 48, 0, 64, LOW, HIGH) == 4_700_000


@bounded(100)
@given(st.data())
def test_every_proposal_is_within_the_bounds(data: Any):
    parameters = [data.draw(st.integers(*bound)) for bound in parameter_bounds(SETUP)]
    price, busy, waiting = (data.draw(st.integers(*b)) for b in ((LOW, HIGH), (0, 64), (0, 256)))
    assert LOW <= gain_price(parameters, price, busy, waiting, 64, LOW, HIGH) <= HIGH
    assert LOW <= rule_price(price, busy, waiting, 64, LOW, HIGH) <= HIGH


@pytest.mark.parametrize(
    ("values", "error", "says"),
    [
        ({**GOOD, "base_price": 7.5}, InvalidValueError, "from 1 to 7"),
        ({**GOOD, "queue_gain": -0.1}, InvalidValueError, "parameters.queue_gain"),
        ({**GOOD, "smoothing": 1}, InvalidValueError, "from 0 to 0.95"),
        ({**GOOD, "smoothing": float("nan")}, InvalidValueError, "parameters.smoothing"),
        ({**GOOD, "smoothing": "0"}, InvalidValueError, "parameters.smoothing"),
        ({**GOOD, "smoothing": True}, InvalidValueError, "parameters.smoothing"),
        ({}, InvalidValueError, "parameters.base_price"),
        ({**GOOD, "base_prize": 1}, UnknownNameError, "base_price"),
    ],
)
def test_parameters_outside_their_bounds_are_named(values: Any, error: type[Exception], says: str):
    with pytest.raises(error) as caught:
        PriceParameters.checked(values, SETUP)
    assert says in str(caught.value)


def test_parameters_survive_their_file_and_every_one_is_in_the_hash(tmp_path: Path):
    found = load_parameters("steady")
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"parameters": found.natural()}))
    assert read_parameters(path, SETUP)[0] == found
    hashes = {found.hash()}
    for name in PARAMETER_NAMES:
        values = found.natural()
        values[name] += 0.000001 if values[name] < 0.9 else -0.000001
        hashes.add(PriceParameters.checked(values, SETUP).hash())
    assert len(hashes) == 1 + len(PARAMETER_NAMES)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"parameters": 3}'])
def test_a_file_that_holds_no_parameters_is_named(tmp_path: Path, text: str):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(InvalidValueError, match=r"bad\.json"):
        read_parameters(path, SETUP)


def test_the_newest_parameters_are_found(tmp_path: Path):
    assert newest_parameters(tmp_path) is None
    for age, (name, scenario) in enumerate((("", "steady"), ("_b", "surge"), ("_c", "surge"))):
        path = tmp_path / f"ga_best_params{name}.json"
        path.write_text(json.dumps({"scenario": scenario}))
        os.utime(path, (1000 - age, 1000 - age))
    (tmp_path / "ga_best_params_broken.json").write_text("{")
    os.utime(tmp_path / "ga_best_params_broken.json", (1, 1))
    assert newest_parameters(tmp_path) == tmp_path / "ga_best_params.json"
    assert newest_parameters(tmp_path, "surge") == tmp_path / "ga_best_params_b.json"


@pytest.mark.parametrize("scenario", list(load_market().scenarios))
def test_every_shipped_scenario_has_committed_parameters_of_its_present_configuration(scenario: str):
    setup = load_market().setup(scenario)
    parameters, document = read_parameters(parameters_path(scenario), setup)
    assert document["parameter_hash"] == parameters.hash()
    assert document["config_hash"] == setup.config_hash()
    assert setup.min_price < static_price(scenario) < setup.max_price
    assert str(DATA_FOLDER) not in json.dumps(document)


def test_agents_by_name():
    assert rule_name("market") == "baseline"
    for name in ("random", "zero", "static", "baseline", "untrained", "evolved"):
        agent = get_agent("market", name, "surge", 4)
        env = make_env("surge", 4)
        observation = env.reset()
        agent.reset()
        for _ in range(10):
            observation = env.step(agent.act(observation))[0]
    with pytest.raises(UnknownNameError):
        AGENTS["evolved"]("nope", 0)
    with pytest.raises(InferenceGymError, match="train-ga"):
        load_parameters("nowhere")


def test_random_prices_differ_by_seed_and_follow_from_it():
    def prices(seed: int) -> list[float]:
        agent, observation = get_agent("market", "random", "steady", seed), make_env("steady", 0).reset()
        return [agent.act(observation).price for _ in range(5)]

    assert prices(1) == prices(1) != prices(2)
    assert all(LOW <= price * SCALE <= HIGH for price in prices(3))


@pytest.mark.parametrize("task", ["surge", "adversarial"])
def test_the_committed_ppo_policy_beats_the_rule(task: str):
    pytest.importorskip("gymnasium")
    totals: dict[str, float] = {}
    for name in ("baseline", "ppo"):
        results = [play_episode(MARKET, Job(task, name, seed)) for seed in range(100, 105)]
        totals[name] = sum(result.score for result in results)
    assert totals["ppo"] > totals["baseline"] + 0.2


def test_the_ppo_coding_has_one_dial():
    codings = pytest.importorskip("agents.ppo.coding")
    coding = codings.coding_of("market", "surge")
    assert (coding.sizes.tolist(), coding.width) == ([9], 13)
    assert coding.action(coding.start(1)).change == 0.0


def test_the_benchmark_measures_each_engine():
    bench = pytest.importorskip("agents.market.bench")
    found = bench.measure(episodes=4)
    assert {"plain_engine", "compiled_engine_1_threads"} <= set(found)
    assert all(rate > 0 for rates in found.values() for rate in rates.values())
