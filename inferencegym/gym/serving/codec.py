"""Vector layout of InferenceGym/Serving-v0.

===  ======================  =======  =======================================================
 i   name                    bounds   of the observation
===  ======================  =======  =======================================================
 0   queue_depth             [0, 1]   log, 0 to 512 requests
 1   mean_prompt_len         [0, 1]   log, 32 to 8,192 tokens
 2   arrival_rate            [0, 1]   log, 0 to 1,000 requests/s
 3   kv_cache_occupancy      [0, 1]   as it is
 4   ttft_p50                [0, 1]   log, 0 to 200,000 ms (an episode), linear below 10 ms
 5   tpot_p50                [0, 1]   log, 0 to 10,000 ms
 6   slo_violation_rate      [0, 1]   as it is
 7   gpu_memory_used         [0, 1]   share of 80 GiB
 8   spec_accept_rate        [0, 1]   as it is
 9   interactive_share       [0, 1]   as it is
10   batch_share             [0, 1]   as it is
11   best_effort_share       [0, 1]   as it is
12   timestep                [0, 1]   share of 200 steps
13   cost_so_far             [0, 1]   log, 0 to 30 (200 steps at the cap), linear below 0.1
14   arrival_trend           [-1, 1]  change of the arrival rate since the step before, relative
15   queue_trend             [-1, 1]  change of the queue since the step before, relative
===  ======================  =======  =======================================================

Entries 14 and 15 come from two observations in a row: a burst shows in them a step or two before the averages
have followed.

Actions: kv_budget, spec_length, batch_size, prefill_disagg, quant_tier, in this order. The flat entry of
batch_size runs over 1 to 512 on a log scale.
"""

from __future__ import annotations

from inferencegym.gym.codec import Feature, GymCodec, Panel
from inferencegym.gym.knobs import choice, flag, real, whole
from inferencegym.models.serving import (
    BATCH_SIZE_MAX,
    DEFAULT_EPISODE_LENGTH,
    MEMORY_GB_MAX,
    PROMPT_TOKENS_MAX,
    PROMPT_TOKENS_MIN,
    QUEUE_CAPACITY,
    QuantTier,
    ServeAction,
)

__all__ = ["CODEC", "ENTRY_POINT", "OBSERVATION_NAMES", "VECTOR_ENTRY_POINT"]

ENTRY_POINT = "inferencegym.gym.serving.env:ServingGymEnv"
VECTOR_ENTRY_POINT = "inferencegym.gym.serving.vector:ServingVectorEnv"

_EPISODE_MS = 200_000.0
_COST_MAX = 30.0
"""Cost of 200 steps at the trace pack's cap of 0.15 cents per 1,000 tokens."""

_FEATURES = (
    Feature("queue_depth", "queue_depth", 0, QUEUE_CAPACITY, "log"),
    Feature("mean_prompt_len", "mean_prompt_len", PROMPT_TOKENS_MIN, PROMPT_TOKENS_MAX, "log", 32.0),
    Feature("arrival_rate", "arrival_rate", 0, 1000.0, "log"),
    Feature("kv_cache_occupancy", "kv_cache_occupancy"),
    Feature("ttft_p50", "ttft_p50_ms", 0, _EPISODE_MS, "log", 10.0),
    Feature("tpot_p50", "tpot_p50_ms", 0, 10_000.0, "log"),
    Feature("slo_violation_rate", "slo_violation_rate"),
    Feature("gpu_memory_used", "gpu_memory_used_gb", 0, MEMORY_GB_MAX),
    Feature("spec_accept_rate", "spec_accept_rate"),
    Feature("interactive_share", "priority_distribution.interactive"),
    Feature("batch_share", "priority_distribution.batch"),
    Feature("best_effort_share", "priority_distribution.best_effort"),
    Feature("timestep", "timestep", 0, DEFAULT_EPISODE_LENGTH),
    Feature("cost_so_far", "cost_so_far", 0, _COST_MAX, "log", 0.1),
    Feature("arrival_trend", "arrival_rate", scale="trend"),
    Feature("queue_trend", "queue_depth", scale="trend"),
)

_BATCH_LEVELS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 224, 288, 384, 512)

CODEC = GymCodec(
    ServeAction,
    _FEATURES,
    (
        real("kv_budget", 0.1, 1.0, default=1.0, levels=10),
        choice("spec_length", (0, 1, 2, 4, 8), default=0),
        whole("batch_size", 1, BATCH_SIZE_MAX, default=32, levels=_BATCH_LEVELS, scaled=True),
        flag("prefill_disagg", default=False),
        choice("quant_tier", tuple(QuantTier), default=QuantTier.FP16),
    ),
    (
        Panel("ttft_p50_ms", "TTFT p50 (ms)", log=True),
        Panel("tokens_per_sec", "output (tokens/s)"),
        Panel("slo_violation_rate", "past SLO (share)"),
        Panel("gpu_memory_gb", "memory (GiB)"),
        Panel("cost_per_1k", "cost (cents/1k tokens)"),
        Panel("reward", "reward"),
    ),
)

OBSERVATION_NAMES = CODEC.observation_names
