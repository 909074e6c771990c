"""Compute the anchors of the grades from the simulator: ``python -m grader.serving.calibrate [--check]``.

For every task, on seeds that no reported table uses:

1. a sweep over constant settings (the knobs that the task opens), the best of which are tried finer;
2. a seeded search over two-mode policies (:class:`grader.serving.policies.TwoMode`), started from the best
   constants;
3. floor, optimum and highest tokens/s, and the score of the fixed baseline, by playing what was found.

``tasks`` are under the task's own engine timing, ``engine_timings`` under the others, from constants alone.

``--check`` does it all again and compares with the committed ``env/calibration.json``; ``--pack NAME`` is
about another trace pack than the default one. :func:`anchors` does only step 3, from the policies that the
file names: seconds instead of minutes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from env.serving.episode import REFERENCE_MEMORY_GB, make_env
from env.serving.tasks import ALL_TASKS, TASKS, calibration_path, get_task
from grader.serving.policies import Constant, TwoMode, policy_from_dict
from grader.serving.scoring import COST_BUDGET, WEIGHTS, Anchors, StepFigures, score_steps
from grader.serving.search import SEARCH_SEED, TwoModeSearch, grid_settings, neighbours
from inferencegym.errors import InvalidValueError
from inferencegym.models.serving import EngineTiming, QuantTier, ServeAction
from inferencegym.options import OptionParser
from simulator.packs.on_offer import DEFAULT_PACK, SHIPPED
from simulator.packs.trace_sim import shared_simulator
from simulator.serving.timing import ENGINE_TIMINGS

__all__ = [
    "BASELINE_SEED",
    "CALIBRATION_SEEDS",
    "Outcome",
    "UniformRandom",
    "anchors",
    "calibrate",
    "main",
    "play",
]

CALIBRATION_SEEDS = tuple(range(9000, 9008))
"""Seeds of the search. Baselines use 0, tables and benchmarks 100 and up, learning others again."""

SWEEP_SEEDS = CALIBRATION_SEEDS[:3]
BASELINE_SEED = 0
FINALISTS = 12
CANDIDATES = 120
GENERATIONS, PARENTS, CHILDREN = 6, 8, 4
TOLERANCE = 1e-9

_FLOOR_RULE = {"task1": "minimum", "task2": "minimum"}
"""Tokens/s that score 0. Task 1: the worst constant setting that fits the GPU. The others: uniformly random
actions ("random"), so that throughput counts from where chance ends (static settings span too little)."""


def _floor_rule(task_id: str) -> str:
    return _FLOOR_RULE.get(task_id, "random")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a policy did on one seed: per-step figures and the episode's mean reward."""

    steps: list[StepFigures]
    mean_reward: float

    @property
    def tokens_per_s(self) -> float:
        """Mean over the episode."""
        return float(np.mean([step.tokens_per_s for step in self.steps]))


def play(
    task_id: str, policy: Any, seed: int, pack: str | None = None, timing: EngineTiming | None = None
) -> Outcome:
    """Play one episode in-process, with a trace pack and an engine timing (None: the default pack, the task's
    own timing)."""
    env = make_env(task_id, seed, {"trace_pack": pack, "engine_timing": timing})
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
                metrics["oom"],
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
        """The next draw, whatever is observed."""
        rng = self._rng
        return ServeAction(
            kv_budget=float(rng.uniform(0.1, 1.0)),
            spec_length=int(rng.choice([0, 1, 2, 4, 8])),  # type: ignore[arg-type]
            batch_size=int(rng.integers(1, 513)),
            prefill_disagg=bool(rng.integers(2)),
            quant_tier=QuantTier(int(rng.integers(3))),
        )


_Job = tuple[str, dict[str, Any], tuple[int, ...], str | None, EngineTiming | None]
"""Task, description of a policy, seeds, trace pack, engine timing."""

_Ranked = list[tuple[float, float, dict[str, Any]]]
"""(score, tokens/s, description) of policies, best first."""


