"""Candidates of the calibration: constant settings of a grid, finer ones, two-mode policies mutated.

Only candidates that fit the GPU's memory are made; which of them is best, :mod:`grader.serving.calibrate`
measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from env.serving.episode import InferenceEnv, make_env
from env.serving.tasks import ALL_TASKS, get_task
from grader.serving.policies import TwoMode
from grader.serving.scoring import WEIGHTS
from inferencegym.models.serving import QuantTier, ServeAction

__all__ = ["SEARCH_SEED", "TwoModeSearch", "grid_settings", "neighbours"]

SEARCH_SEED = 2024

_SWEEP: dict[str, tuple[Any, ...]] = {
    "kv_budget": (0.1, 0.25, 0.4, 0.55, 0.7, 0.75, 0.8, 0.85, 0.9, 1.0),
    "batch_size": (1, 4, 16, 32, 64, 96, 128, 160, 192, 224, 240, 256, 384, 512),
    "spec_length": (0, 1, 2, 4),
    "prefill_disagg": (False, True),
    "quant_tier": tuple(QuantTier),
}
_SWEEP_COARSE: dict[str, tuple[Any, ...]] = {
    **_SWEEP,
    "kv_budget": (0.25, 0.5, 0.75, 0.85, 0.95),
    "batch_size": (1, 16, 32, 64, 96, 128, 160, 224),
    "spec_length": (0, 1, 2),
}


def grid_settings(task_id: str, pack: str | None = None) -> list[ServeAction]:
    """Constant settings of a grid over the task's open knobs that fit the GPU; coarser with many knobs."""
    active = ALL_TASKS[task_id].active_actions
    grid = _SWEEP if len(active) <= 3 else _SWEEP_COARSE
    env = make_env(task_id, config={"trace_pack": pack})
    settings = [
        ServeAction(**dict(zip(active, values, strict=True)))
        for values in product(*(grid[name] for name in active))
    ]
    return [action for action in settings if env.reserved_memory_gb(action) <= _memory_limit_gb(env)]


def _memory_limit_gb(env: InferenceEnv) -> float:
    """GiB that candidate settings may reserve: the task's limit, unless its grade prices memory itself."""
    limit = env.memory_limit_gb
    if limit is None or "memory" in WEIGHTS[env.task.id]:
        return env.simulator.table.metadata.memory_limit_gb
    return limit


def neighbours(task_id: str, raw: dict[str, Any], pack: str | None = None) -> list[ServeAction]:
    """Finer steps of batch size and KV budget around a setting, as far as they fit the GPU."""
    env = make_env(task_id, config={"trace_pack": pack})
    base = ServeAction.model_validate(raw)
    found: list[ServeAction] = []
    for factor, shift in product((0.9, 0.95, 1.0, 1.05, 1.1), (-0.03, 0.0, 0.03)):
        batch = min(512, max(1, round(base.batch_size * factor)))
        kv = min(1.0, max(0.1, round(base.kv_budget + shift, 3)))
        action = base.model_copy(update={"batch_size": batch, "kv_budget": kv})
        if env.reserved_memory_gb(action) <= _memory_limit_gb(env):
            found.append(action)
    return found


class TwoModeSearch:
    """Seeded evolution of two-mode policies: random parents around the best constants, then mutations."""

    def __init__(self, task_id: str, best: Sequence[ServeAction], pack: str | None = None) -> None:
        self._rng = np.random.default_rng(SEARCH_SEED)
        self._active = ALL_TASKS[task_id].active_actions
        self._best = best
        self._env = make_env(task_id, config={"trace_pack": pack})
        workload = get_task(task_id).workload
        self._rate_rps = workload.arrivals.rate_rps
        self._limit_gb = _memory_limit_gb(self._env)
        self._aim_gb = self._env.memory_limit_gb or self._limit_gb

    def random(self, total: int) -> list[TwoMode]:
        """``total`` policies whose modes vary the best constants."""
        policies: list[TwoMode] = []
        while len(policies) < total:
            quiet, busy = (self._vary(self._best[int(self._rng.integers(len(self._best)))]) for _ in range(2))
            rate_on = round(float(self._rate_rps * self._rng.uniform(1.1, 2.0)), 2)
            queue_on, queue_off = int(self._rng.integers(2, 33)), int(self._rng.integers(0, 5))
            policies += self._fitting([TwoMode(quiet, busy, rate_on, queue_on, queue_off)])
        return policies

    def mutations(self, parents: Sequence[TwoMode], each: int) -> list[TwoMode]:
        """``each`` children per parent: batch sizes and thresholds moved by up to a tenth, knobs redrawn."""
        return self._fitting([self._child(parent) for parent in parents for _ in range(each)])

    def _child(self, parent: TwoMode) -> TwoMode:
        rng = self._rng
        quiet = self._nudge(parent.quiet) if rng.random() < 0.7 else parent.quiet
        busy = self._nudge(parent.busy) if rng.random() < 0.7 else parent.busy
        rate_on = round(float(max(self._rate_rps * 1.05, parent.rate_on_rps * rng.uniform(0.85, 1.15))), 2)
        queue_on = max(1, parent.queue_on + int(rng.integers(-6, 7)))
        return TwoMode(quiet, busy, rate_on, queue_on, int(rng.integers(0, 5)))

    def _nudge(self, action: ServeAction) -> ServeAction:
        batch = int(np.clip(round(action.batch_size * self._rng.uniform(0.88, 1.12)), 1, 512))
        moved = action.model_copy(update={"batch_size": batch})
        return self._vary(moved, redraw=0.15)

    def _vary(self, base: ServeAction, redraw: float = 0.5) -> ServeAction:
        """Redraw some open knobs; mostly give the KV pool all that the memory limit leaves."""
        rng, knobs = self._rng, base.model_dump()
        for name in self._active:
            if rng.random() < redraw:
                knobs[name] = _SWEEP[name][int(rng.integers(len(_SWEEP[name])))]
        if rng.random() < 0.85:
            knobs["kv_budget"] = _largest_kv(self._env, ServeAction(**knobs), self._aim_gb)
        return ServeAction(**knobs)

    def _fitting(self, policies: Sequence[TwoMode]) -> list[TwoMode]:
        """Those whose modes both fit the GPU."""
        fits = self._env.reserved_memory_gb
        return [p for p in policies if max(fits(p.quiet), fits(p.busy)) <= self._limit_gb]


def _largest_kv(env: Any, action: ServeAction, limit_gb: float) -> float:
    """KV budget (two decimals, rounded down) that reserves at most ``limit_gb`` with the other knobs."""
    at_zero = env.reserved_memory_gb(action.model_copy(update={"kv_budget": 0.1}))
    at_one = env.reserved_memory_gb(action.model_copy(update={"kv_budget": 1.0}))
    share = 0.1 + 0.9 * (limit_gb - at_zero) / (at_one - at_zero)
    return float(np.clip(np.floor(share * 100) / 100, 0.1, 1.0))
