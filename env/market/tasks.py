"""The three tasks of InferenceGym/Market-v0, each a scenario of ``simulator/data/market/scenarios.yaml``."""

from __future__ import annotations

from typing import Literal

from env.protocols import TaskInfo, TaskName, task_named
from inferencegym.models.market import EPISODE_HOURS, PriceAction

__all__ = ["TASKS", "get_market_task"]

_PRICES = "Prices from 1.00 to 7.00 USD per GPU-hour."


def _task(
    task_id: str, name: str, difficulty: Literal["easy", "medium", "hard"], description: str
) -> TaskInfo:
    fields = tuple(PriceAction.model_fields)
    return TaskInfo(
        task_id, name, difficulty, f"{description} {_PRICES}", fields, EPISODE_HOURS, aliases=(difficulty,)
    )


TASKS: dict[str, TaskInfo] = {
    task.id: task
    for task in (
        _task(
            "steady",
            "Steady Trade",
            "easy",
            "64 H100s, fifteen customers an hour, quiet nights and busy days. Find the price that keeps the "
            "GPUs at work without a line. Scored on revenue, waits, fairness and survival.",
        ),
        _task(
            "surge",
            "Rush Hours",
            "medium",
            "Once in every 50 hours, when it likes, a rush of 18 hours brings three times as many customers, "
            "who would pay 40 % more. Raise the price in time and give way afterwards. Scored on revenue, "
            "waits, fairness and survival.",
        ),
        _task(
            "adversarial",
            "Price War",
            "hard",
            "Rushes, a competitor who nearly halves what customers would pay for a day, and droughts overlap "
            "at hours of their own choosing. A price that nobody accepts for too long kills the market. "
            "Scored on revenue, waits, fairness and survival.",
        ),
    )
}
"""Tasks by id, easiest first; the id is also the scenario's name."""


def get_market_task(task_id: TaskName) -> TaskInfo:
    """A task by id or alias. Raises UnknownNameError with near matches."""
    return task_named(TASKS, task_id)
