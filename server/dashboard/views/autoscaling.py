"""Autoscaling: how many replicas there are, how many were needed, and what requests felt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from server.dashboard.views.view import REWARD, Panel, Signal, View, always

__all__ = ["VIEW"]


def _outage(info: Mapping[str, Any]) -> str:
    return "outage" if info["metrics"]["outage"] else ""


VIEW = View(
    step_title="interval of 15 s",
    actions=(("One replica more", {"action": "scale_up"}), ("One replica less", {"action": "scale_down"})),
    span=_outage,
    panels=(
        Panel(
            "Replicas",
            "replicas",
            (
                Signal("ready", "info.metrics.replicas_ready"),
                Signal("needed", "info.metrics.required_replicas", dashed=True),
            ),
        ),
        Panel(
            "Arrivals",
            "requests/s",
            (Signal("of the interval", "info.metrics.arrival_rate_rps"),),
            tile=False,
            shared=True,
        ),
        Panel(
            "Latency",
            "× objective",
            (Signal("latency", "info.metrics.latency"),),
            limits=always({"objective": 1.0}),
            digits=2,
            better="less",
        ),
        Panel(
            "Errors",
            "× objective",
            (Signal("error rate", "info.metrics.error_rate"),),
            limits=always({"objective": 1.0}),
            digits=2,
            better="less",
        ),
        Panel(
            "CPU", "%", (Signal("load", "info.metrics.cpu", scale=100.0),), limits=always({"objective": 90.0})
        ),
        Panel("Queue", "requests", (Signal("waiting", "info.metrics.queue_depth"),), better="less"),
        Panel(
            "Cost so far",
            "USD",
            (Signal("cost", "info.metrics.cost_usd", fold="sum"),),
            digits=2,
            better="less",
        ),
        REWARD,
    ),
)
