"""Compute the anchors of the grades from the simulator: ``python -m grader.calibrate [--check]``.

For every task, on seeds that no reported table uses:

1. a sweep over constant settings (the knobs that the task opens), the best of which are tried finer;
2. a seeded search over two-mode policies (:class:`grader.policies.TwoMode`), started from the best constants;
3. floor, optimum and highest tokens/s, and the score of the fixed baseline, from what was measured.

``--check`` does it all again and compares with the committed ``env/calibration.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import numpy as np

from env.serving import make_env
from env.serving_tasks import CALIBRATION_PATH, TASKS, get_task
from grader.policies import Constant, TwoMode, policy_from_dict
from grader.scoring import WEIGHTS, Anchors, StepFigures, score_steps
from inferencegym.models import QuantTier, ServeAction
from simulator.trace_sim import shared_simulator

__all__ = ["BASELINE_SEED", "CALIBRATION_SEEDS", "Outcome", "calibrate", "main", "play"]

CALIBRATION_SEEDS = tuple(range(9000, 9008))
"""Seeds of the search. Baselines use 0, tables and benchmarks 100 and up, learning others again."""

SWEEP_SEEDS = CALIBRATION_SEEDS[:3]
BASELINE_SEED = 0
FINALISTS = 12
CANDIDATES = 120
GENERATIONS, PARENTS, CHILDREN = 6, 8, 4
SEARCH_SEED = 2024
TOLERANCE = 1e-9

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

_FLOOR_RULE = {
    "task1": "minimum",
    "task2": "minimum",
    "task3": "random",
}
"""Tokens/s that score 0. Task 1: the worst constant setting that fits the GPU. Task 3: uniformly random
actions, so that throughput counts from where chance ends (its static settings span too little to use)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a policy did on one seed: per-step figures and the episode's mean reward."""

    steps: list[StepFigures]
    mean_reward: float

    @property
    def tokens_per_s(self) -> float:
        return float(np.mean([step.tokens_per_s for step in self.steps]))


def play(task_id: str, policy: Any, seed: int) -> Outcome:
    """Play one episode in-process."""
    env = make_env(task_id, seed)
    observation = env.reset()
    policy.reset()
    steps: list[StepFigures] = []
    total = 0.0
    while not env.done:
        observation, reward, _, info = env.step(policy.act(observation))
        total += reward
        metrics, action = info["metrics"], info["action"]
        steps.append(
            StepFigures(
                metrics["tokens_per_sec"],
                metrics["ttft_p50_ms"],
                metrics["gpu_memory_gb"],
                metrics["cost_per_1k"],
                metrics["slo_violation_rate"],
                action["batch_size"],
                action["kv_budget"],
            )
        )
    return Outcome(steps, total / len(steps))


class UniformRandom:
    """Actions drawn uniformly from the action space, afresh every step."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def reset(self) -> None:
        """Draws go on: one instance plays one episode."""

    def act(self, observation: Any) -> ServeAction:
        rng = self._rng
        return ServeAction(
            kv_budget=float(rng.uniform(0.1, 1.0)),
            spec_length=int(rng.choice([0, 1, 2, 4, 8])),  # type: ignore[arg-type]
            batch_size=int(rng.integers(1, 513)),
            prefill_disagg=bool(rng.integers(2)),
            quant_tier=QuantTier(int(rng.integers(3))),
        )


def _settings(task_id: str, grid: dict[str, tuple[Any, ...]]) -> list[ServeAction]:
    """Constant settings of a grid over the task's open knobs that fit the GPU."""
    active = TASKS[task_id].active_actions
    env = make_env(task_id)
    settings = [
        ServeAction(**dict(zip(active, values, strict=True)))
        for values in product(*(grid[name] for name in active))
    ]
    return [action for action in settings if env.reserved_memory_gb(action) <= _memory_limit_gb(task_id)]


def _memory_limit_gb(task_id: str) -> float:
    """GiB that candidate settings may reserve: the task's limit, unless its grade prices memory itself."""
    limit = get_task(task_id).workload.memory_limit_gb
    if limit is None or "memory" in WEIGHTS[task_id]:
        return shared_simulator().table.metadata.memory_limit_gb
    return limit


