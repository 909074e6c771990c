"""PPO on Autoscaling-v0: the shipped policies, and a short training run, against the threshold rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agents.autoscaling.agents import AGENTS
from tests.agents.autoscaling.scenarios import play, quick_env

pytest.importorskip("gymnasium")
HELD_OUT = range(120, 132)
TASKS = ("balanced", "high_traffic", "failure_heavy")


def scores(agent: str, task_id: str) -> np.ndarray:
    return np.asarray(
        [play(AGENTS[agent](task_id, seed), quick_env(task_id, seed)).score for seed in HELD_OUT]
    )


@pytest.mark.parametrize("task_id", TASKS)
def test_shipped_policies_beat_the_threshold_rule_on_held_out_seeds(task_id: str) -> None:
    gains = scores("ppo", task_id) - scores("baseline", task_id)
    assert gains.mean() > 2.0 * gains.std(ddof=1) / np.sqrt(len(gains))


@pytest.mark.demo
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from inside the training libraries
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("task_id", ["balanced", "failure_heavy"])
def test_a_short_training_run_beats_the_threshold_rule(task_id: str, tmp_path: Path) -> None:
    from agents.ppo.demo import Args, evaluate, train

    args = Args(env="autoscaling", task=task_id, steps=200_000, evaluations=1, out=str(tmp_path)).checked()
    policy, _ = train(args)
    learned = np.asarray([result.score for result in evaluate(policy, list(HELD_OUT))])
    assert learned.mean() > scores("baseline", task_id).mean()
