"""The genetic algorithm: determinism, ties, bounds, and what its results do on seeds it never saw."""

from __future__ import annotations

import pytest

from agents.market.files import load_parameters
from agents.market.policies import PriceParameters, parameter_bounds
from agents.market.train import HELD_OUT_SEEDS, Ranked, TrainingSettings, evolve, held_out
from inferencegym.errors import InvalidValueError
from simulator.market.config import load_market

SHORT = TrainingSettings(generations=3, population=6, seeds=12, hours=40)


def test_a_search_is_repeated_to_the_unit_whatever_the_threads():
    setup = load_market().setup("surge")
    progress: list[tuple[int, int]] = []
    one = evolve(setup, SHORT, 1, lambda done, best: progress.append((done, best)))
    assert evolve(setup, SHORT, 2) == one
    assert [done for done, _ in progress] == [1, 2, 3]
    best = [fitness for _, fitness in progress]
    assert best == sorted(best)
    assert one[1] == best[-1]
    for value, (low, high) in zip(one[0].values(), parameter_bounds(setup), strict=True):
        assert low <= value <= high


def test_another_search_seed_finds_another_way():
    setup = load_market().setup("surge")
    other = TrainingSettings(generations=3, population=6, seeds=12, hours=40, search_seed=2)
    assert evolve(setup, other)[0] != evolve(setup, SHORT)[0]


def test_no_generations_give_the_untrained_policy():
    setup = load_market().setup("surge")
    settings = TrainingSettings(generations=0, population=6, seeds=12, hours=40)
    parameters, fitness = evolve(setup, settings)
    assert parameters == PriceParameters.untrained(setup)
    assert fitness < evolve(setup, SHORT)[1]


def test_equals_are_ordered_by_their_hash():
    genomes = [(2_000_000 + gene, 0, 0, 500_000, 0) for gene in range(8)]
    ranked = sorted((Ranked(genome, 5) for genome in genomes), key=lambda one: one.key)
    hashes = [PriceParameters(*one.genome).hash() for one in ranked]
    assert hashes == sorted(hashes)
    better = Ranked((3_000_000, 0, 0, 500_000, 0), 6)
    assert min([*ranked, better], key=lambda one: one.key) is better


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seeds": 11}, "from 12"),
        ({"population": 3}, "from 4"),
        ({"generations": -1}, "from 0"),
        ({"hours": 5}, "from 10"),
    ],
)
def test_settings_that_mislead_are_refused(changes: dict[str, int], says: str):
    with pytest.raises(InvalidValueError, match=says):
        TrainingSettings(**changes)


def test_training_and_held_out_seeds_are_apart():
    assert not set(TrainingSettings().training_seeds) & set(HELD_OUT_SEEDS)
    assert len(HELD_OUT_SEEDS) == 100


@pytest.mark.parametrize("scenario", list(load_market().scenarios))
def test_the_committed_policy_beats_the_rule_on_a_hundred_held_out_seeds(scenario: str):
    report = {row.policy: row for row in held_out(load_market().setup(scenario), load_parameters(scenario))}
    evolved = report["evolved"]
    assert evolved.minus_rule.half_width is not None
    assert evolved.minus_rule.value > evolved.minus_rule.half_width
    assert evolved.reward.value > report["untrained"].reward.value
    assert evolved.death_rate <= 0.02
