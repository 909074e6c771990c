"""Typed schema of InferenceGym/Routing-v0: what an agent sends and what it gets back.

Single source of field names, units and bounds, as :mod:`inferencegym.models.serving` is for Serving-v0.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, ClassVar, Literal, get_args
from unicodedata import combining, normalize

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from inferencegym.models.base import Validate, Whole, whole_number

__all__ = [
    "CATEGORIES",
    "REGIONS",
    "Category",
    "ModelChoice",
    "PerModel",
    "Region",
    "RoutingAction",
    "RoutingConfig",
    "RoutingObservation",
    "RoutingState",
    "Strategy",
    "UpModels",
]

CARBON_MAX = 2_000.0
"""g CO₂/kWh; the dirtiest grids stay below 1,000."""
HOURS_MAX = 1_000.0
TOKENS_MAX = 100_000.0


class Strategy(IntEnum):
    """How a query is answered."""

    NONE = 0
    USE_CACHE = 1
    DO_CASCADE = 2
    EARLY_EXIT = 3
    WAIT = 4
    CALL_KB = 5


class ModelChoice(IntEnum):
    """Which model answers; a cascade ends with it."""

    SMALL = 0
    MEDIUM = 1
    LARGE = 2


def _member(kind: type[IntEnum]) -> BeforeValidator:
    """Take a member of ``kind`` or its name in any case."""

    def member(value: Any) -> IntEnum:
        if isinstance(value, kind):
            return value
        if isinstance(value, str) and value.upper() in kind.__members__:
            return kind[value.upper()]
        raise ValueError(f"must be one of {', '.join(kind.__members__)}")

    return BeforeValidator(member)


def _names(kind: type[IntEnum]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(kind.__members__)})


def _name(value: IntEnum) -> str:
    return value.name


_AS_NAME = PlainSerializer(_name, return_type=str, when_used="json")


def _named(default: IntEnum, description: str) -> Any:
    """A field whose JSON schema tells the default by its name; pydantic would give the number, which is no
    value of the field."""
    return Field(default=default, description=description, json_schema_extra={"default": default.name})


StrategyName = Annotated[Strategy, _member(Strategy), _AS_NAME, _names(Strategy)]
ModelName = Annotated[ModelChoice, _member(ModelChoice), _AS_NAME, _names(ModelChoice)]

Category = Literal["instruction", "knowledge", "maths", "science", "code", "multilingual"]
CATEGORIES: tuple[Category, ...] = get_args(Category)

Region = Literal[
    "Stockholm",
    "Montreal",
    "Paris",
    "Oregon",
    "London",
    "Frankfurt",
    "N. Virginia",
    "Iowa",
    "Johannesburg",
    "Mumbai",
]
REGIONS: tuple[Region, ...] = get_args(Region)
"""From the cleanest grid to the dirtiest."""


def _plain(name: str) -> str:
    """Without case and accents: Montréal is montreal."""
    return "".join(c for c in normalize("NFKD", name) if not combining(c)).casefold()


_REGION_OF: dict[str, Region] = {_plain(name): name for name in REGIONS}


def _region(value: Any) -> Any:
    return _REGION_OF.get(_plain(value), value) if isinstance(value, str) else value


RegionName = Annotated[Region, BeforeValidator(_region)]


class RoutingAction(BaseModel):
    """What happens to the query at hand. Missing fields take their defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    validate: ClassVar[Any] = Validate()

    strategy: StrategyName = _named(
        Strategy.NONE,
        "NONE: the chosen model. USE_CACHE: a cached answer. DO_CASCADE: SMALL first, then "
        "larger ones up to the chosen one. EARLY_EXIT: the chosen model, stopped part-way. WAIT: the chosen "
        "model, later. CALL_KB: the knowledge base.",
    )
    model_choice: ModelName = _named(
        ModelChoice.MEDIUM, "SMALL, MEDIUM or LARGE: the model, or the last one of a cascade."
    )
    exit_flag: bool = Field(
        default=False, strict=True, description="Stop a cascade after the first answer that looks correct."
    )


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PerModel(_Record):
    """One number for each model."""

    small: float = Field(ge=0.0, le=1.0)
    medium: float = Field(ge=0.0, le=1.0)
    large: float = Field(ge=0.0, le=1.0)


