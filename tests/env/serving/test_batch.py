"""Episodes side by side against single ones: every observation, reward and term, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from env.serving.batch import OBSERVATION_COLUMNS, TERM_COLUMNS, ServingBatch
from env.serving.episode import InferenceEnv, make_env
from inferencegym.models.serving import ServeAction
from simulator.packs.trace_sim import shared_simulator
from simulator.serving.compiled import CompiledEngine
from simulator.serving.rows import RESULT
from simulator.serving.timing import ENGINE_TIMINGS
from simulator.serving.traffic.config import get_workload
from simulator.serving.traffic.workload import EpisodeTraffic, WorkloadGenerator
from tests.env.episodes import LENGTH, TASK_IDS, as_json, random_actions

row_of = attrgetter(*OBSERVATION_COLUMNS)


def alone(function: Callable[[int, int], None], count: int) -> None:
    function(0, count)


def in_parts(function: Callable[[int, int], None], count: int) -> None:
    for low in range(0, count, 2):
        function(low, min(low + 2, count))


def knobs_of(actions: list[ServeAction]) -> Any:
    return np.asarray(
        [[a.kv_budget, a.spec_length, a.batch_size, a.prefill_disagg, a.quant_tier] for a in actions],
        dtype=np.float64,
    )


@pytest.mark.parametrize("timing", ENGINE_TIMINGS)
@pytest.mark.parametrize("task_id", TASK_IDS)
def test_whole_episodes_with_random_actions(task_id: str, timing: str) -> None:
    count = 4
    envs = [make_env(task_id, config={"engine_timing": timing}) for _ in range(count)]
    batch = ServingBatch(envs[0], count)
    batch.restart(range(count), range(count), in_parts)
    for i, env in enumerate(envs):
        assert tuple(batch.episodes.observation[i]) == row_of(env.reset(i))
    plans = [random_actions(seed) for seed in range(count)]
    evictions = ooms = 0
    for step in range(LENGTH):
        actions = [plan[step] for plan in plans]
        knobs, everyone = knobs_of(actions), np.ones(count, dtype=np.bool_)
        for low, high in ((0, 1), (3, 4), (1, 3)):
            batch.advance(low, high, knobs, everyone)
        for i, env in enumerate(envs):
            observation, reward, _, info = env.step(actions[i])
            assert tuple(batch.episodes.observation[i]) == row_of(observation)
            assert batch.episodes.reward[i] == reward
            terms = dict(zip(TERM_COLUMNS, batch.episodes.terms[i], strict=True))
            assert terms == info["reward_terms"]
            assert batch.results[i, RESULT["ttft_p99_ms"]] == info["metrics"]["ttft_p99_ms"]
            evictions += info["metrics"]["eviction_events"]
            ooms += info["metrics"]["oom"]
    assert batch.steps.tolist() == [LENGTH] * count
    assert evictions > 0
    assert ooms > 0


def test_only_the_episodes_named_are_stepped() -> None:
    batch = ServingBatch(make_env("task1"), 3)
    batch.restart(range(3), [7, 7, 7], alone)
    knobs = knobs_of([ServeAction(batch_size=64)] * 3)
    batch.advance(0, 3, knobs, np.asarray([True, False, True]))
    assert batch.steps.tolist() == [1, 0, 1]
    batch.restart([2], [7], alone)
    assert batch.steps.tolist() == [1, 0, 0]
    assert np.array_equal(batch.episodes.observation[1], batch.episodes.observation[2])
    assert np.array_equal(batch.episodes.previous[2], batch.episodes.observation[2])


class Growing(WorkloadGenerator):
    """Short episodes for even seeds, far longer ones than anyone expects for odd ones."""

    def episode(self, rng: np.random.Generator) -> EpisodeTraffic:
        config = get_workload("task1" if rng.integers(2) == 0 else "task2")
        other = config.model_copy(update={"replicas": 1})
        return WorkloadGenerator(other, self.steps).episode(rng)


def test_an_episode_longer_than_expected_makes_room_and_disturbs_nobody() -> None:
    workload = Growing(get_workload("task1"), LENGTH)
    envs = [InferenceEnv(shared_simulator(), "task1", workload=workload) for _ in range(4)]
    batch = ServingBatch(envs[0], 4)
    room = batch._engines.capacity
    batch.restart([0, 1], [0, 2], alone)
    for i, seed in enumerate((0, 2)):
        envs[i].reset(seed)
    actions = random_actions(3)
    for step in range(60):
        if step == 30:
            batch.restart([2, 3], [1, 3], in_parts)
            for i, seed in ((2, 1), (3, 3)):
                envs[i].reset(seed)
        playing = range(4 if step >= 30 else 2)
        stepped = np.asarray([i in playing for i in range(4)])
        batch.advance(0, 4, knobs_of([actions[step]] * 4), stepped)
        for i in playing:
            assert tuple(batch.episodes.observation[i]) == row_of(envs[i].step(actions[step])[0])
    assert batch._engines.capacity > room


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_a_single_episode_on_the_compiled_engine_has_the_same_bytes(task_id: str) -> None:
    python = make_env(task_id)
    machine = InferenceEnv(shared_simulator(), task_id, engine=CompiledEngine)
    assert machine.reset(5) == python.reset(5)
    actions = random_actions(8)
    for step, action in enumerate(actions[:120]):
        if step == 60:
            kept = machine.snapshot()
        assert as_json(machine.step(action)) == as_json(python.step(action))
    machine.restore(kept)
    again = make_env(task_id)
    again.reset(5)
    for action in actions[:60]:
        again.step(action)
    for action in actions[60:120]:
        assert as_json(machine.step(action)) == as_json(again.step(action))
