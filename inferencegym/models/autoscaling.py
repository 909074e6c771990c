"""Typed schema of InferenceGym/Autoscaling-v0: what an agent sends and what it gets back.

Field names, units and bounds are said here and nowhere else; JSON schemas, client, gymnasium spaces and MCP
tools are derived from these models.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from inferencegym.models.base import Validate, whole_number

__all__ = [
    "AUTOSCALING_STEPS",
    "MAX_REPLICAS",
    "MIN_REPLICAS",
    "MOVES",
    "RATIO_MAX",
    "SCENARIOS",
    "AutoscalingAction",
    "AutoscalingConfig",
    "AutoscalingObservation",
    "AutoscalingState",
    "Move",
    "RewardBreakdown",
    "Scenario",
]

AUTOSCALING_STEPS = 240
"""Control intervals of an episode: one hour, 15 seconds each."""

MIN_REPLICAS, MAX_REPLICAS = 1, 24
"""What the fleet may be asked for."""

RATIO_MAX = 100.0
"""Upper bound of every normalised metric: a hundred times its objective."""

RATIONALE_MAX_CHARS = 280

Move = Literal["scale_down", "no_op", "scale_up"]
MOVES: tuple[Move, ...] = ("scale_down", "no_op", "scale_up")
"""One replica less, none, one more."""

Scenario = Literal[
    "startup_cpu_spike", "pending_ignored", "metrics_outage", "rolling_update", "autoscaler_disabled"
]
SCENARIOS: tuple[Scenario, ...] = (
    "startup_cpu_spike",
    "pending_ignored",
    "metrics_outage",
    "rolling_update",
    "autoscaler_disabled",
)
"""Incidents that operators of autoscaled services know; docs/environments/autoscaling.md tells what happens
in each."""

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Ratio = Annotated[float, Field(ge=0.0, le=RATIO_MAX)]
Term = Annotated[float, Field(ge=-1.0, le=1.0)]
Replicas = Annotated[int, Field(ge=0, le=4 * MAX_REPLICAS)]
# The limits stand before the validator, as in inferencegym.models.serving: only so do they reach the JSON
# schema.
Total = Annotated[int, Field(ge=MIN_REPLICAS, le=MAX_REPLICAS), BeforeValidator(whole_number)]


class AutoscalingAction(BaseModel):
    """What to do with the number of replicas for the next 15 seconds.

    Send a move, or ``target_replicas``, not both.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    validate: ClassVar[Any] = Validate()

    action: Move = Field(default="no_op", description="One replica less, no change, or one more.")
    target_replicas: Total | None = Field(
        default=None, description="The wanted total, for controllers that think in totals. Leave action out."
    )
    rationale: Annotated[str, Field(max_length=RATIONALE_MAX_CHARS, strict=True)] | None = Field(
        default=None, description="Why, in your own words. It has no effect."
    )

    @model_validator(mode="after")
    def _says_one_thing(self) -> AutoscalingAction:
        if self.target_replicas is not None and self.action != "no_op":
            raise ValueError(
                f"action {self.action!r} and target_replicas {self.target_replicas} contradict each other; "
                "send one of them"
            )
        return self


