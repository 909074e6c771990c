"""InferenceGym/Autoscaling-v0: an agent decides every 15 seconds how many replicas run.

The core environment: no web framework, no OpenEnv. See :class:`AutoscalingEnv`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from env.autoscaling.reward import AutoscalingTerms, reward_terms
from env.autoscaling.score import Tally
from env.autoscaling.tasks import AutoscalingTask, get_autoscaling_task
from env.checks import checked_seed, checked_snapshot, invalid_value
from env.protocols import TaskInfo, TaskName
from inferencegym.errors import EpisodeDoneError, EpisodeNotStartedError, InvalidValueError
from inferencegym.models.autoscaling import (
    AUTOSCALING_STEPS,
    MAX_REPLICAS,
    MIN_REPLICAS,
    MOVES,
    AutoscalingAction,
    AutoscalingConfig,
    AutoscalingObservation,
    Move,
    RewardBreakdown,
)
from inferencegym.models.base import construct
from simulator.autoscaling.engine import Fleet, FleetSimulator, SteppedFleet, check_rows
from simulator.autoscaling.plan import INTERVAL_S, WARM_UP_INTERVALS, Plan, with_scenario
from simulator.autoscaling.rows import COUNT, MEASURED, RESULT
from simulator.kernels.sums import ordered_sum
from simulator.packs.on_offer import pack_path

__all__ = [
    "FLAG_METRICS",
    "WHOLE_METRICS",
    "AutoscalingEnv",
    "fleet_simulator",
    "make_env",
    "parse_action",
]

_MOVE_OF: dict[str, int] = {"scale_down": -1, "no_op": 0, "scale_up": 1}
_NO_TERMS = AutoscalingTerms(*(0.0,) * len(AutoscalingTerms._fields))

_QUEUED, _PAUSED, _OLD = COUNT["queued"], COUNT["paused"], COUNT["old"]
_READY, _PENDING, _DRAINING = COUNT["ready"], COUNT["pending"], COUNT["draining"]
_WARMING, _TARGET, _NOW = COUNT["warming"], COUNT["target"], COUNT["now"]
_HEALTHY, _OUTAGE, _CHANGE = RESULT["healthy"], RESULT["outage"], RESULT["target_change"]
_REVERSAL, _PAID, _REQUIRED = RESULT["reversal"], RESULT["replica_seconds"], RESULT["required_replicas"]
_LATENCY, _CPU, _ERROR_RATE = RESULT["latency"], RESULT["cpu_steady"], RESULT["error_rate"]
_QUEUE_SEEN = MEASURED["queue_depth"]

_COUNTS = ("arrived", "served", "timed_out", "failed", "corrupted", "running", "queue_depth")
_COUNT_COLUMNS = tuple((name, RESULT[name]) for name in _COUNTS)
WHOLE_METRICS = (
    *_COUNTS,
    *("replicas_ready", "replicas_pending", "replicas_draining", "replicas_target"),
    *("target_change", "required_replicas"),
)
FLAG_METRICS = ("reversal", "outage", "healthy")
_METRIC_COLUMNS = tuple(
    (name, column, int if name in WHOLE_METRICS else bool if name in FLAG_METRICS else float)
    for name, column in RESULT.items()
)


_CHANGING = ("seed", "fleet", "tally", "cumulative_reward", "last_action")
"""Parts of a snapshot that move on with the episode."""


def fleet_simulator(
    task_id: TaskName, scenario: str | None = None, trace_path: Path | None = None
) -> FleetSimulator:
    """The fleet of a task and scenario on the GPU of a trace pack (None: the default), one a process."""
    return _simulator(get_autoscaling_task(task_id).info.id, scenario, trace_path or pack_path())


@lru_cache(maxsize=64)
def _simulator(task_id: str, scenario: str | None, trace_path: Path) -> FleetSimulator:
    config = with_scenario(get_autoscaling_task(task_id).fleet, scenario)  # pyright: ignore[reportArgumentType]
    return FleetSimulator(config, trace_path)


class AutoscalingEnv:
    """One episode of autoscaling an LLM service.

    **Description.** Replicas of one engine configuration serve the conversations of a service behind a
    gateway's queue. Every 15 seconds the agent says how many replicas it wants. A new one is pending, and
    paid for, until its cold start is over; one that is taken away finishes its requests first.

    **Action space.** :class:`~inferencegym.models.autoscaling.AutoscalingAction`: a move, or a total. A move
    that has no effect (at a bound, or while the autoscaler is paused) is named in ``info["masked_actions"]``.

    **Observation space.** :class:`~inferencegym.models.autoscaling.AutoscalingObservation`. Counts of
    replicas are current; everything measured is one interval old, or older.

    **Rewards.** In [-1, 0.5]; see :mod:`env.autoscaling.reward`.

    **Starting state.** One minute served by one replica more than its traffic needs.

    **Episode end.** Truncated after 240 intervals (one hour); never terminated: an outage is survived or not
    in the grade, and a fleet recovers when capacity arrives.

    **Arguments.** ``simulator``, ``task_id``, ``seed`` (int, 0 to 2**63 - 1), ``scenario`` (named in
    ``simulator``'s configuration already; told in ``state()``), ``fleet`` (a faster one with the same
    numbers: :class:`~simulator.autoscaling.compiled.CompiledFleet`).

    **Version history.** v0: first release.
    """

    def __init__(
        self,
        simulator: FleetSimulator,
        task_id: TaskName,
        seed: int = 42,
        scenario: str | None = None,
        fleet: Callable[[FleetSimulator, Plan], SteppedFleet] = Fleet,
    ) -> None:
        task: AutoscalingTask = get_autoscaling_task(task_id)
        self.simulator = simulator
        self.task: TaskInfo = task.info
        self.trace_pack = simulator.trace_pack
        """Name of the pack that says how fast a replica is."""
        self.trace_pack_sha256 = simulator.trace_pack_sha256
        """Digest of the pack's file."""
        self.scenario = scenario
        self.episode_id = ""
        self._fixed = {
            "task_id": task.info.id,
            "task_title": task.info.name,
            "difficulty": task.info.difficulty,
            "objective": task.objective,
        }
        self._seed = checked_seed(seed)
        self._make_fleet = fleet
        self._fleet: SteppedFleet | None = None
        self._source: list[int] = []
        self._tally = Tally()
        self._cumulative_reward = 0.0
        self._last_action: Move = "no_op"

    # --- episode -------------------------------------------------------------------------------------------

    def reset(self, seed: int | None = None) -> AutoscalingObservation:
        """Start over with ``seed`` (``None``: the current one) and return the first observation."""
        if seed is not None:
            self._seed = checked_seed(seed)
        plan = self.simulator.plan(self._seed)
        self._source = plan.source.tolist()
        self._fleet = self._make_fleet(self.simulator, plan)
        self._tally = Tally()
        self._cumulative_reward = 0.0
        self._last_action = "no_op"
        return self._observe(self._fleet, self._fleet.count, _NO_TERMS, None)

    def step(
        self, action: AutoscalingAction | Mapping[str, Any]
    ) -> tuple[AutoscalingObservation, float, bool, dict[str, Any]]:
        """Serve 15 seconds under ``action``.

        Raises:
            InvalidValueError: a mapping with a bad field; nothing changed.
            EpisodeNotStartedError, EpisodeDoneError: wrong time to step; nothing changed.
        """
        fleet = self._started()
        if self.done:
            raise EpisodeDoneError(
                f"The episode ended after {self._tally.steps} steps.", "Call reset() to start a new one."
            )
        if not isinstance(action, AutoscalingAction):
            action = parse_action(action)
        move = _MOVE_OF[action.action]
        fleet.play(move, action.target_replicas or 0)
        result, count = fleet.result, fleet.count
        metrics = {name: kind(result[column]) for name, column, kind in _METRIC_COLUMNS}
        tally = self._tally
        tally.add(metrics)
        terms = reward_terms(
            result[_LATENCY],
            result[_CPU],
            result[_ERROR_RATE],
            result[_PAID] / INTERVAL_S,
            result[_REQUIRED],
            result[_CHANGE],
            result[_REVERSAL],
            result[_HEALTHY],
            result[_OUTAGE],
            tally.steps,
            tally.healthy_ratio,
        )
        reward = ordered_sum(terms)
        self._cumulative_reward += reward
        change = result[_CHANGE]
        if action.target_replicas is not None:
            move = (change > 0) - (change < 0)
        self._last_action = MOVES[move + 1]
        info = {
            "timestep": tally.steps,
            "action": {"action": action.action, "target_replicas": action.target_replicas},
            "metrics": metrics | {"cost_usd": tally.paid_s * self.simulator.usd_per_replica_second},
            "workload": {"arrival_rate_rps": metrics["arrival_rate_rps"]},
            "masked_actions": ["action"] if move and not change else [],
            "settings": {"trace_pack": self.simulator.trace_pack, "scenario": self.scenario},
            "reward_terms": terms._asdict(),
            "requests": {name: int(result[column]) for name, column in _COUNT_COLUMNS},
        }
        return self._observe(fleet, count, terms, reward), reward, self.done, info

    @property
    def done(self) -> bool:
        """Whether the episode has ended (always by truncation)."""
        return self._tally.steps >= AUTOSCALING_STEPS

    @property
    def plan(self) -> Plan:
        """The episode's future. Not for agents that want to be fair."""
        return self._started().plan

    def state(self) -> dict[str, Any]:
        """Episode metadata: the fields of :class:`~inferencegym.models.autoscaling.AutoscalingState`."""
        self._started()
        return {
            "session_id": "",
            "episode_id": self.episode_id or f"{self.task.id}-{self._seed}",
            "task_id": self.task.id,
            "seed": self._seed,
            "scenario": self.scenario,
            "trace_pack": self.simulator.trace_pack,
            "step_count": self._tally.steps,
            "cumulative_reward": self._cumulative_reward,
            "done": self.done,
            "survived": self._tally.survived,
            "healthy_steps": self._tally.healthy,
            "replica_hours": self._tally.paid_s / 3600.0,
        }

    def snapshot(self) -> dict[str, Any]:
        """Copy of the whole episode; keep it as long as you like."""
        return {
            **self._settings(),
            "seed": self._seed,
            "fleet": self._started().snapshot(),
            "tally": replace(self._tally),
            "cumulative_reward": self._cumulative_reward,
            "last_action": self._last_action,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Back to a snapshot of an episode of the same task; what follows is byte-identical.

        Raises InvalidValueError for anything else, also for a snapshot under another scenario, trace pack or
        kind of fleet; nothing is changed then.
        """
        checked_snapshot(snapshot, {**dict.fromkeys(_CHANGING), **self._settings()})
        seed = checked_seed(snapshot["seed"], "snapshot.seed")
        tally, reward, move = snapshot["tally"], snapshot["cumulative_reward"], snapshot["last_action"]
        if move not in MOVES:
            raise InvalidValueError("snapshot.last_action", move, f"one of {MOVES}")
        if not isinstance(reward, float) or not isfinite(reward):
            raise InvalidValueError("snapshot.cumulative_reward", reward, "a finite number")
        same = self._fleet is not None and self._seed == seed
        plan = self._started().plan if same else self.simulator.plan(seed)
        fleet = self._started() if same else self._make_fleet(self.simulator, plan)
        rows = check_rows("snapshot.fleet", snapshot["fleet"], fleet.snapshot())
        played = int(rows["count"][..., COUNT["now"]].item()) - WARM_UP_INTERVALS
        if not isinstance(tally, Tally) or tally.steps != played:
            raise InvalidValueError("snapshot.tally", tally, f"the tally of {played} steps")
        fleet.restore(snapshot["fleet"])
        self._seed, self._fleet, self._source = seed, fleet, plan.source.tolist()
        self._tally = replace(tally)
        self._cumulative_reward, self._last_action = reward, move

    # --- parts ---------------------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        """What a snapshot must share with the episode that goes back to it."""
        return {
            "task_id": self.task.id,
            "scenario": self.scenario or "",
            "trace_pack": self.simulator.trace_pack,
            "traffic_and_faults": self.simulator.config,
            "replica": self.simulator.replica,
            "fleet_kind": getattr(self._make_fleet, "__name__", ""),
        }

    def _started(self) -> SteppedFleet:
        if self._fleet is None:
            raise EpisodeNotStartedError("This episode has not been reset.", "Call reset() first.")
        return self._fleet

    def _observe(
        self, fleet: SteppedFleet, count: list[int], terms: AutoscalingTerms, reward: float | None
    ) -> AutoscalingObservation:
        tally, last = self._tally, count[_NOW] - 1
        shown = self._source[last]
        seen = fleet.measured(shown)
        return construct(
            AutoscalingObservation,
            self._fixed
            | {
                "latency": seen[0],
                "cpu": seen[1],
                "error_rate": seen[2],
                "traffic": seen[3],
                "step_count": tally.steps,
                "remaining_steps": AUTOSCALING_STEPS - tally.steps,
                "healthy_steps": tally.healthy,
                "healthy_ratio": tally.healthy_ratio,
                "current_grader_score": tally.score(),
                "last_action": self._last_action,
                "available_actions": _available(count),
                "reward_breakdown": construct(RewardBreakdown, terms._asdict()),
                "replicas_ready": count[_READY],
                "replicas_pending": count[_PENDING],
                "replicas_draining": count[_DRAINING],
                "replicas_warming": count[_WARMING],
                "replicas_target": count[_TARGET],
                "update_in_progress": count[_OLD] > 0,
                "queue_depth": int(seen[_QUEUE_SEEN]),
                "arrival_rate_rps": seen[5],
                "arrival_rate_5m_rps": seen[10],
                "arrival_trend_rps_per_min": seen[11],
                "concurrency": seen[6],
                "concurrency_6s": seen[7],
                "cpu_steady": seen[8],
                "kv_occupancy": seen[9],
                "metrics_age_s": (last - shown) * INTERVAL_S,
                "metrics_missing": shown == self._source[last - 1],
                "done": self.done,
                "reward": reward,
                "metadata": {},
            },
        )


_ALL, _ONLY_UP, _ONLY_DOWN, _NONE = MOVES, MOVES[1:], MOVES[:2], MOVES[1:2]


def _available(count: list[int]) -> tuple[Move, ...]:
    """Moves that would change the target."""
    if count[_PAUSED]:
        return _NONE
    if count[_TARGET] <= MIN_REPLICAS:
        return _ONLY_UP
    return _ONLY_DOWN if count[_TARGET] >= MAX_REPLICAS else _ALL


def parse_action(action: Any, where: str = "action") -> AutoscalingAction:
    """Validate a mapping. Raises InvalidValueError that names the first bad field, after ``where``."""
    try:
        return AutoscalingAction.model_validate(action)
    except ValidationError as error:
        raise invalid_value(where, error, AutoscalingAction) from None


def make_env(
    task_id: TaskName,
    seed: int = 42,
    config: AutoscalingConfig | Mapping[str, Any] | None = None,
    trace_path: str | Path | None = None,
    fleet: Callable[[FleetSimulator, Plan], SteppedFleet] = Fleet,
) -> AutoscalingEnv:
    """An environment (the registry's factory) on the trace pack that ``config`` names, or, from Python, on
    the file ``trace_path``; else on the default pack. Call ``reset()`` next.

    Raises:
        UnknownNameError: no such task or pack.
        InvalidValueError: a bad seed or config, or both a pack and a path.
        TracePackError: the pack cannot be read.
    """
    get_autoscaling_task(task_id)
    if config is not None and not isinstance(config, AutoscalingConfig):
        try:
            config = AutoscalingConfig.model_validate(config)
        except ValidationError as error:
            raise invalid_value("config", error, AutoscalingConfig) from None
    scenario, pack = (None, None) if config is None else (config.scenario, config.trace_pack)
    if pack is not None and trace_path is not None:
        raise InvalidValueError("trace_path", trace_path, f"none beside config.trace_pack ({pack!r})")
    path = pack_path(pack) if trace_path is None else Path(trace_path)
    return AutoscalingEnv(fleet_simulator(task_id, scenario, path), task_id, seed, scenario, fleet)
