"""Same task, seed and actions: the same bytes, in any process, whatever else is going on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env.serving.episode import InferenceEnv, make_env
from env.serving.tasks import get_task
from inferencegym.errors import InvalidValueError
from inferencegym.models.serving import ServeAction
from simulator.packs.trace_sim import shared_simulator
from simulator.serving.compiled import CompiledEngine
from simulator.serving.traffic.recorded import make_generator
from tests.env.episodes import (
    LENGTH,
    SEEDS,
    TASK_IDS,
    as_json,
    digest,
    random_actions,
    started,
    transcript,
)
from tests.live import ROOT
from tests.simulator.properties import bounded

BOUNDED = bounded(15)


def test_another_process_gives_the_same_bytes():
    cases = [(task_id, seed, action_seed) for task_id in TASK_IDS for seed, action_seed in ((0, 1), (7, 2))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "12345"}
    found = subprocess.run(
        [sys.executable, "-m", "tests.env.episodes", json.dumps(cases)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == [digest(*case) for case in cases]


@BOUNDED
@given(st.sampled_from(TASK_IDS), SEEDS, st.integers(0, 2**32))
def test_other_episodes_in_between_change_nothing(task_id: str, seed: int, action_seed: int):
    actions = random_actions(action_seed, 60)
    alone = transcript(started(task_id, seed), actions)
    env, others = started(task_id, seed), [started(other, seed) for other in TASK_IDS]
    beside = []
    for index, action in enumerate(actions):
        beside.append(as_json(env.step(action)))
        for other in others:
            other.step(actions[-1 - index])
        if index % 20 == 0:
            others[0].reset(index)
    assert beside == alone


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_reset_starts_over(task_id: str):
    env = make_env(task_id, 5)
    first = env.reset()
    actions = random_actions(1, 50)
    once = transcript(env, actions)
    assert env.reset() == first
    assert transcript(env, actions) == once
    env.reset(6)
    assert env.reset(5) == first
    assert transcript(env, actions) == once


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_seeds_differ_from_the_first_observation_on(task_id: str):
    seeds = [0, 1, 2, 42, 10**6, 2**62, 2**63 - 1]
    firsts, laters = set(), set()
    for seed in seeds:
        env = make_env(task_id, seed)
        firsts.add(env.reset().model_dump_json())
        for action in random_actions(0, 30):
            later = env.step(action)
        laters.add(as_json(later))
    assert len(firsts) == len(laters) == len(seeds)


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_the_first_observation_comes_from_the_model(task_id: str):
    """No field that traffic or engine decide is the same for every seed."""
    firsts = [make_env(task_id, seed).reset() for seed in range(12)]
    fixed = {"gpu_memory_used_gb", "spec_accept_rate", "timestep", "cost_so_far", "priority_distribution"}
    if task_id == "task3":
        fixed.remove("priority_distribution")
    for name in type(firsts[0]).model_fields.keys() - fixed - {"queue_depth", "slo_violation_rate"}:
        assert len({getattr(one, name) for one in firsts}) > 6, name
    assert {(one.timestep, one.cost_so_far) for one in firsts} == {(0, 0.0)}


@BOUNDED
@given(st.sampled_from(TASK_IDS), SEEDS, st.integers(0, 2**32), st.integers(0, LENGTH - 1))
def test_a_snapshot_goes_on_byte_for_byte(task_id: str, seed: int, action_seed: int, cut: int):
    actions = random_actions(action_seed)
    env = started(task_id, seed)
    transcript(env, actions[:cut])
    kept, state = env.snapshot(), env.state()
    rest = [*transcript(env, actions[cut:]), json.dumps(env.state())]
    for other in (env, started(task_id, seed), make_env(task_id, 1), started(task_id, seed + 1)):
        other.restore(kept)
        assert other.state() == state
        assert [*transcript(other, actions[cut:]), json.dumps(other.state())] == rest
        env.reset(9)


def other_snapshots() -> dict[str, Any]:
    """By what is wrong with them; the episode that they are offered to is started("task3", 1)."""
    traffic = get_task("task3").workload.model_copy(update={"replicas": 2})
    replay = InferenceEnv(shared_simulator(), "task3", workload=make_generator(traffic, LENGTH))
    fast = InferenceEnv(shared_simulator(), "task3", engine=CompiledEngine)
    paid = make_env("task3", 1, {"alpha": 0.1})
    for env in (replay, fast, paid):
        env.reset(1)
    whole = started("task3", 1).snapshot()
    return {
        "nothing": None, "empty": {}, "text": "x", "number": 5, "list": [whole],
        "part": {name: value for name, value in whole.items() if name != "engine"},
        "more": {**whole, "speed": 1},
        "task_id": started("task2", 1).snapshot(),
        "weights": paid.snapshot(),
        "engine_kind": fast.snapshot(),
        "workload": replay.snapshot(),
    }  # fmt: skip


def test_any_other_snapshot_is_refused_and_changes_nothing():
    for name, snapshot in other_snapshots().items():
        env, twin = started("task3", 1), started("task3", 1)
        with pytest.raises(InvalidValueError, match=rf"^snapshot(\.{name})?: "):
            env.restore(snapshot)
        assert transcript(env, [ServeAction()]) == transcript(twin, [ServeAction()])