def _evaluate(job: _Job) -> tuple[float, float]:
    """Mean score (with provisional anchors) and mean tokens/s of a described policy over seeds."""
    task_id, description, seeds, pack, timing = job
    outcomes = _play_all(task_id, description, seeds, pack, timing)
    provisional = task_anchors(task_id, *_PROVISIONAL.get(task_id, _WIDE), pack)
    scores = [
        score_steps(task_id, o.steps, ALL_TASKS[task_id].episode_length, provisional)[0] for o in outcomes
    ]
    return float(np.mean(scores)), _mean_tokens(outcomes)


_PROVISIONAL = {"task3": (500.0, 3_000.0)}
_WIDE = (0.0, 10_000.0)
"""Tokens/s that score 0 and 1 while searching, so wide that nothing is clipped: the ranking does not depend
on them."""


class _Ranker:
    """Evaluates policies on one task, pack and timing, several at a time where there is a pool."""

    def __init__(
        self,
        task_id: str,
        pack: str | None,
        timing: EngineTiming | None = None,
        pool: ProcessPoolExecutor | None = None,
    ) -> None:
        self.task_id, self.pack = task_id, pack
        self._timing: EngineTiming | None = timing
        self._pool = pool

    def __call__(self, policies: Sequence[Constant | TwoMode], seeds: tuple[int, ...]) -> _Ranked:
        """The policies with their results, best first; ties by description."""
        described = [policy.to_dict() for policy in policies]
        timing = self._timing
        jobs: list[_Job] = [(self.task_id, one, seeds, self.pack, timing) for one in described]
        results = self._pool.map(_evaluate, jobs, chunksize=4) if self._pool else map(_evaluate, jobs)
        rows = [(score, tokens, d) for (score, tokens), d in zip(results, described, strict=True)]
        return sorted(rows, key=_ranking)


def task_anchors(task_id: str, floor: float, optimum: float, pack: str | None) -> Anchors:
    """Anchors of a task with a trace pack (None: the default one), tokens/s given."""
    scale = shared_simulator(pack).table.metadata.memory_limit_gb / REFERENCE_MEMORY_GB
    return Anchors(floor, optimum, scale, get_task(task_id).workload.cost_budget or COST_BUDGET)


def calibrate_task(pool: ProcessPoolExecutor, task_id: str, pack: str | None = None) -> dict[str, Any]:
    """Best policies of one task, those that mark floor and optimum, and the anchors that follow."""
    rank = _Ranker(task_id, pack, pool=pool)
    settings = grid_settings(task_id, pack)
    sweep = rank([Constant(s) for s in settings], SWEEP_SEEDS)
    finer = [Constant(s) for row in sweep[:3] for s in neighbours(task_id, row[2]["action"], pack)]
    finalists = [policy_from_dict(row[2]) for row in sweep[:FINALISTS]]
    constants = rank([*finalists, *finer], CALIBRATION_SEEDS)
    best = [ServeAction.model_validate(row[2]["action"]) for row in constants[:FINALISTS]]
    adaptive, tried = _evolve(rank, best)
    found = {
        "static_settings_tried": len(settings) + len(finer),
        "two_mode_policies_tried": tried,
        "best_static": constants[0][2],
        "best_adaptive": adaptive[0][2],
        "floor_rule": _floor_rule(task_id),
        "floor_by": min(sweep, key=_tokens)[2] if _floor_rule(task_id) == "minimum" else {"kind": "random"},
        "optimum_by": max([*constants, *adaptive], key=_tokens)[2],
    }
    return {**found, **anchors(task_id, found, pack)}