def _evaluate(job: tuple[str, dict[str, Any], tuple[int, ...]]) -> tuple[float, float]:
    """Mean score (with provisional anchors) and mean tokens/s of a described policy over seeds."""
    task_id, description, seeds = job
    outcomes = [play(task_id, policy_from_dict(description), seed) for seed in seeds]
    provisional = _PROVISIONAL[task_id]
    scores = [score_steps(task_id, o.steps, TASKS[task_id].episode_length, provisional)[0] for o in outcomes]
    return float(np.mean(scores)), float(np.mean([o.tokens_per_s for o in outcomes]))


_PROVISIONAL = {
    "task1": Anchors(0.0, 10_000.0),
    "task2": Anchors(0.0, 10_000.0),
    "task3": Anchors(500.0, 3_000.0),
}
"""Anchors while searching: wide enough that nothing is clipped, so that the ranking does not depend on them."""


def _rank(
    pool: ProcessPoolExecutor, task_id: str, policies: Sequence[Constant | TwoMode], seeds: tuple[int, ...]
) -> list[tuple[float, float, dict[str, Any]]]:
    """(score, tokens/s, description), best first; ties by description."""
    described = [policy.to_dict() for policy in policies]
    results = pool.map(_evaluate, [(task_id, d, seeds) for d in described], chunksize=4)
    rows = [(score, tokens, d) for (score, tokens), d in zip(results, described, strict=True)]
    return sorted(rows, key=_ranking)


class _TwoModeSearch:
    """Seeded evolution of two-mode policies: random parents around the best constants, then mutations."""

    def __init__(self, task_id: str, best: Sequence[ServeAction]) -> None:
        self._rng = np.random.default_rng(SEARCH_SEED)
        self._active = TASKS[task_id].active_actions
        self._best = best
        self._env = make_env(task_id)
        workload = get_task(task_id).workload
        self._rate_rps = workload.arrivals.rate_rps
        self._limit_gb = _memory_limit_gb(task_id)
        self._aim_gb = workload.memory_limit_gb or self._limit_gb

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


def calibrate_task(pool: ProcessPoolExecutor, task_id: str) -> dict[str, Any]:
    """Anchors and best policies of one task."""
    grid = _SWEEP if len(TASKS[task_id].active_actions) <= 3 else _SWEEP_COARSE
    settings = _settings(task_id, grid)
    sweep = _rank(pool, task_id, [Constant(s) for s in settings], SWEEP_SEEDS)
    finer = [Constant(s) for row in sweep[:3] for s in _neighbours(task_id, row[2]["action"])]
    finalists = [policy_from_dict(row[2]) for row in sweep[:FINALISTS]]
    constants = _rank(pool, task_id, [*finalists, *finer], CALIBRATION_SEEDS)
    best = [ServeAction.model_validate(row[2]["action"]) for row in constants[:FINALISTS]]
    adaptive, tried = _evolve(pool, task_id, best)
    final = [*constants, *adaptive]
    static_tokens = [row[1] for row in sweep]
    return {
        "static_settings_tried": len(settings) + len(finer),
        "two_mode_policies_tried": tried,
        "best_static": constants[0][2],
        "best_adaptive": adaptive[0][2],
        "floor_rule": _FLOOR_RULE[task_id],
        "floor_tokens_per_s": _floor(task_id, static_tokens),
        "optimum_tokens_per_s": max(row[1] for row in final),
        "max_tokens_per_s": _peak(task_id, [constants[0][2], adaptive[0][2]]),
    }


def _evolve(
    pool: ProcessPoolExecutor, task_id: str, best: Sequence[ServeAction]
) -> tuple[list[tuple[float, float, dict[str, Any]]], int]:
    """Two-mode policies evaluated on all calibration seeds, best first, and how many were tried."""
    search = _TwoModeSearch(task_id, best)
    candidates = search.random(CANDIDATES)
    tried = len(candidates)
    screened = _rank(pool, task_id, candidates, SWEEP_SEEDS)
    survivors = [cast("TwoMode", policy_from_dict(row[2])) for row in screened[:FINALISTS]]
    rows = _rank(pool, task_id, survivors, CALIBRATION_SEEDS)
    for _ in range(GENERATIONS):
        parents = [cast("TwoMode", policy_from_dict(row[2])) for row in rows[:PARENTS]]
        children = search.mutations(parents, CHILDREN)
        tried += len(children)
        rows = sorted([*rows, *_rank(pool, task_id, children, CALIBRATION_SEEDS)], key=_ranking)
    return rows, tried


