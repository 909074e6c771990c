"""Compiled draws against NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.kernels import random as vector_random
from simulator.kernels.compiled import compiled
from simulator.kernels.random import STATE_SIZE, Ziggurat

TABLES = Ziggurat.load()
seed_state = compiled(vector_random.seed_state)
uniform = compiled(vector_random.uniform)
bounded = compiled(vector_random.bounded)
normal = compiled(vector_random.normal)
poisson = compiled(vector_random.poisson)


def state_of(seed: int) -> np.ndarray:
    state = np.zeros(STATE_SIZE, dtype=np.uint64)
    seed_state(seed, state)
    return state


@pytest.fixture(params=[0, 42, 2**40 + 5])
def both(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.random.Generator]:
    return state_of(request.param), np.random.default_rng(request.param)


Both = tuple[np.ndarray, np.random.Generator]


@given(st.integers(0, 2**63 - 1))
@settings(deadline=None)
def test_a_seed_gives_the_state_of_pcg64(seed: int) -> None:
    state, expected = state_of(seed), np.random.PCG64(seed).state["state"]
    assert int(state[0]) << 64 | int(state[1]) == expected["state"]
    assert int(state[2]) << 64 | int(state[3]) == expected["inc"]


def test_uniform(both: Both) -> None:
    state, rng = both
    assert [uniform(state) for _ in range(1000)] == rng.random(1000).tolist()


@pytest.mark.parametrize(("low", "high"), [(64, 128), (0, 10), (5, 5), (0, 2**31 + 5), (-3, 3)])
def test_bounded_with_its_kept_halves(both: Both, low: int, high: int) -> None:
    state, rng = both
    for _ in range(3):
        assert [bounded(state, low, high) for _ in range(301)] == rng.integers(low, high + 1, 301).tolist()
        assert uniform(state) == rng.random()


def test_normal_tail_included(both: Both) -> None:
    state, rng = both
    drawn = [normal(state, TABLES) for _ in range(50_000)]
    assert drawn == rng.standard_normal(50_000).tolist()
    assert max(map(abs, drawn)) > 3.7


@pytest.mark.parametrize("mean", [0.0, 1e-9, 0.5, 3.0, 9.99, 10.0, 25.0, 80.0, 300.0, 1500.0])
def test_poisson(both: Both, mean: float) -> None:
    state, rng = both
    assert [poisson(state, mean) for _ in range(5000)] == rng.poisson(mean, 5000).tolist()
