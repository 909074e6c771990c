"""What GET /autoscaling/info tells of InferenceGym/Autoscaling-v0."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from env.autoscaling.episode import make_env
from env.autoscaling.score import CPU_BAND, WEIGHTS
from env.autoscaling.tasks import TASKS, get_autoscaling_task
from inferencegym.models.autoscaling import MAX_REPLICAS, MIN_REPLICAS, SCENARIOS
from simulator.autoscaling.kernel import ERROR_BUDGET, TPOT_SLO_MS, TTFT_SLO_MS
from simulator.autoscaling.plan import HEALTHY_CPU, INTERVAL_S, WARM_UP_INTERVALS, FleetConfig, Window
from simulator.autoscaling.replica import DEFAULT_REPLICA
from simulator.autoscaling.rows import TIMEOUT_S
from simulator.packs.trace_sim import packs_on_offer

__all__ = ["describe"]


def describe() -> dict[str, Any]:
    """This environment's part of GET /info: traffic, faults, lines, objectives and provenance of physics."""
    simulator = make_env(next(iter(TASKS))).simulator
    tasks = {task_id: get_autoscaling_task(task_id) for task_id in TASKS}
    return {
        "scenarios": list(SCENARIOS),
        "interval_s": INTERVAL_S,
        "warm_up_intervals": WARM_UP_INTERVALS,
        "replicas": {"least": MIN_REPLICAS, "most": MAX_REPLICAS, **asdict(DEFAULT_REPLICA)},
        "replica_capacity": {
            "most_running": simulator.table.limit,
            "peak_rps": simulator.table.peak_rps,
            "usd_per_hour": simulator.usd_per_replica_second * 3600.0,
        },
        "objectives": {
            "ttft_p95_ms": TTFT_SLO_MS,
            "tpot_ms": TPOT_SLO_MS,
            "error_share": ERROR_BUDGET,
            "healthy_cpu": HEALTHY_CPU,
            "cpu_band": list(CPU_BAND),
            "timeout_s": TIMEOUT_S,
        },
        "score_weights": dict(WEIGHTS),
        "pass_lines": {task_id: task.line and task.line._asdict() for task_id, task in tasks.items()},
        "workloads": {task_id: _told(task.fleet) for task_id, task in tasks.items()},
        "trace_pack": asdict(simulator.metadata),
        "trace_packs": list(packs_on_offer()[0]),
    }


def _told(fleet: FleetConfig) -> dict[str, Any]:
    """Traffic and faults as JSON: windows as objects, not as tuples of their own kind."""
    values = {field.name: getattr(fleet, field.name) for field in fields(fleet)}
    return {name: value._asdict() if isinstance(value, Window) else value for name, value in values.items()}