def _ranking(row: tuple[float, float, dict[str, Any]]) -> tuple[float, str]:
    return -row[0], json.dumps(row[2], sort_keys=True)


def _neighbours(task_id: str, raw: dict[str, Any]) -> list[ServeAction]:
    """Finer steps of batch size and KV budget around a setting, as far as they fit the GPU."""
    env, base = make_env(task_id), ServeAction.model_validate(raw)
    found: list[ServeAction] = []
    for factor, shift in product((0.9, 0.95, 1.0, 1.05, 1.1), (-0.03, 0.0, 0.03)):
        batch = min(512, max(1, round(base.batch_size * factor)))
        kv = min(1.0, max(0.1, round(base.kv_budget + shift, 3)))
        action = base.model_copy(update={"batch_size": batch, "kv_budget": kv})
        if env.reserved_memory_gb(action) <= _memory_limit_gb(task_id):
            found.append(action)
    return found


def _floor(task_id: str, static_tokens: Sequence[float]) -> float:
    if _FLOOR_RULE[task_id] == "minimum":
        return min(static_tokens)
    return float(np.mean([play(task_id, UniformRandom(s), s).tokens_per_s for s in CALIBRATION_SEEDS]))


def _peak(task_id: str, descriptions: Sequence[dict[str, Any]]) -> float:
    """Highest tokens/s of a single second under the best policies: T of the reward reaches 1 there."""
    outcomes = [play(task_id, policy_from_dict(d), s) for d in descriptions for s in CALIBRATION_SEEDS]
    return max(step.tokens_per_s for outcome in outcomes for step in outcome.steps)


def baseline_score(task_id: str, measured: dict[str, Any]) -> float:
    """Score of the fixed default action on the baseline seed."""
    anchors = Anchors(measured["floor_tokens_per_s"], measured["optimum_tokens_per_s"])
    outcome = play(task_id, Constant(), BASELINE_SEED)
    return score_steps(task_id, outcome.steps, TASKS[task_id].episode_length, anchors)[0]


def calibrate(workers: int = 2) -> dict[str, Any]:
    """Anchors of all tasks with their provenance. Deterministic; about a minute on two cores."""
    tasks: dict[str, Any] = {}
    with ProcessPoolExecutor(workers) as pool:
        for task_id in TASKS:
            print(f"calibrating {task_id} ...", file=sys.stderr, flush=True)
            tasks[task_id] = calibrate_task(pool, task_id)
            tasks[task_id]["baseline_score"] = baseline_score(task_id, tasks[task_id])
    pack = shared_simulator().table.metadata
    return {
        "made_by": "python -m grader.calibrate",
        "seeds": list(CALIBRATION_SEEDS),
        "search_seed": SEARCH_SEED,
        "trace_pack": {"gpu": pack.gpu, "model": pack.model, "source": pack.source},
        "score_weights": WEIGHTS,
        "tasks": tasks,
    }


def differences(stored: Any, computed: Any, path: str = "") -> list[str]:
    """Places where two JSON values differ (numbers by more than 1e-9, relatively)."""
    if isinstance(stored, dict) and isinstance(computed, dict):
        keys = sorted({*stored, *computed})
        return [d for k in keys for d in differences(stored.get(k), computed.get(k), f"{path}.{k}")]
    if isinstance(stored, int | float) and isinstance(computed, int | float):
        same = abs(stored - computed) <= TOLERANCE * max(1.0, abs(stored))
        return [] if same else [f"{path[1:]}: committed {stored!r}, computed {computed!r}"]
    return [] if stored == computed else [f"{path[1:]}: committed {stored!r}, computed {computed!r}"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the anchors, or with ``--check`` compare them; exit status 1 when they differ."""
    parser = argparse.ArgumentParser(prog="python -m grader.calibrate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the committed file, write nothing")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    computed = json.loads(json.dumps(calibrate(options.workers)))
    if options.check:
        found = differences(json.loads(CALIBRATION_PATH.read_text()), computed)
        print("\n".join(found) or f"{CALIBRATION_PATH.name}: every anchor follows from the code.")
        return 1 if found else 0
    CALIBRATION_PATH.write_text(json.dumps(computed, indent=1) + "\n")
    for task_id, measured in computed["tasks"].items():
        print(
            f"{task_id}: floor {measured['floor_tokens_per_s']:.0f} tok/s, optimum "
            f"{measured['optimum_tokens_per_s']:.0f} tok/s, baseline score {measured['baseline_score']:.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
