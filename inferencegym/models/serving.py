"""Typed schema of InferenceGym/Serving-v0: what an agent sends and what it gets back.

This module is the single source of truth for field names, units and bounds; the JSON schemas of the
server, the client, the gymnasium spaces and the MCP tools are all derived from it. It imports nothing
of the project but what all schemas share.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from inferencegym.models.base import Real, Validate, Weight, Whole, real_number, whole_number

__all__ = [
    "DEFAULT_EPISODE_LENGTH",
    "EngineTiming",
    "EpisodeState",
    "MetricsSnapshot",
    "Phase",
    "PriorityDistribution",
    "QuantTier",
    "RewardConfig",
    "ServeAction",
    "ServeObservation",
    "TrafficConfig",
    "WorkloadState",
]


DEFAULT_EPISODE_LENGTH = 200
"""Control steps (simulated seconds) of a serving episode."""

BATCH_SIZE_MAX = 512
QUEUE_CAPACITY = 512
PROMPT_TOKENS_MIN, PROMPT_TOKENS_MAX = 32, 8192
MEMORY_GB_MAX = 80.0
TRAFFIC_TEXT_MAX = 900_000
"""Longest recording in a request, characters: below the server's largest body."""
LATENCY_MS_MAX = 1_000_000.0
"""Upper bound of every latency, ms: longer than an episode, so that it can be declared finite."""


EngineTiming = Literal["additive", "mixed_batch"]
"""How prefill and decode share a GPU in time: a forward pass each, or one for both."""


class QuantTier(IntEnum):
    """Weight-only quantisation of the served model."""

    FP16 = 0
    INT8 = 1
    INT4 = 2


def _quant_tier(value: Any) -> Any:
    """Accept a QuantTier, its number or its name in any case."""
    allowed = "FP16 (0), INT8 (1) or INT4 (2)"
    if isinstance(value, str):
        if value.upper() not in QuantTier.__members__:
            raise ValueError(f"must be {allowed}")
        return QuantTier[value.upper()]
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in (0, 1, 2):
        raise ValueError(f"must be {allowed}")
    return QuantTier(int(value))


SpecLength = Annotated[Literal[0, 1, 2, 4, 8], BeforeValidator(whole_number)]
Tier = Annotated[
    QuantTier,
    BeforeValidator(_quant_tier),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "enum": [0, 1, 2]},
                {"type": "string", "enum": ["FP16", "INT8", "INT4"]},
            ],
            "title": "Quant Tier",
            "default": 0,
        }
    ),
]


class ServeAction(BaseModel):
    """The engine's five knobs for the next simulated second. Missing fields take their defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    validate: ClassVar[Any] = Validate()

    kv_budget: Real = Field(
        default=1.0, ge=0.1, le=1.0, description="Fraction of the deployable KV-cache pool that is allocated."
    )
    spec_length: SpecLength = Field(
        default=0, description="Speculative draft tokens per verify step: 0 (off), 1, 2, 4 or 8."
    )
    batch_size: Whole = Field(
        default=32, ge=1, le=BATCH_SIZE_MAX, description="Cap on concurrently running sequences."
    )
    prefill_disagg: bool = Field(
        default=False, strict=True, description="Run prefill on a dedicated second GPU (costs two GPUs)."
    )
    quant_tier: Tier = Field(
        default=QuantTier.FP16, description="Weight-only quantisation: FP16, INT8 or INT4."
    )


class PriorityDistribution(BaseModel):
    """Share of each priority class among recent arrivals; the three sum to 1."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    interactive: float = Field(default=1.0, ge=0.0, le=1.0)
    batch: float = Field(default=0.0, ge=0.0, le=1.0)
    best_effort: float = Field(default=0.0, ge=0.0, le=1.0)

    @model_validator(mode="before")
    @classmethod
    def _of_a_list(cls, value: Any) -> Any:
        """The three shares in the order of the fields."""
        if not isinstance(value, list | tuple):
            return value
        shares, names = cast("list[Any]", value), list(cls.model_fields)
        if len(shares) != len(names):
            raise ValueError(f"a list must have {len(names)} shares: {', '.join(names)}")
        return dict(zip(names, shares, strict=True))

    @model_validator(mode="after")
    def _sums_to_one(self) -> PriorityDistribution:
        total = self.interactive + self.batch + self.best_effort
        if abs(total - 1.0) > 1e-6:
            raise ValueError(f"interactive + batch + best_effort must be 1, got {total:.6g}")
        return self


Phase = Literal["warmup", "steady", "burst", "cooldown"]


