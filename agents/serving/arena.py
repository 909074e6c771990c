"""Plays and grades many policies on many seeds at once, for training. Needs numba (extra ``gym``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.serving.evolved_policy import EvolvedPolicy
from env.serving.episode import make_env
from env.serving.tasks import load_calibration
from grader.serving.scoring import Anchors, score_columns
from inferencegym.errors import InferenceGymError

__all__ = ["Arena"]

FloatArray = npt.NDArray[np.float64]


class Arena:
    """One task, played by compiled copies of its simulator.

    Args:
        task_id: the task.
        threads: that step episodes; machine code runs in them side by side.

    Raises:
        InferenceGymError: numba is missing.
    """

    def __init__(self, task_id: str, threads: int = 1) -> None:
        self.task_id = task_id
        self._env = make_env(task_id)
        self._batches: dict[int, Any] = {}
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads)
        measured = load_calibration()["tasks"][task_id]
        self._anchors = Anchors(measured["floor_tokens_per_s"], measured["optimum_tokens_per_s"])

    def play(self, parameters: FloatArray, seeds: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Let every policy play every seed.

        Args:
            parameters: shape (policies, size), see :class:`EvolvedPolicy`.
            seeds: of the episodes.

        Returns:
            Grades and mean rewards, both of shape (policies, seeds).
        """
        count = len(parameters) * len(seeds)
        policy = EvolvedPolicy(self.task_id, np.repeat(parameters, len(seeds), axis=0))
        batch = self._batch(count)
        batch.restart(range(count), list(seeds) * len(parameters), self._spread)
        everyone = np.ones(count, dtype=np.bool_)
        columns: dict[str, list[FloatArray]] = {name: [] for name in (*_RESULTS, "batch_size", "kv_budget")}
        rewards = np.zeros(count)
        for step in range(batch.episode_length):
            actions = policy.act(batch.episodes.observation, step)
            self._advance(batch, actions, everyone)
            for name, column in _RESULTS.items():
                columns[name].append(batch.results[:, _column(column)].copy())
            columns["kv_budget"].append(actions[:, 0].copy())
            columns["batch_size"].append(actions[:, 2].copy())
            rewards += batch.episodes.reward
        shape = (len(parameters), len(seeds))
        return self._grades(columns).reshape(shape), (rewards / batch.episode_length).reshape(shape)

    def _grades(self, columns: dict[str, list[FloatArray]]) -> FloatArray:
        by_episode = {name: np.array(steps).T.copy() for name, steps in columns.items()}
        count, steps = by_episode["kv_budget"].shape
        episodes: list[Any] = [{name: rows[i] for name, rows in by_episode.items()} for i in range(count)]
        return np.array([score_columns(self.task_id, one, steps, self._anchors)[0] for one in episodes])

    def _batch(self, count: int) -> Any:
        if count not in self._batches:
            try:
                from env.serving.batch import ServingBatch
            except ImportError as error:
                raise InferenceGymError(
                    f"Training needs {error.name}.", "Install the extra: pip install 'inferencegym[gym]'."
                ) from None
            self._batches[count] = ServingBatch(self._env, count)
        return self._batches[count]

    def _advance(self, batch: Any, actions: FloatArray, everyone: npt.NDArray[np.bool_]) -> None:
        self._spread(lambda low, high: batch.advance(low, high, actions, everyone), len(actions))

    def _spread(self, work: Callable[[int, int], None], count: int) -> None:
        edges = [count * part // self._threads for part in range(self._threads + 1)]
        list(self._pool.map(work, edges[:-1], edges[1:]))


_RESULTS = {
    "tokens_per_s": "tokens_per_s",
    "ttft_p50_ms": "ttft_p50_ms",
    "memory_gb": "memory_gb",
    "cost_per_1k": "cost_per_1k",
    "slo_violation_rate": "violation_rate",
    "oom": "oom",
}
"""Fields of StepFigures that the simulator gives, and what it calls them."""


def _column(name: str) -> int:
    from simulator.serving.rows import RESULT

    return RESULT[name]