def quick_anchors(
    task_id: str,
    pack: str | None,
    timing: EngineTiming | None = None,
    pool: ProcessPoolExecutor | None = None,
) -> dict[str, Any]:
    """Anchors from a sweep over constant settings alone, in seconds: of packs that nobody calibrated, of
    engine timings that are not the task's own, and of the tasks on recorded traffic, whose scores need none.

    Every third setting of the grid on two seeds, then the best of them finer.
    """
    rank, seeds = _Ranker(task_id, pack, timing, pool), SWEEP_SEEDS[:2]
    settings = grid_settings(task_id, pack)[::3]
    if not settings:
        raise InvalidValueError(
            "trace_pack", pack, f"a pack of which some setting of {task_id} fits the memory"
        )
    sweep = rank([Constant(s) for s in settings], seeds)
    constants = rank([Constant(s) for s in neighbours(task_id, sweep[0][2]["action"], pack)], seeds)
    best = min(constants[0], sweep[0], key=_ranking)[2]
    floor = min(sweep, key=_tokens)[2] if _floor_rule(task_id) == "minimum" else {"kind": "random"}
    optimum = max([*constants, *sweep], key=_tokens)[2]
    found = {"best_static": best, "best_adaptive": best, "floor_by": floor, "optimum_by": optimum}
    return {**found, **anchors(task_id, found, pack, timing)}


def _evolve(rank: _Ranker, best: Sequence[ServeAction]) -> tuple[_Ranked, int]:
    """Two-mode policies evaluated on all calibration seeds, best first, and how many were tried."""
    search = TwoModeSearch(rank.task_id, best, rank.pack)
    candidates = search.random(CANDIDATES)
    tried = len(candidates)
    screened = rank(candidates, SWEEP_SEEDS)
    survivors = [cast("TwoMode", policy_from_dict(row[2])) for row in screened[:FINALISTS]]
    rows = rank(survivors, CALIBRATION_SEEDS)
    for _ in range(GENERATIONS):
        parents = [cast("TwoMode", policy_from_dict(row[2])) for row in rows[:PARENTS]]
        children = search.mutations(parents, CHILDREN)
        tried += len(children)
        rows = sorted([*rows, *rank(children, CALIBRATION_SEEDS)], key=_ranking)
    return rows, tried


def _ranking(row: tuple[float, float, dict[str, Any]]) -> tuple[float, str]:
    return -row[0], json.dumps(row[2], sort_keys=True)


def _tokens(row: tuple[float, float, dict[str, Any]]) -> tuple[float, str]:
    return row[1], json.dumps(row[2], sort_keys=True)


def anchors(
    task_id: str, found: Mapping[str, Any], pack: str | None = None, timing: EngineTiming | None = None
) -> dict[str, float]:
    """Floor, optimum and highest tokens/s and the baseline's score, by playing the policies of ``found``.

    ``found`` is a task of ``env/calibration.json``; of it only the policies are read. The highest tokens/s
    of a single second under the best policies is where T of the reward reaches 1.
    """
    floor_seeds = SWEEP_SEEDS if _floor_rule(task_id) == "minimum" else CALIBRATION_SEEDS

    def outcomes(name: str, seeds: Sequence[int]) -> list[Outcome]:
        return _play_all(task_id, found[name], seeds, pack, timing)

    floor = _mean_tokens(outcomes("floor_by", floor_seeds))
    optimum = _mean_tokens(outcomes("optimum_by", CALIBRATION_SEEDS))
    best = [*outcomes("best_static", CALIBRATION_SEEDS), *outcomes("best_adaptive", CALIBRATION_SEEDS)]
    baseline = play(task_id, Constant(), BASELINE_SEED, pack, timing)
    length = ALL_TASKS[task_id].episode_length
    return {
        "floor_tokens_per_s": floor,
        "optimum_tokens_per_s": optimum,
        "max_tokens_per_s": max(step.tokens_per_s for outcome in best for step in outcome.steps),
        "baseline_score": score_steps(
            task_id, baseline.steps, length, task_anchors(task_id, floor, optimum, pack)
        )[0],
    }


def _play_all(
    task_id: str,
    description: dict[str, Any],
    seeds: Sequence[int],
    pack: str | None,
    timing: EngineTiming | None,
) -> list[Outcome]:
    if description["kind"] == "random":
        return [play(task_id, UniformRandom(seed), seed, pack, timing) for seed in seeds]
    return [play(task_id, policy_from_dict(description), seed, pack, timing) for seed in seeds]


