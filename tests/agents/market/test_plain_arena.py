"""The plain arena: the same numbers as the compiled one."""

from __future__ import annotations

import numpy as np
import pytest

from agents.market.arena import MarketArena
from agents.market.files import load_parameters
from agents.market.plain_arena import CONSTANT, GAINS, RULE, PlainArena
from agents.market.policies import PriceParameters
from agents.market.train import TrainingSettings, evolve
from simulator.market.config import load_market

SETUP = load_market().setup("adversarial")
SHORT = TrainingSettings(generations=2, population=5, seeds=12, hours=30)


@pytest.mark.parametrize("kind", [CONSTANT, RULE, GAINS])
def test_it_plays_as_the_compiled_arena_does(kind: int):
    # The dearest constant price kills the market.
    rows = [load_parameters("adversarial").values(), (SETUP.max_price, 0, 0, 500_000, 0)]
    plain = PlainArena(SETUP, 60).play(kind, rows, range(5, 8))
    compiled = MarketArena(SETUP, 60).play(kind, rows, range(5, 8))
    for one, other in zip(plain, compiled, strict=True):
        np.testing.assert_array_equal(one, other)
    assert plain.hours.min() < 60 or kind == RULE


def test_a_search_on_it_finds_the_same_parameters():
    assert evolve(SETUP, SHORT, arena=PlainArena(SETUP, 30)) == evolve(SETUP, SHORT)


def test_a_search_never_ends_below_its_first_candidate():
    start = load_parameters("adversarial")
    arena = PlainArena(SETUP, 30)
    none = TrainingSettings(generations=0, population=5, seeds=12, hours=30)
    first, fitness = evolve(SETUP, none, arena=arena, start=start)
    assert first == start != PriceParameters.untrained(SETUP)
    assert evolve(SETUP, SHORT, arena=arena, start=start)[1] >= fitness