class WorkloadState(BaseModel):
    """What the traffic looks like now."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    arrival_rate: Real = Field(ge=0.0, description="Requests/s offered to the service, all replicas.")
    mean_prompt_len: Real = Field(
        ge=PROMPT_TOKENS_MIN, le=PROMPT_TOKENS_MAX, description="Mean prompt length of arrivals, tokens."
    )
    prompt_len_bucket: Whole = Field(ge=0, le=7, description="digitize(mean_prompt_len, 64..4096).")
    queue_depth: Real = Field(
        default=0, ge=0, le=QUEUE_CAPACITY, description="Requests waiting at this engine."
    )
    priority_distribution: PriorityDistribution = PriorityDistribution()
    is_burst: bool = False
    phase: Phase = "steady"


class MetricsSnapshot(BaseModel):
    """One second of one engine, as its own monitoring would report it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    ttft_p50_ms: float = Field(ge=0.0, description="Median time to first token of requests served, ms.")
    ttft_p99_ms: float = Field(ge=0.0, description="99th percentile time to first token, ms.")
    tpot_ms: float = Field(ge=0.0, description="Time per output token of a running sequence, ms.")
    tokens_per_sec: float = Field(ge=0.0, description="Output tokens produced per second by this engine.")
    gpu_memory_gb: float = Field(
        ge=0.0, le=MEMORY_GB_MAX, description="Reserved memory of the decode GPU, GiB."
    )
    cost_per_1k: float = Field(ge=0.0, description="US cents per 1,000 tokens processed (prompt + output).")
    spec_accept_rate: float = Field(ge=0.0, le=1.0, description="Draft acceptance; 0 when spec_length is 0.")
    eviction_events: int = Field(ge=0, description="Sequences preempted for lack of KV memory.")
    slo_violations: int = Field(
        ge=0,
        description="Requests past their TTFT SLO this second: served late, waiting or rejected; x5 on OOM.",
    )
    slo_violation_rate: float = Field(
        ge=0.0, le=1.0, description="slo_violations as a share of the requests due this second."
    )
    oom: bool = Field(description="The configuration did not fit the GPU; nothing was served.")


class ServeObservation(BaseModel):
    """What an agent sees after each simulated second (and at reset)."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    queue_depth: int = Field(ge=0, le=QUEUE_CAPACITY, description="Requests waiting at this engine.")
    mean_prompt_len: float = Field(
        ge=PROMPT_TOKENS_MIN, le=PROMPT_TOKENS_MAX, description="Mean prompt length, tokens (10-step EMA)."
    )
    arrival_rate: float = Field(ge=0.0, le=10_000.0, description="Service arrivals, req/s (10-step EMA).")
    kv_cache_occupancy: float = Field(ge=0.0, le=1.0, description="Used share of the allocated KV pool.")
    ttft_p50_ms: float = Field(ge=0.0, le=LATENCY_MS_MAX, description="Median TTFT of the last second, ms.")
    tpot_p50_ms: float = Field(ge=0.0, le=LATENCY_MS_MAX, description="Median time per output token, ms.")
    slo_violation_rate: float = Field(ge=0.0, le=1.0, description="Share of due requests past their SLO.")
    gpu_memory_used_gb: float = Field(ge=0.0, le=MEMORY_GB_MAX, description="Reserved GPU memory, GiB.")
    spec_accept_rate: float = Field(ge=0.0, le=1.0, description="Draft acceptance; 0 when not speculating.")
    priority_distribution: PriorityDistribution = Field(
        description="Class shares of arrivals in the last 50 steps."
    )
    timestep: int = Field(ge=0, le=DEFAULT_EPISODE_LENGTH, description="Steps taken in this episode.")
    cost_so_far: float = Field(ge=0.0, description="Sum of cost_per_1k over the episode's steps.")


class TrafficConfig(BaseModel):
    """Recorded requests to play instead of the task's own traffic: ``text`` or ``file``, not both.

    CSV or JSON lines with the columns of Azure's, BurstGPT's or Mooncake's traces, or timestamp_s,
    prompt_tokens, output_tokens.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    text: str | None = Field(default=None, max_length=TRAFFIC_TEXT_MAX, description="The recording itself.")
    file: str | None = Field(
        default=None, max_length=100, description="Name of a file in the server's folder of recordings."
    )
    replicas: Whole = Field(default=1, ge=1, le=256, description="Engines that share it, round robin.")
    speed: Real = Field(default=1.0, gt=0.0, le=1000.0, description="Seconds of it in a simulated second.")
    start_s: Annotated[float, Field(ge=0.0), BeforeValidator(real_number)] | None = Field(
        default=None, description="Where every episode starts, s; without it the seed draws one."
    )

    @model_validator(mode="after")
    def _one_source(self) -> TrafficConfig:
        if (self.text is None) == (self.file is None):
            raise ValueError("give either text or file")
        return self


class RewardConfig(BaseModel):
    """What an episode changes of its task: the weights of the reward, and what it is served with.

    Reward = alpha*T - beta*L - gamma*V - delta*C, every weight in [0, 1]. Fields left out keep the task's
    own. beta + gamma + delta may be at most 1, so that rewards stay in [-1, 1].
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    alpha: Weight | None = Field(default=None, description="Weight of throughput T.")
    beta: Weight | None = Field(default=None, description="Weight of latency L.")
    gamma: Weight | None = Field(default=None, description="Weight of SLO violations V.")
    delta: Weight | None = Field(default=None, description="Weight of cost C.")
    trace_pack: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="GPU and model to serve with, by the name of a trace pack.",
    )
    traffic: TrafficConfig | None = Field(default=None, description="Recorded requests to play.")
    engine_timing: EngineTiming | None = Field(
        default=None,
        description="Prompts and decode steps: a forward pass each (additive), or in one (mixed_batch).",
    )


class EpisodeState(BaseModel):
    """Metadata of an episode; with the actions it reproduces the episode exactly."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    session_id: str = ""
    episode_id: str
    task_id: str
    seed: int = Field(ge=0)
    step_count: int = Field(ge=0)
    cumulative_reward: float
    done: bool
    workload_phase: Phase
