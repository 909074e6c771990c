"""``python -m inferencegym.gym.benchmark [--env NAME]``: steps a second through gymnasium, beside CartPole's.

Prints one JSON document to standard output. Random actions; resets are part of the time. Vector figures are
env-steps a second. Every such figure is the median of a few rounds, ours and CartPole's in turns, for other
work on the machine comes and goes. ``ppo_time_share`` says how a short training run spends its time (null
without the extra ``demo``).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import gymnasium

from agents.command_line import plain_errors
from env.protocols import listed_tasks
from inferencegym.errors import InferenceGymError
from inferencegym.gym.registration import register_all
from inferencegym.gym.team import available_cores
from inferencegym.options import OptionParser
from inferencegym.registry import get_spec

__all__ = ["main", "measure"]

YARDSTICK = "CartPole-v1"
ACTIONS = 64
SECONDS = 1.0
ROUNDS = 3
PPO_STEPS = 100_000
VECTOR_SIZES = (256, 1024)
VECTOR = "vector_entry_point"


def single_rate(env: Any, seconds: float) -> float:
    """Steps a second of one environment, resets included."""
    actions = [env.action_space.sample() for _ in range(ACTIONS)]
    env.reset(seed=0)
    started = time.perf_counter()
    steps, ended = 0, False
    while (elapsed := time.perf_counter() - started) < seconds:
        for action in actions:
            if ended:
                env.reset()
            _, _, terminated, truncated, _ = env.step(action)
            ended = terminated or truncated
        steps += ACTIONS
    return steps / elapsed


def vector_rate(envs: Any, seconds: float) -> float:
    """Env-steps a second of a vector environment, automatic resets included.

    Runs for whole episodes of 200 steps, so that the share of resets is the usual one.
    """
    actions = [envs.action_space.sample() for _ in range(ACTIONS)]
    envs.reset(seed=0)
    envs.step(actions[0])
    started = time.perf_counter()
    steps = 0
    while (elapsed := time.perf_counter() - started) < seconds:
        for index in range(200):
            envs.step(actions[index % ACTIONS])
        steps += 200 * envs.num_envs
    return steps / elapsed


def _medians(cases: dict[str, Callable[[], Any]], rate: Any, seconds: float, rounds: int) -> dict[str, int]:
    """Median rate of each case; the cases take turns."""
    envs = {name: make() for name, make in cases.items()}
    try:
        for env in envs.values():
            rate(env, 0.0)  # compiles, fills caches
        runs = [{name: rate(env, seconds) for name, env in envs.items()} for _ in range(rounds)]
    finally:
        for env in envs.values():
            env.close()
    return {name: round(median(run[name] for run in runs)) for name in envs}


def measure(
    seconds: float = SECONDS,
    rounds: int = ROUNDS,
    sizes: Sequence[int] = VECTOR_SIZES,
    env: str = "serving",
    tasks: Sequence[str] | None = None,
) -> dict[str, Any]:
    """All figures of an environment (id or short name) on ``tasks``, by default all; see the module."""
    register_all()
    spec = get_spec(env)
    tasks = list(tasks or listed_tasks(spec.part("tasks")))
    singles: dict[str, Callable[[], Any]] = {
        task: lambda task=task: gymnasium.make(spec.id, task_id=task) for task in tasks
    }
    singles["cartpole"] = lambda: gymnasium.make(YARDSTICK)
    report: dict[str, Any] = {
        "machine": f"{available_cores()} of {os.cpu_count()} CPUs, Python {sys.version.split()[0]}",
        "single_steps_per_s": _medians(singles, single_rate, seconds, rounds),
    }
    for size in sizes:
        vectors: dict[str, Callable[[], Any]] = {
            task: lambda task=task, size=size: _vector(spec.id, size, task_id=task) for task in tasks
        }
        vectors["cartpole"] = lambda size=size: _vector(YARDSTICK, size)
        report[f"vector_{size}_env_steps_per_s"] = _medians(vectors, vector_rate, seconds, rounds)
    report["ppo_time_share"] = ppo_time_share(spec.name, tasks[-1])
    return report


def ppo_time_share(
    env: str = "serving", task: str = "task3", steps: int = PPO_STEPS
) -> dict[str, float] | None:
    """Shares of a training run's time on a task; None without PyTorch and Stable-Baselines3."""
    try:
        from agents.ppo.demo import Args, train
    except InferenceGymError:
        return None
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        _, watch = train(Args(env=env, task=task, steps=steps, evaluations=1, out=folder).checked())
    return {name: round(share, 3) for name, share in watch.shares.items()}


def _vector(env_id: str, size: int, **settings: Any) -> Any:
    return gymnasium.make_vec(env_id, num_envs=size, vectorization_mode=VECTOR, **settings)


def main() -> None:
    """Print the report."""
    parser = OptionParser(description="Steps a second through gymnasium, beside CartPole.")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time of each measurement")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="measurements that the median is of")
    parser.add_argument("--env", default="serving", help="id or short name (default serving)")
    parser.add_argument("--tasks", nargs="*", default=None, help="task ids (default all)")
    options = parser.parse_args()
    with plain_errors(parser):
        report = measure(options.seconds, options.rounds, env=options.env, tasks=options.tasks)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
