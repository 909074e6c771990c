"""Recorded traffic as the workload of a serving task: what ``config.traffic`` gives or names."""

from __future__ import annotations

from env.serving.tasks import ServingTask
from inferencegym.models.serving import TrafficConfig
from simulator.serving.traffic.on_offer import recorded_trace
from simulator.serving.traffic.replay import ReplayWorkload
from simulator.serving.traffic.trace_file import parse_trace

__all__ = ["recorded_workload"]


def recorded_workload(traffic: TrafficConfig, task: ServingTask) -> ReplayWorkload:
    """The recording with the task's classes, objectives and limits.

    Requests without a prompt or an output token are left out: that is how recordings log failed ones.

    Raises TraceFileError, UnknownNameError, InvalidValueError: what is wrong with it.
    """
    if traffic.text is not None:
        trace = parse_trace(traffic.text, skip_empty=True)
    else:
        trace = recorded_trace(traffic.file or "")
    return ReplayWorkload(
        trace,
        task.workload,
        task.info.episode_length,
        start_s=traffic.start_s,
        speed=float(traffic.speed),
        replicas=traffic.replicas,
    )
