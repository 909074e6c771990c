"""Traffic with the lengths and rates of public traces: it keeps their quantiles and swells."""

from __future__ import annotations

import numpy as np
import pytest

from env.serving.episode import make_env
from env.serving.tasks import ALL_TASKS, TASKS
from grader.serving.grader import GRADER
from inferencegym.errors import InvalidValueError, UnknownNameError
from inferencegym.models.serving import ServeAction
from simulator.serving.traffic.config import get_workload
from simulator.serving.traffic.recorded import RecordedWorkload, load_recorded, make_generator
from simulator.serving.traffic.workload import WorkloadGenerator

RECORDED = [task_id for task_id in ALL_TASKS if task_id not in TASKS]


def episodes(task_id: str, count: int = 60) -> list:
    generator = make_generator(get_workload(task_id), 200)
    assert isinstance(generator, RecordedWorkload)
    return [generator.episode(np.random.default_rng(seed)) for seed in range(count)]


def test_the_three_tasks_keep_their_own_traffic() -> None:
    assert RECORDED == ["azure-conversation", "azure-code", "mooncake-conversation"]
    assert all(type(make_generator(get_workload(task_id), 200)) is WorkloadGenerator for task_id in TASKS)


@pytest.mark.parametrize("task_id", RECORDED)
def test_lengths_follow_the_quantiles(task_id: str) -> None:
    config = get_workload(task_id)
    assert config.recorded is not None
    traffic = load_recorded(config.recorded.name)
    drawn = episodes(task_id)
    prompt = np.concatenate([episode.prompt for episode in drawn])
    output = np.concatenate([episode.output for episode in drawn])
    levels = traffic.levels[4:-4:4]
    expected = np.minimum(traffic.prompt_tokens, config.recorded.prompt_cap_tokens)
    for sample, quantiles in ((prompt, expected), (output, traffic.output_tokens)):
        wanted = np.interp(levels, traffic.levels, quantiles)
        # A share of requests within 3 % of the level; quantiles themselves jump where lengths repeat.
        below = np.array([(sample <= np.ceil(value)).mean() for value in wanted])
        at_least = np.array([(sample < np.floor(value)).mean() for value in wanted])
        assert (below >= levels - 0.03).all()
        assert (at_least <= levels + 0.03).all()
        assert sample.min() >= 1.0
        assert (sample == np.rint(sample)).all()
    assert prompt.max() <= config.recorded.prompt_cap_tokens


@pytest.mark.parametrize("task_id", RECORDED)
def test_the_rate_is_the_traces(task_id: str) -> None:
    config = get_workload(task_id)
    assert config.recorded is not None
    mean = load_recorded(config.recorded.name).mean_rate_rps * config.recorded.rate_factor
    assert config.arrivals.rate_rps == pytest.approx(mean, rel=0.06)
    per_engine = np.mean([len(episode.arrival) / 201 for episode in episodes(task_id, 300)])
    assert per_engine * config.replicas == pytest.approx(mean, rel=0.1)


@pytest.mark.parametrize("task_id", RECORDED)
def test_an_episode_is_played_graded_and_repeated(task_id: str) -> None:
    def play(seed: int) -> tuple[float, list[float]]:
        env = make_env(task_id, seed)
        env.reset()
        rewards = [env.step(ServeAction(batch_size=64, prefill_disagg=True))[1] for _ in range(200)]
        actions = [{"batch_size": 64, "prefill_disagg": True}] * 200
        return GRADER.grade_replay(task_id, seed, actions).score, rewards

    score, rewards = play(3)
    assert play(3) == (score, rewards)
    assert play(4)[1] != rewards
    assert 0.05 < score < 1.0


def test_a_workload_that_is_not_recorded_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="recorded"):
        RecordedWorkload(get_workload("task1"))
    with pytest.raises(UnknownNameError, match="azure_llm_2023_code"):
        load_recorded("azure_llm_2023_cod")