class RewardBreakdown(BaseModel):
    """Signed parts of a reward; they sum to it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    latency: Term = Field(default=0.0, description="Penalty, up to the objective small, then logarithmic.")
    error_rate: Term = Field(default=0.0, description="Penalty for errors against the error budget.")
    cpu: Term = Field(default=0.0, description="Penalty for utilisation outside the task's band.")
    replica_cost: Term = Field(default=0.0, description="Penalty for replica-seconds above the cheapest.")
    action_cost: Term = Field(default=0.0, description="Penalty for a change, larger for a reversal.")
    health_bonus: Term = Field(default=0.0, description="Every metric inside its threshold.")
    progress_bonus: Term = Field(default=0.0, description="Healthy now, late, after a healthy episode.")
    outage_penalty: Term = Field(default=0.0, description="Most requests failed, or no replica was ready.")


class AutoscalingObservation(BaseModel):
    """What the on-call engineer sees after each 15-second interval (and at reset).

    Counts of replicas are the control plane's own and are current. Everything measured arrives one interval
    late and can go missing: then the last value that arrived stays, ``metrics_missing`` is true and
    ``metrics_age_s`` grows. A missing metric is never zero.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    task_id: str = Field(description="The task that is played.")
    task_title: str
    difficulty: Literal["easy", "medium", "hard"]
    objective: str = Field(description="What the task asks for.")
    latency: Ratio = Field(description="The worse of TTFT p95 / 2 s and time per output token / 50 ms.")
    cpu: Ratio = Field(description="Utilisation of ready replicas; 1.0 is saturation.")
    error_rate: Ratio = Field(description="Share of failed requests / 1 %.")
    traffic: Ratio = Field(description="Arrivals / what the ready replicas can serve at most.")
    step_count: int = Field(ge=0, le=AUTOSCALING_STEPS, description="Intervals played.")
    remaining_steps: int = Field(ge=0, le=AUTOSCALING_STEPS)
    healthy_steps: int = Field(ge=0, le=AUTOSCALING_STEPS, description="Intervals inside every threshold.")
    healthy_ratio: Share = Field(description="healthy_steps / step_count; 0 at reset.")
    current_grader_score: Share = Field(description="Score of the intervals played so far; 0 at reset.")
    last_action: Move = Field(description="What the last action asked for: fewer, the same, or more.")
    available_actions: tuple[Move, ...] = Field(description="Moves that would have an effect now.")
    reward_breakdown: RewardBreakdown
    replicas_ready: Replicas = Field(description="Serving.")
    replicas_pending: Replicas = Field(description="Starting; paid for, not serving yet.")
    replicas_draining: Replicas = Field(description="Finishing their requests before they go.")
    replicas_warming: Replicas = Field(description="Ready, with their start-up work still going on.")
    replicas_target: int = Field(ge=MIN_REPLICAS, le=MAX_REPLICAS, description="The total asked for.")
    update_in_progress: bool = Field(description="Every replica is being replaced by a newer one.")
    queue_depth: int = Field(ge=0, le=1_000_000, description="Requests waiting for a replica.")
    arrival_rate_rps: float = Field(ge=0.0, le=10_000.0, description="Arrivals per second.")
    arrival_rate_5m_rps: float = Field(ge=0.0, le=10_000.0, description="Mean of 5 minutes of it.")
    arrival_trend_rps_per_min: float = Field(
        ge=-10_000.0, le=10_000.0, description="Slope of a straight line through 5 minutes of it."
    )
    concurrency: float = Field(ge=0.0, le=1e6, description="Requests in the service: waiting and running.")
    concurrency_6s: float = Field(ge=0.0, le=1e6, description="The same over the last 6 s of the interval.")
    cpu_steady: Ratio = Field(description="cpu of the replicas past their start-up work.")
    kv_occupancy: Share = Field(description="Used share of the KV cache of ready replicas.")
    metrics_age_s: int = Field(ge=0, description="Age of the metrics shown; 15 when all is well.")
    metrics_missing: bool = Field(description="No new metrics arrived in this interval.")
    done: bool = False
    reward: float | None = Field(default=None, description="Reward of the step; null at reset.")
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any], description="Nothing a policy needs.")


class AutoscalingConfig(BaseModel):
    """What an episode changes of its task."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    scenario: Scenario | None = Field(default=None, description="An incident on top of the task.")
    trace_pack: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="GPU and model of the replicas, by the name of a trace pack.",
    )


class AutoscalingState(BaseModel):
    """Metadata of an episode; with the actions it reproduces the episode exactly."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    session_id: str = ""
    episode_id: str
    task_id: str
    seed: int = Field(ge=0)
    scenario: Scenario | None = None
    trace_pack: str = Field(description="Pack that says how fast a replica is.")
    step_count: int = Field(ge=0)
    cumulative_reward: float
    done: bool
    survived: bool = Field(description="No outage has lasted two minutes so far.")
    healthy_steps: int = Field(ge=0)
    replica_hours: float = Field(ge=0.0, description="Paid so far, pending and draining replicas included.")
