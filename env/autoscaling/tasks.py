"""The three tasks of InferenceGym/Autoscaling-v0: traffic and faults, what is asked, the pass lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from env.protocols import TaskInfo, TaskName, task_named
from inferencegym.models.autoscaling import AUTOSCALING_STEPS, Scenario
from simulator.autoscaling.plan import FleetConfig, Window, with_scenario

__all__ = ["TASKS", "AutoscalingTask", "PassLine", "get_autoscaling_task"]


class PassLine(NamedTuple):
    """What an episode that was played to the end and survived must reach."""

    score: float
    healthy_ratio: float


@dataclass(frozen=True, slots=True)
class AutoscalingTask:
    """A task: its public description, its objective, its fleet and its pass line."""

    info: TaskInfo
    objective: str
    fleet: FleetConfig
    line: PassLine | None
    """None: there is no passing, only a score."""


def _task(
    task_id: str,
    name: str,
    difficulty: Literal["easy", "medium", "hard"],
    description: str,
    fleet: FleetConfig,
    line: PassLine | None = None,
) -> AutoscalingTask:
    info = TaskInfo(
        task_id,
        name,
        difficulty,
        description,
        ("action", "target_replicas"),
        AUTOSCALING_STEPS,
        # One of each difficulty has a pass line.
        aliases=() if line is None else (difficulty,),
        facts={} if line is None else {"pass_score": line.score, "pass_healthy_ratio": line.healthy_ratio},
        listed=line is not None,
    )
    often = "as many" if line is None else f"{line.healthy_ratio:.0%} of the"
    objective = (
        f"Keep latency and error_rate at or below 1.0 and cpu at or below 0.9 in {often} intervals "
        f"{'as you can, ' if line is None else ''}with as few replica-seconds as you can, without flapping"
        f"{'.' if line is None else f'; pass at a score of {line.score:.2f}.'}"
    )
    return AutoscalingTask(info, objective, fleet, line)


_TASKS = {
    task.info.id: task
    for task in (
        _task(
            "balanced",
            "Balanced Autoscaling",
            "easy",
            "A day's rise and fall in one hour, and a spike or two. A replica takes one and a half to five "
            "minutes to start, so capacity must be ordered before it is needed and given back afterwards.",
            FleetConfig(
                base_rps=55.0,
                swing=0.7,
                spikes=Window((1, 2), (180.0, 300.0), (0.15, 0.35)),
            ),
            line=PassLine(0.70, 0.85),
        ),
        _task(
            "high_traffic",
            "Rush-Hour Capacity Management",
            "medium",
            "Traffic more than doubles within minutes at a time that nobody announced, stays for a quarter "
            "of an hour and leaves again, with spikes on top.",
            FleetConfig(
                base_rps=32.0,
                swing=0.25,
                noise=0.04,
                rush=(1.7, 2.1),
                rush_ramp_s=480.0,
                rush_hold_s=600.0,
                spikes=Window((2, 3), (120.0, 240.0), (0.2, 0.45)),
            ),
            line=PassLine(0.70, 0.80),
        ),
        _task(
            "failure_heavy",
            "Incident Response Under Failures",
            "hard",
            "Replicas crash, a zone goes down, responses come back corrupt, metrics are late or missing. "
            "Keep the service up, and tell what more replicas can mend from what they cannot.",
            FleetConfig(
                base_rps=55.0,
                swing=0.7,
                spikes=Window((1, 2), (150.0, 300.0), (0.15, 0.35)),
                crashes=(3, 6),
                zone_outage=0.34,
                sick=Window((1, 2), (90.0, 180.0), (0.004, 0.03)),
                metric_gaps=Window((2, 3), (60.0, 180.0)),
                metric_delays=Window((2, 3), (120.0, 240.0), (3.0, 5.0)),
                metric_loss=0.05,
            ),
            line=PassLine(0.62, 0.70),
        ),
    )
}

_SCENARIO_TEXTS: dict[Scenario, tuple[str, str]] = {
    "startup_cpu_spike": (
        "Start-Up CPU Spike",
        """Replicas report full utilisation for three minutes after they became ready. Who reads that as load
        orders more, which then do the same.""",
    ),
    "pending_ignored": (
        "Pending Replicas Ignored",
        """Every cold start takes 294 seconds. Who forgets the replicas that are starting orders them again
        and again: 2, 4, 8, 16.""",
    ),
    "metrics_outage": (
        "Metrics Outage",
        """Monitoring is down for ten minutes. Who reads nothing as zero scales the fleet away.""",
    ),
    "rolling_update": (
        "Rolling Update",
        """A new version is rolled out with a surge of 100 %. Who counts the surge as fleet doubles it.""",
    ),
    "autoscaler_disabled": (
        "Disabled Autoscaler",
        """Somebody pauses the autoscaler after five minutes: moves are ignored, and available_actions says
        so, until a total is set by hand. Then traffic rises.""",
    ),
}

_CALM = FleetConfig(base_rps=35.0, swing=0.25)
"""Traffic under the scenarios: gentle, so that what happens is the incident's doing. A constant total
serves it well enough, so that these tasks have no pass lines."""

for _scenario, (_name, _text) in _SCENARIO_TEXTS.items():
    _TASKS[_scenario] = _task(
        _scenario,
        _name,
        "medium",
        " ".join(_text.split()),
        with_scenario(_CALM, _scenario),
    )

TASKS: dict[str, TaskInfo] = {task_id: task.info for task_id, task in _TASKS.items()}
"""Tasks by id, easiest first; then the scenarios, which lists show when they are asked for all."""


def get_autoscaling_task(task_id: TaskName) -> AutoscalingTask:
    """A task by id or alias. Raises UnknownNameError with near matches."""
    return _TASKS[task_named(TASKS, task_id).id]
