"""InferenceGym/Serving-v0: an agent tunes one LLM engine every simulated second.

The core environment: no web framework, no OpenEnv. See :class:`InferenceEnv`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, cast

import numpy as np
from pydantic import ValidationError

from env.checks import check_alike, checked_progress, checked_seed, checked_snapshot, invalid_value
from env.protocols import TaskInfo, TaskName
from env.serving.config import parse_config, told_settings, weights_of
from env.serving.reward import RewardFunction
from env.serving.tasks import ALL_TASKS, TASKS, calibrated, get_task, load_calibration
from env.serving.traffic import recorded_workload
from inferencegym.errors import EpisodeDoneError, EpisodeNotStartedError, InvalidValueError
from inferencegym.models.base import construct
from inferencegym.models.serving import (
    LATENCY_MS_MAX,
    EngineTiming,
    PriorityDistribution,
    RewardConfig,
    ServeAction,
    ServeObservation,
)
from simulator.packs.on_offer import pack_name
from simulator.packs.physics import prompt_bucket
from simulator.packs.schema import VALUE_COLUMNS
from simulator.packs.trace_sim import TraceSimulator, packs_on_offer, shared_simulator
from simulator.serving.engine import Engine, EngineModel, Knobs, SecondResult, ServingEngine
from simulator.serving.traffic.on_offer import recordings
from simulator.serving.traffic.recorded import make_generator
from simulator.serving.traffic.workload import BURST, EpisodeTraffic, WorkloadGenerator

__all__ = ["InferenceEnv", "describe", "make_env"]

_DEFAULTS = Knobs()

REFERENCE_MEMORY_GB = 40.0
"""GPU memory that the memory limits of the tasks are written for, GiB."""


_CHANGING = ("seed", "engine", "step_count", "cost_so_far", "cumulative_reward")
"""Parts of a snapshot that move on with the episode."""


class InferenceEnv:
    """One episode of LLM serving control.

    **Description.** A deployment of Llama-3-8B on A100s (or what another trace pack describes) serves traffic
    that it does not choose. Every second the agent sets the knobs of one engine; queue, KV cache and running
    sequences carry over. ``replicas`` identical engines share the arrivals round robin, and one of them is
    simulated.

    **Action space.** :class:`~inferencegym.models.serving.ServeAction`: kv_budget, spec_length, batch_size,
    prefill_disagg, quant_tier. Knobs that a task does not open are held at their defaults and named in
    ``info["masked_actions"]``.

    **Observation space.** :class:`~inferencegym.models.serving.ServeObservation`, 12 fields with units and
    bounds.

    **Rewards.** In [-1, 1]; see :mod:`env.serving.reward`. ``info["reward_terms"]`` holds the signed parts.

    **Starting state.** One second of traffic served with the default action by an engine that was empty.

    **Episode end.** Truncated after 200 steps; never terminated. A further step raises.

    **Arguments.** ``simulator`` (trace pack), ``task_id``, ``seed`` (int, 0 to 2**63 - 1), ``config``
    (a :class:`~inferencegym.models.serving.RewardConfig` or mapping that overrides reward weights or the
    engine timing), ``workload``
    (other traffic and service levels for the task's knobs and reward: a generator with its own configuration,
    or a :class:`~simulator.serving.traffic.replay.ReplayWorkload`) and ``engine`` (a faster one with the
    same numbers:
    :class:`~simulator.serving.compiled.CompiledEngine`). Grades of other traffic compare only with
    each other, and no replay by (task, seed, actions) repeats them.

    **Version history.** v0: first release.
    """

    def __init__(
        self,
        simulator: TraceSimulator,
        task_id: TaskName,
        seed: int = 42,
        config: RewardConfig | Mapping[str, Any] | None = None,
        workload: WorkloadGenerator | None = None,
        engine: Callable[[EngineModel, EpisodeTraffic], Engine] = ServingEngine,
    ) -> None:
        task = get_task(task_id)
        steps = task.info.episode_length
        if workload is not None and workload.steps != steps:
            raise InvalidValueError("workload.steps", workload.steps, f"{steps}, the length of the episode")
        self.simulator = simulator
        self.trace_pack = pack_name(simulator.table.path)
        """Name of the pack that the episode is served with."""
        self.trace_pack_sha256 = simulator.table.sha256
        """Digest of the pack's file."""
        self.memory_scale = simulator.table.metadata.memory_limit_gb / REFERENCE_MEMORY_GB
        """Memory of this GPU over that of the GPU that the tasks' limits are written for."""
        self.task: TaskInfo = task.info
        self.episode_id = ""
        settings = RewardConfig() if config is None else parse_config(config)
        self.weights = weights_of(settings, task.weights)
        self.engine_timing: EngineTiming = settings.engine_timing or task.engine_timing
        """How prefill and decode share the GPU, see :mod:`simulator.serving.timing`."""
        self.generator = workload or make_generator(task.workload, steps)
        self._workload = self.generator.config
        self.masked_actions = task.masked_actions
        self._keep = {name: name not in self.masked_actions for name in ServeAction.model_fields}
        self.engine_model = EngineModel(simulator.table, self._workload, self.engine_timing)
        self.reward_function = RewardFunction(
            self.weights,
            self._max_tokens_per_s(),
            self._workload.primary_slo_ms,
            self.memory_limit_gb,
        )
        self._told = told_settings(self.trace_pack, self.engine_timing, self.generator)
        self._seed = checked_seed(seed)
        self._make_engine = engine
        self._engine: Engine | None = None
        self._step_count = 0
        self._cost_so_far = 0.0
        self._cumulative_reward = 0.0

    # --- episode -------------------------------------------------------------------------------------------

    def reset(self, seed: int | None = None) -> ServeObservation:
        """Start over with ``seed`` (``None``: the current one) and return the first observation."""
        if seed is not None:
            self._seed = checked_seed(seed)
        traffic = self.generator.episode(np.random.default_rng(self._seed))
        self._jitter: list[list[float]] = traffic.jitter.tolist()
        self._rate: list[float] = traffic.rate_ema_rps.tolist()
        self._prompt: list[float] = traffic.prompt_ema_tokens.tolist()
        self._mix: list[list[float]] = traffic.mix.tolist()
        self._phase: list[int] = traffic.phase_index.tolist()
        self._traffic = traffic
        self._engine = self._make_engine(self.engine_model, traffic)
        self._step_count = 0
        self._cost_so_far = 0.0
        self._cumulative_reward = 0.0
        return self._observe(self._measure(self._engine.serve(_DEFAULTS)))

    def step(
        self, action: ServeAction | Mapping[str, Any]
    ) -> tuple[ServeObservation, float, bool, dict[str, Any]]:
        """Serve one second under ``action``.

        Raises:
            InvalidValueError: a mapping with a bad field; nothing changed.
            EpisodeNotStartedError, EpisodeDoneError: wrong time to step; nothing changed.
        """
        engine = self._engine
        if engine is None:
            raise EpisodeNotStartedError("This episode has not been reset.", "Call reset() first.")
        if self.done:
            raise EpisodeDoneError(
                f"The episode ended after {self._step_count} steps.", "Call reset() to start a new one."
            )
        if not isinstance(action, ServeAction):
            action = parse_action(action)
        knobs = self._knobs(action)
        result = self._measure(engine.serve(knobs))
        self._step_count += 1
        self._cost_so_far += result.cost_per_1k
        terms = self.reward_function(
            result.tokens_per_s,
            result.ttft_p50_ms,
            result.violation_rate,
            result.memory_gb,
            result.cost_per_1k,
        )
        reward = terms[0] + terms[1] + terms[2] + terms[3]
        self._cumulative_reward += reward
        info = {
            "timestep": self._step_count,
            "action": knobs._asdict(),
            "metrics": _metrics(result),
            "workload": self._workload_state(result),
            "masked_actions": list(self.masked_actions),
            "settings": dict(self._told),
            "reward_terms": terms._asdict(),
            "requests": {
                "arrived": result.arrived,
                "finished": result.finished,
                "dropped": result.dropped,
                "waiting": result.queue_depth,
                "running": result.running,
            },
        }
        return self._observe(result), reward, self.done, info

    @property
    def done(self) -> bool:
        """Whether the episode has ended (always by truncation)."""
        return self._step_count >= self.task.episode_length

    def state(self) -> dict[str, Any]:
        """Episode metadata: the fields of :class:`~inferencegym.models.serving.EpisodeState`."""
        if self._engine is None:
            raise EpisodeNotStartedError("This episode has not been reset.", "Call reset() first.")
        return {
            "session_id": "",
            "episode_id": self.episode_id or f"{self.task.id}-{self._seed}",
            "task_id": self.task.id,
            "seed": self._seed,
            "step_count": self._step_count,
            "cumulative_reward": self._cumulative_reward,
            "done": self.done,
            "workload_phase": self._traffic.phase(self._step_count),
        }

    def snapshot(self) -> dict[str, Any]:
        """Copy of the whole episode; keep it as long as you like."""
        if self._engine is None:
            raise EpisodeNotStartedError("This episode has not been reset.", "Call reset() first.")
        return {
            **self._settings(),
            "seed": self._seed,
            "engine": self._engine.snapshot(),
            "step_count": self._step_count,
            "cost_so_far": self._cost_so_far,
            "cumulative_reward": self._cumulative_reward,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Back to a snapshot of an episode of the same task; what follows is byte-identical.

        Raises InvalidValueError for anything else, also for a snapshot under another reward, trace pack,
        workload or kind of engine; nothing is changed then.
        """
        checked_snapshot(snapshot, {**dict.fromkeys(_CHANGING), **self._settings()})
        seed, steps, total = checked_progress(snapshot, self.task.episode_length)
        check_alike("snapshot.cost_so_far", snapshot["cost_so_far"], 0.0)
        if self._engine is None or self._seed != seed:
            self.reset(seed)
        cast("Engine", self._engine).restore(snapshot["engine"])
        self._cost_so_far = snapshot["cost_so_far"]
        self._step_count, self._cumulative_reward = steps, total

    @property
    def memory_limit_gb(self) -> float | None:
        """The task's memory limit on this GPU, GiB; None where it has none. A limit is a share of the GPU: 36
        of 40 GiB are 72 of 80."""
        limit = self._workload.memory_limit_gb
        return None if limit is None else limit * self.memory_scale

    def reserved_memory_gb(self, action: ServeAction) -> float:
        """GiB that an action reserves under this task; above the pack's limit (40) it is out of memory."""
        return self.engine_model.memory_gb(self._knobs(action))

    # --- parts ---------------------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        """What a snapshot must share with the episode that goes back to it."""
        return {
            "task_id": self.task.id,
            "trace_pack": self.trace_pack,
            "engine_timing": self.engine_timing,
            "weights": self.weights,
            "workload": self._workload,
            "engine_kind": getattr(self._make_engine, "__name__", ""),
        }

    def _max_tokens_per_s(self) -> float:
        """Where T of the reward reaches 1: as calibrated, or, of a pack without a calibration, the highest
        throughput in its table that fits the GPU, at the pack's reference output length."""
        found = calibrated(self.trace_pack, self.task.id, self.engine_timing)
        if found is not None:
            return found["max_tokens_per_s"]
        return float(self.simulator.table.values[..., VALUE_COLUMNS.index("tps")].max())

    def _knobs(self, action: ServeAction) -> Knobs:
        """The action with locked knobs at their defaults."""
        keep, locked = self._keep, _DEFAULTS
        return Knobs(
            action.kv_budget if keep["kv_budget"] else locked.kv_budget,
            action.spec_length if keep["spec_length"] else locked.spec_length,
            action.batch_size if keep["batch_size"] else locked.batch_size,
            action.prefill_disagg if keep["prefill_disagg"] else locked.prefill_disagg,
            int(action.quant_tier) if keep["quant_tier"] else locked.quant_tier,
        )

    def _measure(self, result: SecondResult) -> SecondResult:
        """Put the measurement jitter of this second on the latencies."""
        p50, p99, tpot = self._jitter[cast("Engine", self._engine).second - 1]
        median = result.ttft_p50_ms * p50
        return result._replace(
            ttft_p50_ms=median,
            ttft_p99_ms=max(median, result.ttft_p99_ms * p99),
            tpot_ms=min(result.tpot_ms * tpot, LATENCY_MS_MAX),
        )

    def _observe(self, result: SecondResult) -> ServeObservation:
        now = self._step_count
        interactive, batch, best_effort = self._mix[now]
        priority = {"interactive": interactive, "batch": batch, "best_effort": best_effort}
        return construct(
            ServeObservation,
            {
                "queue_depth": result.queue_depth,
                "mean_prompt_len": self._prompt[now],
                "arrival_rate": self._rate[now],
                "kv_cache_occupancy": result.kv_occupancy,
                "ttft_p50_ms": result.ttft_p50_ms,
                "tpot_p50_ms": result.tpot_ms,
                "slo_violation_rate": result.violation_rate,
                "gpu_memory_used_gb": result.memory_gb,
                "spec_accept_rate": result.accept_rate,
                "priority_distribution": construct(PriorityDistribution, priority),
                "timestep": now,
                "cost_so_far": self._cost_so_far,
            },
        )

    def _workload_state(self, result: SecondResult) -> dict[str, Any]:
        """Fields of WorkloadState for the second just served."""
        now = self._step_count
        interactive, batch, best_effort = self._mix[now]
        return {
            "arrival_rate": self._rate[now],
            "mean_prompt_len": self._prompt[now],
            "prompt_len_bucket": prompt_bucket(self._prompt[now]),
            "queue_depth": result.queue_depth,
            "priority_distribution": {
                "interactive": interactive,
                "batch": batch,
                "best_effort": best_effort,
            },
            "is_burst": self._phase[now] == BURST,
            "phase": self._traffic.phase(now),
        }


def _metrics(result: SecondResult) -> dict[str, Any]:
    """Fields of MetricsSnapshot."""
    return {
        "ttft_p50_ms": result.ttft_p50_ms,
        "ttft_p99_ms": result.ttft_p99_ms,
        "tpot_ms": result.tpot_ms,
        "tokens_per_sec": result.tokens_per_s,
        "gpu_memory_gb": result.memory_gb,
        "cost_per_1k": result.cost_per_1k,
        "spec_accept_rate": result.accept_rate,
        "eviction_events": result.evictions,
        "slo_violations": result.violations,
        "slo_violation_rate": result.violation_rate,
        "oom": result.oom,
    }


def parse_action(action: Any, where: str = "action") -> ServeAction:
    """Validate a mapping. Raises InvalidValueError that names the first bad field, after ``where``."""
    try:
        return ServeAction.model_validate(action)
    except ValidationError as error:
        raise invalid_value(where, error, ServeAction) from None


def make_env(
    task_id: TaskName,
    seed: int = 42,
    config: RewardConfig | Mapping[str, Any] | None = None,
    engine: Callable[[EngineModel, EpisodeTraffic], Engine] = ServingEngine,
) -> InferenceEnv:
    """The registry's factory: an environment over the trace pack that ``config`` names, else the default one.

    Call ``reset()`` next. Raises as :class:`InferenceEnv`, and UnknownNameError for a pack that is not there.
    """
    settings = None if config is None else parse_config(config)
    pack = None if settings is None else settings.trace_pack
    traffic = None if settings is None else settings.traffic
    workload = None if traffic is None else recorded_workload(traffic, get_task(task_id))
    return InferenceEnv(shared_simulator(pack), task_id, seed, settings, workload, engine)


def describe() -> dict[str, Any]:
    """This environment's part of GET /info: reward weights and provenance of the physics."""
    tasks = {task_id: get_task(task_id) for task_id in TASKS}
    packs, unreadable = packs_on_offer()
    return {
        "reward_weights": {task_id: asdict(task.weights) for task_id, task in tasks.items()},
        "workloads": {task_id: task.workload.model_dump(mode="json") for task_id, task in tasks.items()},
        "engine_timings": {task_id: get_task(task_id).engine_timing for task_id in ALL_TASKS},
        "trace_pack": asdict(shared_simulator().table.metadata),
        "trace_packs": {name: asdict(metadata) for name, metadata in packs.items()},
        "unreadable_trace_packs": unreadable,
        "traffic_files": list(recordings()),
        "calibration": load_calibration(),
    }
