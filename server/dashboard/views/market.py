"""Market: the price and what customers make of it."""

from __future__ import annotations

from server.dashboard.views.view import REWARD, Panel, Signal, View, always

__all__ = ["VIEW"]


VIEW = View(
    step_title="time (h)",
    actions=(("5 % up", {"change": 0.05}), ("5 % down", {"change": -0.05}), ("20 % up", {"change": 0.2})),
    extra_tabs=(("Market lab", "server.dashboard.market_lab.tab:market_lab_tab"),),
    panels=(
        Panel("Price", "USD per GPU-hour", (Signal("price", "info.metrics.price"),), digits=2),
        Panel("Queue", "jobs", (Signal("waiting", "info.metrics.queue_depth"),), better="less"),
        Panel("Utilisation", "% of GPUs", (Signal("busy", "info.metrics.utilization", scale=100.0),)),
        Panel(
            "Expected wait",
            "h",
            (Signal("wait", "info.metrics.expected_wait_h"),),
            digits=1,
            better="less",
        ),
        Panel("Revenue", "USD/h", (Signal("revenue", "info.metrics.revenue"),), better="more"),
        Panel(
            "Death risk",
            "% of allowed silence",
            (Signal("risk", "info.metrics.death_risk", scale=100.0),),
            limits=always({"the market dies": 100.0}),
            better="less",
        ),
        REWARD,
    ),
)
