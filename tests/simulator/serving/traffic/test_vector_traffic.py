"""Compiled traffic against the generator's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.kernels.random import Ziggurat
from simulator.serving.rows import Engines
from simulator.serving.traffic import vector_traffic as vector_workload
from simulator.serving.traffic.config import WorkloadConfig, get_workload
from simulator.serving.traffic.vector_traffic import Traffic, copy_traffic
from simulator.serving.traffic.workload import EpisodeTraffic, WorkloadGenerator
from tests.simulator.engines import workload
from tests.simulator.serving.test_kernel import workloads

TASKS = ("task1", "task2", "task3")


def assert_same(generator: WorkloadGenerator, seeds: list[int], traffic: Traffic | None = None) -> None:
    """Rows of compiled traffic equal those that the generator fills."""
    episodes = [generator.episode(np.random.default_rng(seed)) for seed in seeds]
    capacity = max(1, *(len(episode.arrival) for episode in episodes))
    ours, theirs = (Engines.empty(len(seeds), capacity, generator.steps + 1) for _ in range(2))
    traffic = traffic or Traffic(generator)
    assert traffic.draw(ours, np.arange(len(seeds)), np.asarray(seeds, dtype=np.int64)) == 0
    for row, episode in enumerate(episodes):
        copy_traffic(theirs, row, episode)
        total = len(episode.arrival)
        assert np.array_equal(ours.requests[row, :4, :total], theirs.requests[row, :4, :total])
        assert np.array_equal(ours.ids[row, :, :total], theirs.ids[row, :, :total])
        assert np.array_equal(ours.first_request[row], theirs.first_request[row])
        assert np.array_equal(ours.signals[row], theirs.signals[row])


@pytest.mark.parametrize("task_id", TASKS)
def test_traffic_of_the_tasks(task_id: str) -> None:
    traffic = Traffic(generator := WorkloadGenerator(get_workload(task_id)))
    assert traffic._tables is not None
    assert_same(generator, [*range(100), 2**63 - 1], traffic)


@given(workloads(), st.integers(0, 2**63 - 1), st.integers(1, 120))
@settings(deadline=None, max_examples=40)
def test_traffic_of_any_workload(config: WorkloadConfig, seed: int, steps: int) -> None:
    assert_same(WorkloadGenerator(config, steps), [seed])


def test_a_length_in_doubt_is_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = WorkloadGenerator(get_workload("task2"))
    traffic = Traffic(generator)
    calls: list[int] = []
    draw = generator.episode

    def counted(rng: np.random.Generator) -> EpisodeTraffic:
        calls.append(1)
        return draw(rng)

    monkeypatch.setattr(generator, "episode", counted)
    # Of some 1,400 lognormal lengths an episode, one in 250,000 lies within 1e-6 of a middle.
    rows = Engines.empty(1, traffic.usual_requests(), generator.steps + 1)
    for seed in range(3000):
        traffic.draw(rows, np.zeros(1, dtype=np.int64), np.full(1, seed))
        if calls:
            return
    raise AssertionError("no length was in doubt")


def test_the_generator_draws_where_compiled_code_does_not_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = Ziggurat.load()
    wrong = Ziggurat(tables.accept_below, tables.width * 1.5, tables.density)
    monkeypatch.setattr(Ziggurat, "load", classmethod(lambda _: wrong))
    traffic = Traffic(generator := WorkloadGenerator(get_workload("task1"), 20))
    assert traffic._tables is None
    assert_same(generator, [1, 2], traffic)


def test_the_generator_draws_where_the_tables_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: type[Ziggurat]) -> Ziggurat:
        raise ImportError("no such module")

    monkeypatch.setattr(Ziggurat, "load", classmethod(gone))
    assert_same(WorkloadGenerator(get_workload("task1"), 20), [5])


class Mine(WorkloadGenerator):
    """Traffic that only this class knows how to draw."""

    def episode(self, rng: np.random.Generator) -> EpisodeTraffic:
        episode = super().episode(rng)
        episode.prompt[:] = 77.0
        return episode


def test_a_subclass_draws_itself() -> None:
    traffic = Traffic(Mine(get_workload("task1"), 20))
    assert traffic.usual_requests() == vector_workload._USUAL_REQUESTS
    assert_same(Mine(get_workload("task1"), 20), [3], traffic)


@pytest.mark.parametrize("cls", [WorkloadGenerator, Mine])
def test_too_little_room_is_reported_with_what_is_needed(cls: type[WorkloadGenerator]) -> None:
    generator = cls(workload(rate_rps=5.0), 20)
    episode = generator.episode(np.random.default_rng(9))
    rows = Engines.empty(2, len(episode.arrival) - 1, 21)
    needed = Traffic(generator).draw(rows, np.asarray([1]), np.asarray([9]))
    assert needed == len(episode.arrival)


@pytest.mark.parametrize("task_id", TASKS)
def test_the_usual_room_is_enough_and_not_wasteful(task_id: str) -> None:
    generator = WorkloadGenerator(get_workload(task_id))
    longest = max(len(generator.episode(np.random.default_rng(seed)).arrival) for seed in range(50))
    assert longest < Traffic(generator).usual_requests() < 1.5 * longest
