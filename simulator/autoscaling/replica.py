"""One replica of a fleet: what a fixed engine configuration does at every number of running requests.

The trace table gives the time of a decode step and of a prefill. From them, for n running requests:

- time per output token = step(n) + n × prefill ÷ output, since each request is prefilled once while the
  others wait for it (``physics.prefill_stall_ms``);
- requests finished per second = n ÷ (output × time per output token);
- time to first token without a queue: a prefill and the decode steps that alternate with it, behind the
  prefills that arrived before (M/D/1), plus half of the step in flight.

Another GPU is another pack, and another answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from inferencegym.errors import InvalidValueError
from simulator.packs.physics import prefill_stall_ms, sequences_that_fit
from simulator.packs.trace_table import DEFAULT_PACK_PATH, load_trace_table

__all__ = ["DEFAULT_REPLICA", "ReplicaConfig", "ReplicaTable", "replica_table"]

_BUSIEST = 0.98
"""Utilisation of the prefill server above which the M/D/1 wait is held: a queue belongs to the gateway."""


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """Engine configuration of every replica, and the mean request.

    Lengths: means of the Azure LLM inference trace 2023, conversations (AzurePublicDataset, CC-BY 4.0;
    19,366 requests of one hour), from its quantiles.
    """

    batch_size: int = 96
    kv_budget: float = 0.9
    quant_tier: int = 0
    prompt_tokens: float = 1269.0
    output_tokens: float = 215.0


DEFAULT_REPLICA = ReplicaConfig()


class ReplicaTable(NamedTuple):
    """Columns over 0 to ``limit`` running requests, and what follows from them.

    Columns are lists or arrays: plain and compiled code read the same numbers.
    """

    rate_rps: Any
    """requests finished per second"""
    tpot_ms: Any
    ttft_ms: Any
    """mean time to first token of a request that need not queue"""
    kv_share: Any
    limit: int
    """most running requests: the batch size, or what the KV cache holds"""
    peak_rps: float
    """requests finished per second at the limit; utilisation 1"""
    prefill_rps: float
    """requests that can start per second"""

    def as_arrays(self) -> ReplicaTable:
        """The same for compiled code."""
        columns = {name: np.asarray(getattr(self, name), dtype=np.float64) for name in self._fields[:4]}
        return self._replace(**columns)


@cache
def replica_table(
    config: ReplicaConfig = DEFAULT_REPLICA, trace_path: str | Path = DEFAULT_PACK_PATH
) -> ReplicaTable:
    """The table of a configuration on the GPU of a trace pack, made once per process.

    Raises:
        InvalidValueError: the KV cache does not hold one request.
        TracePackError: the pack cannot be read.
    """
    trace = load_trace_table(Path(trace_path))
    pack = trace.metadata
    pool = config.kv_budget * pack.kv_pool_tokens[config.quant_tier]
    fits = sequences_that_fit(pool, config.prompt_tokens, config.output_tokens)
    limit = min(config.batch_size, int(fits))
    if limit < 1:
        raise InvalidValueError("kv_budget", config.kv_budget, "a KV cache that holds one request")
    running = np.arange(limit + 1, dtype=np.float64)
    # The table was measured at a context of prompt + reference output / 2.
    context = config.prompt_tokens + 0.5 * (config.output_tokens - pack.reference_output_tokens)
    step_ms = _column(trace, config, running, context, _STEP)
    prefill_ms = _column(trace, config, running[:1], config.prompt_tokens, _PREFILL)
    tpot_ms = step_ms + prefill_stall_ms(running, prefill_ms, np.asarray(config.output_tokens))
    rate_rps = 1000.0 * running / (config.output_tokens * tpot_ms)
    service_ms = prefill_ms + step_ms
    busy = np.minimum(rate_rps * service_ms / 1000.0, _BUSIEST)
    ttft_ms = service_ms * (1.0 + 0.5 * busy / (1.0 - busy)) + 0.5 * step_ms
    kv_share = np.minimum(running / fits, 1.0)
    return ReplicaTable(
        rate_rps.tolist(),
        tpot_ms.tolist(),
        ttft_ms.tolist(),
        kv_share.tolist(),
        limit,
        float(rate_rps[-1]),
        1000.0 / float(service_ms[-1]),
    )


_STEP, _PREFILL = -2, -1
"""Columns of ``TraceTable.interpolate``."""


def _column(trace: Any, config: ReplicaConfig, running: Any, length: float, column: int) -> Any:
    budget = np.full(running.shape, config.kv_budget)
    lengths = np.full(running.shape, length)
    return trace.interpolate(0, config.quant_tier, running, budget, lengths)[:, column]
