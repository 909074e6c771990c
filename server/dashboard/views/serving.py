"""Serving control: latency against its objective, throughput, memory, cost, and the knob that counts most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from env.serving.tasks import get_task
from server.dashboard.views.view import REWARD, Panel, Signal, View
from simulator.packs.on_offer import pack_path
from simulator.packs.trace_table import load_trace_table

__all__ = ["VIEW"]


def _slo(task_id: str, _info: Mapping[str, Any]) -> dict[str, float]:
    objectives = get_task(task_id).workload.ttft_slo_ms
    names = ("objective, interactive", "objective, batch", "objective, best effort")
    given = {name: value for name, value in zip(names, objectives, strict=True) if value is not None}
    return {"objective": next(iter(given.values()))} if len(set(given.values())) == 1 else given


def _memory(task_id: str, info: Mapping[str, Any]) -> dict[str, float]:
    limit = get_task(task_id).workload.memory_limit_gb
    whole = load_trace_table(pack_path(info["settings"]["trace_pack"])).metadata.memory_limit_gb
    return {"given to the process": whole} if limit is None else {"task's limit": limit}


def _burst(info: Mapping[str, Any]) -> str:
    return "burst" if info["workload"]["is_burst"] else ""


VIEW = View(
    step_title="simulated time (s)",
    actions=(
        ("128 sequences", {"batch_size": 128}),
        ("224 sequences, 90 % of the KV pool", {"batch_size": 224, "kv_budget": 0.9}),
        ("64 sequences, 2 drafts", {"batch_size": 64, "spec_length": 2}),
        ("128 sequences, INT8, prefill apart", {"batch_size": 128, "quant_tier": 1, "prefill_disagg": True}),
    ),
    span=_burst,
    panels=(
        Panel(
            "Time to first token",
            "ms",
            (
                Signal("p50", "info.metrics.ttft_p50_ms"),
                Signal("p99", "info.metrics.ttft_p99_ms", dashed=True),
            ),
            limits=_slo,
            log=True,
            better="less",
        ),
        Panel(
            "Throughput", "tokens/s", (Signal("output tokens", "info.metrics.tokens_per_sec"),), better="more"
        ),
        Panel("Queue", "requests", (Signal("waiting", "observation.queue_depth"),), better="less"),
        Panel(
            "KV cache occupancy",
            "%",
            (Signal("of the allocated pool", "observation.kv_cache_occupancy", scale=100.0),),
        ),
        Panel(
            "GPU memory", "GiB", (Signal("reserved", "info.metrics.gpu_memory_gb"),), limits=_memory, digits=1
        ),
        Panel(
            "Cost",
            "¢ per 1,000 tokens",
            (Signal("cost", "info.metrics.cost_per_1k"),),
            digits=4,
            better="less",
        ),
        Panel(
            "Missed objectives",
            "% of requests due",
            (Signal("missed", "info.metrics.slo_violation_rate", scale=100.0),),
            digits=1,
            better="less",
        ),
        Panel("Batch size cap", "sequences", (Signal("cap", "info.action.batch_size"),), tile=False),
        Panel(
            "Arrivals",
            "requests/s",
            (Signal("whole service, mean of 10 s", "info.workload.arrival_rate"),),
            tile=False,
            shared=True,
        ),
        REWARD,
    ),
)
