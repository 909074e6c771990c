"""Carbon-aware routing: accuracy against carbon, query by query."""

from __future__ import annotations

from env.routing.tasks import get_task
from server.dashboard.views.view import REWARD, Panel, Signal, View

__all__ = ["VIEW"]


def _intensity_unit(task_id: str) -> str:
    """The classic tasks have a scale of their own, from 0 to 1."""
    return "g CO₂/kWh" if get_task(task_id).stream else "scale of the task"


VIEW = View(
    step_title="decision",
    actions=(
        ("Small model", {"model_choice": "SMALL"}),
        ("Large model", {"model_choice": "LARGE"}),
        ("Cascade up to large", {"strategy": "DO_CASCADE", "model_choice": "LARGE", "exit_flag": True}),
        ("Cache", {"strategy": "USE_CACHE"}),
        ("Wait, then the small model", {"strategy": "WAIT", "model_choice": "SMALL"}),
    ),
    panels=(
        Panel(
            "Accuracy so far",
            "% answered right",
            (Signal("right", "info.metrics.correct", fold="mean", scale=100.0),),
            digits=1,
            better="more",
        ),
        Panel("CO₂ so far", "g", (Signal("CO₂", "info.metrics.co2_g", fold="sum"),), digits=2, better="less"),
        Panel(
            "Carbon intensity",
            "g CO₂/kWh",
            (Signal("of the grid", "info.workload.carbon_intensity"),),
            digits=1,
            unit_in=_intensity_unit,
        ),
        Panel("Energy", "Wh a query", (Signal("energy", "info.metrics.energy_wh"),), digits=2, better="less"),
        Panel("Latency", "s", (Signal("latency", "info.metrics.latency_s"),), digits=1, better="less"),
        Panel("Waiting queries", "queries", (Signal("waiting", "info.workload.waiting"),)),
        REWARD,
    ),
)
