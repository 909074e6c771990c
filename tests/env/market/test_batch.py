"""Compiled markets against the plain ones: engine, policies' arena and the vector environment, bit by bit."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from agents.market.arena import CONSTANT, GAINS, RULE, MarketArena
from agents.market.play import gain_policy, make_demand, named_policy, play_market
from agents.market.policies import PriceParameters
from inferencegym.gym.registration import register_all
from simulator.market.config import load_market

register_all()
MARKET = "InferenceGym/Market-v0"


@pytest.mark.parametrize("name", list(load_market().scenarios))
def test_the_arena_plays_what_the_plain_engine_plays(name: str):
    setup = load_market().setup(name)
    arena, seeds = MarketArena(setup, 200, 2), [3, 2**40]
    low, high = setup.min_price, setup.max_price
    nervous = PriceParameters(high // 3, 3_000_000, 2_000_000, 700_000, 100_000)
    dear = high
    cases: list[tuple[int, tuple[int, ...], Any]] = [
        (RULE, (0,) * 5, named_policy("rule", setup)),
        (GAINS, nervous.values(), gain_policy(setup, nervous)),
        (CONSTANT, (dear, 0, 0, 0, 0), lambda last: dear),
        (CONSTANT, (low, 0, 0, 0, 0), lambda last: low),
    ]
    for kind, parameters, policy in cases:
        outcomes = arena.play(kind, [parameters], seeds)
        for column, seed in enumerate(seeds):
            played = list(play_market(setup, policy, make_demand(setup, seed)))
            assert outcomes.reward[0, column] == played[-1].cumulative_reward
            assert outcomes.hours[0, column] == len(played)
            sums = np.sum([hour.counts for hour in played], axis=0)
            assert outcomes.totals[0, column, 7:].tolist() == sums[7:].tolist()


@pytest.mark.parametrize("mode", ["flat", "dict", "multidiscrete"])
def test_the_vector_environment_plays_what_single_ones_play(mode: str):
    """Over the end of episodes, by length and by death (task adversarial, prices drifting apart)."""
    count, task = 4, "adversarial"
    many: Any = gymnasium.make_vec(
        MARKET, count, vectorization_mode="vector_entry_point", task_id=task, action_mode=mode
    )
    singles: list[Any] = [
        gymnasium.make(MARKET, task_id=task, action_mode=mode).unwrapped for _ in range(count)
    ]
    rng = np.random.default_rng(1)
    seen, _ = many.reset(seed=5)
    assert np.array_equal(seen, [env.reset(seed=5 + i)[0] for i, env in enumerate(singles)])
    endings: set[str] = set()
    for _ in range(230):
        actions = drifting(rng, mode, count)
        seen, rewards, terminated, truncated, infos = many.step(actions)
        for i, env in enumerate(singles):
            action = {"change": actions["change"][i]} if mode == "dict" else actions[i]
            own, reward, died, ended, info = env.step(action)
            assert (reward, died, ended) == (rewards[i], terminated[i], truncated[i])
            told = infos["final_info"] if died or ended else infos
            for name, value in info["metrics"].items():
                assert told["metrics"][name][i] == value, name
            for name, value in info["reward_terms"].items():
                assert told["reward_terms"][name][i] == value, name
            if died or ended:
                endings.add("died" if died else "ended")
                assert np.array_equal(infos["final_obs"][i], own)
                own, _ = env.reset()
            assert np.array_equal(seen[i], own)
    assert endings == {"died", "ended"}
    many.close()


def drifting(rng: np.random.Generator, mode: str, count: int) -> Any:
    bias = np.array([0.0, 0.02, 0.45, -0.2])[:count, None]
    entries = np.clip(rng.uniform(-1, 1, (count, 1)) + bias, -1, 1).astype(np.float32)
    if mode == "multidiscrete":
        return np.rint((entries + 1) * 4).astype(np.int64)
    return {"change": np.float32(0.2) * entries} if mode == "dict" else entries


def test_observations_stay_in_their_space_and_actions_are_checked():
    env: Any = gymnasium.make(MARKET, task_id="surge", config={"gpus": 16}).unwrapped
    env.reset(seed=3)
    env.action_space.seed(1)
    for _ in range(60):
        seen = env.step(env.action_space.sample())[0]
        assert env.observation_space.contains(seen)
    assert env.step(np.array([5.0]))[0] is not None  # beyond the box: held at its bound
    with pytest.raises(ValueError, match="change"):
        env.step(np.array([np.nan]))


@pytest.mark.parametrize("task", ["surge", "adversarial"])
def test_the_compiled_single_environment_is_the_plain_one(task: str):
    fast, plain = (
        gymnasium.make(MARKET, task_id=task, backend=backend).unwrapped for backend in ("compiled", "python")
    )
    both: list[Any] = [fast, plain]
    rng = np.random.default_rng(2)
    for env in both:
        env.reset(seed=8)
    kept = [env.episode.snapshot() for env in both]
    actions = [drifting(rng, "flat", 1)[0] for _ in range(60)]
    played = [[env.episode.step({"change": float(a[0]) / 5})[:3] for a in actions] for env in both]
    assert played[0] == played[1]
    for env, snapshot in zip(both, kept, strict=True):
        env.episode.restore(snapshot)
    again = [[env.episode.step({"change": float(a[0]) / 5})[:3] for a in actions] for env in both]
    assert again == played
    with pytest.raises(LookupError, match="backend"):
        gymnasium.make(MARKET, backend="fast")