class UpModels(_Record):
    """Whether each model answered when it was last looked at."""

    small: bool
    medium: bool
    large: bool


class RoutingObservation(_Record):
    """The query to be decided next, and the state of everything that could answer it.

    The observation after the last step shows that there is no query left (``queries_left`` 0).
    """

    task_id: str
    queries_left: Whole = Field(ge=0, le=1_000, description="Queries still to be decided, this one included.")
    query_id: str = Field(
        description="In the classic tasks the question's, which a repeat shares; in streams the query's own."
    )
    query_text: str
    category: Category
    category_accuracy: PerModel = Field(
        description="Share of such queries that each model answers correctly (published benchmarks)."
    )
    difficulty_estimate: float = Field(
        ge=0.0,
        le=1.0,
        description="A router's guess how hard the query is within its category, as a share of easier ones. "
        "Exact in the classic tasks: below 1/3 SMALL is enough, above 2/3 it takes LARGE.",
    )
    answer_tokens_estimate: float = Field(ge=0.0, le=TOKENS_MAX, description="Expected length of the answer.")
    deadline_h: float = Field(
        ge=0.0, le=HOURS_MAX, description="Hours the answer may take; 0: somebody waits for it."
    )
    hour: float = Field(ge=0.0, lt=24.0, description="Local time of day.")
    region: str = Field(description="Where the fleet runs; classic in the classic tasks.")
    carbon_intensity: float = Field(
        ge=0.0,
        le=CARBON_MAX,
        description="Of the grid now, g CO2/kWh; in the classic tasks the contract's own unit.",
    )
    carbon_if_wait: float = Field(
        ge=0.0, le=CARBON_MAX, description="Forecast for the hour that WAIT would book."
    )
    wait_h: float = Field(ge=0.0, le=HOURS_MAX, description="Hours until the hour that WAIT would book.")
    waiting: Whole = Field(
        ge=0,
        le=1_000,
        description="Held queries ahead of it from that hour on: each eight of them push it an hour further.",
    )
    cache_contents: tuple[str, ...] = Field(
        description="Ids in the cache: all of them in the classic tasks; in streams the earlier query that "
        "the nearest answer is of."
    )
    cache_similarity: float = Field(
        ge=0.0, le=1.0, description="Similarity of the nearest cached question; 0 when there is none."
    )
    cache_age_h: float = Field(ge=0.0, le=HOURS_MAX, description="Age of that cached answer, hours.")
    kb_available: bool = Field(description="The knowledge base found something that looks like an answer.")
    kb_age_h: float = Field(ge=0.0, le=HOURS_MAX, description="Hours since the knowledge base was refreshed.")
    model_load: PerModel = Field(description="Share of each model's capacity in use.")
    models_up: UpModels
    last_reward: float = Field(description="Reward of the step before; 0 at the start.")
    reward_breakdown: dict[str, float] = Field(description="Its signed terms; empty at the start.")


class RoutingConfig(BaseModel):
    """Where and when a stream runs; left out, the seed decides. Classic tasks take no config."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    region: RegionName | None = Field(
        default=None, description="Region whose grid feeds the fleet; in any case, accents or not."
    )
    start_hour: Annotated[int, Field(ge=0, le=23), BeforeValidator(whole_number)] | None = Field(
        default=None, description="Local hour at which the stream begins."
    )


class RoutingState(BaseModel):
    """Metadata of an episode; with the actions (and config) it reproduces the episode exactly."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    session_id: str = ""
    episode_id: str
    task_id: str
    seed: int = Field(ge=0)
    step_count: int = Field(ge=0)
    cumulative_reward: float
    done: bool
    region: str
    config: RoutingConfig
    correct: int = Field(ge=0, description="Queries answered correctly so far.")
    energy_wh: float = Field(
        ge=0.0, description="Energy so far, Wh; in the classic tasks the contract's unit."
    )
    co2_g: float = Field(
        ge=0.0, description="Carbon so far, g CO2; in the classic tasks the contract's unit."
    )