def _mean_tokens(outcomes: Sequence[Outcome]) -> float:
    return float(np.mean([outcome.tokens_per_s for outcome in outcomes]))


def calibrate(
    workers: int = 2, pack: str | None = None, task_ids: Sequence[str] | None = None
) -> dict[str, Any]:
    """Anchors of all tasks with a trace pack, and their provenance. Deterministic; minutes on two cores."""
    tasks: dict[str, Any] = {}
    timings: dict[str, dict[str, Any]] = {timing: {} for timing in ENGINE_TIMINGS}
    with ProcessPoolExecutor(workers) as pool:
        for task_id in task_ids or ALL_TASKS:
            print(f"calibrating {task_id} ...", file=sys.stderr, flush=True)
            for timing in ENGINE_TIMINGS:
                if timing != get_task(task_id).engine_timing:
                    timings[timing][task_id] = quick_anchors(task_id, pack, timing, pool)
                elif task_id in TASKS:
                    tasks[task_id] = calibrate_task(pool, task_id, pack)
                else:
                    tasks[task_id] = quick_anchors(task_id, pack, timing, pool)
    metadata = shared_simulator(pack).table.metadata
    return {
        "made_by": "python -m grader.calibrate",
        "seeds": list(CALIBRATION_SEEDS),
        "search_seed": SEARCH_SEED,
        "trace_pack": {"gpu": metadata.gpu, "model": metadata.model, "source": metadata.source},
        "score_weights": WEIGHTS,
        "tasks": tasks,
        "engine_timings": timings,
    }


def differences(stored: Any, computed: Any, path: str = "") -> list[str]:
    """Places where two JSON values differ (numbers by more than 1e-9, relatively)."""
    if isinstance(stored, dict) and isinstance(computed, dict):
        old, new = cast("dict[str, Any]", stored), cast("dict[str, Any]", computed)
        keys = sorted({*old, *new})
        return [line for key in keys for line in differences(old.get(key), new.get(key), f"{path}.{key}")]
    if isinstance(stored, int | float) and isinstance(computed, int | float):
        same = abs(stored - computed) <= TOLERANCE * max(1.0, abs(stored))
        return [] if same else [f"{path[1:]}: committed {stored!r}, computed {computed!r}"]
    return [] if stored == computed else [f"{path[1:]}: committed {stored!r}, computed {computed!r}"]


def _merged(kept: Mapping[str, Any], fresh: Mapping[str, Any]) -> dict[str, Any]:
    """Tasks in their usual order, fresh ones in the place of kept ones."""
    everything = {**kept, **fresh}
    return {name: everything[name] for name in ALL_TASKS if name in everything}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the anchors, or with ``--check`` compare them; exit status 1 when they differ."""
    parser = OptionParser(prog="python -m grader.serving.calibrate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the committed file, write nothing")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tasks", nargs="+", choices=tuple(ALL_TASKS), help="only these; the rest stays")
    parser.add_argument("--pack", choices=tuple(SHIPPED), default=DEFAULT_PACK, help="trace pack")
    options = parser.parse_args(arguments)
    path = calibration_path(options.pack)
    computed = json.loads(json.dumps(calibrate(options.workers, options.pack, options.tasks)))
    if options.tasks:
        kept = json.loads(path.read_text())
        computed["tasks"] = _merged(kept["tasks"], computed["tasks"])
        for timing, tasks in computed["engine_timings"].items():
            computed["engine_timings"][timing] = _merged(kept["engine_timings"][timing], tasks)
    if options.check:
        found = differences(json.loads(path.read_text()), computed)
        print("\n".join(found) or f"{path.name}: every anchor follows from the code.")
        return 1 if found else 0
    path.write_text(json.dumps(computed, indent=1) + "\n")
    for task_id, measured in computed["tasks"].items():
        print(
            f"{task_id}: floor {measured['floor_tokens_per_s']:.0f} tok/s, optimum "
            f"{measured['optimum_tokens_per_s']:.0f} tok/s, baseline score {measured['baseline_score']:.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
