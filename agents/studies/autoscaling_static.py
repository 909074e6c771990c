"""``python -m agents.studies.autoscaling_static``: how well every constant total does on
InferenceGym/Autoscaling-v0.

Seeds 9000 to 9019, which no table uses. The best mean scores are ``STATIC_REPLICAS`` of
:mod:`agents.autoscaling.agents`; the highest single score shows how far below the pass line constants stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agents.autoscaling.controllers import Constant
from agents.compare.episodes import Job, play_episode
from env.autoscaling.tasks import TASKS
from env.protocols import listed_tasks
from inferencegym.models.autoscaling import MAX_REPLICAS, MIN_REPLICAS, AutoscalingAction
from inferencegym.options import OptionParser
from inferencegym.registry import get_spec

__all__ = ["SEEDS", "main", "scores_of"]

SEEDS = tuple(range(9000, 9020))


def scores_of(task_id: str, total: int) -> list[float]:
    """Scores of a constant total on all seeds."""
    spec = get_spec("autoscaling")
    agent = Constant(AutoscalingAction(target_replicas=total))
    return [play_episode(spec, Job(task_id, f"{total} replicas", seed), agent).score for seed in SEEDS]


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table, and the best total of each task."""
    parser = OptionParser(
        prog="python -m agents.studies.autoscaling_static",
        description="Scores of every constant total on InferenceGym/Autoscaling-v0, seeds 9000 to 9019: "
        "a minute or more.",
    )
    tasks = list(listed_tasks(TASKS))
    parser.add_argument("--task", choices=tasks, help="play this task only (default: all of them)")
    only: str | None = parser.parse_args(argv).task
    for task_id in tasks if only is None else [only]:
        means: dict[int, float] = {}
        for total in range(MIN_REPLICAS, MAX_REPLICAS + 1):
            scores = scores_of(task_id, total)
            means[total] = float(np.mean(scores))
            print(f"{task_id} {total:2}: mean {means[total]:.3f}, highest {max(scores):.3f}")
        print(f"{task_id}: best is {max(means, key=lambda total: means[total])}")


if __name__ == "__main__":
    main()
