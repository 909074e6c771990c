"""The registry: the one shared file that a new environment touches.

An :class:`EnvSpec` names the parts of an environment by lazy ``"module:attribute"`` entry points, so that
this module stays at the bottom of the import order and naming an environment costs nothing. Server, CLI,
gymnasium adapters and dashboard know environments only through it.

What each entry point must be (see ``env/protocols.py`` for the exact types):

- ``make_env``: ``(task_id, seed=42, config=None) -> Episode``.
- ``tasks``: mapping of task id to a ``TaskInfo``, in order of difficulty.
- ``grader``: object with ``grade_log(task_id, log)`` and ``grade_replay(task_id, seed, actions, config)``.
- ``action_model`` / ``observation_model`` / ``state_model`` / ``config_model``: pydantic models.
- ``agents``: mapping of agent name to a factory ``(task_id, seed) -> Agent``.
- ``info``: callable returning the environment's part of GET /info.
- ``view``: a ``server.dashboard.views.view.View``; may be left out.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from typing import Any

from inferencegym.errors import InvalidValueError, UnknownNameError

__all__ = ["EnvSpec", "TaskName", "all_specs", "get_spec", "load", "register"]

TaskName = str | int
"""How a caller may name a task: id or alias as text in any case, or its number."""


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """One environment. Everything ending in ``_model``, and ``make_env`` to ``info``, is a lazy entry
    point."""

    id: str
    mount: str
    title: str
    description: str
    version: str
    action_model: str
    observation_model: str
    state_model: str
    config_model: str
    make_env: str
    tasks: str
    grader: str
    agents: str
    info: str
    reward_range: tuple[float, float] = (-1.0, 1.0)
    """Bounds of a step's reward."""
    view: str = ""
    """What the page at /web draws; without one, every number that is observed."""

    def __post_init__(self) -> None:
        if self.mount and not (self.mount.startswith("/") and self.mount.strip("/")):
            raise InvalidValueError("mount", self.mount, "'' or a path like '/name'")

    @property
    def name(self) -> str:
        """Short name: ``serving`` for ``InferenceGym/Serving-v0``."""
        return self.id.rpartition("/")[2].partition("-v")[0].lower()

    def part(self, name: str) -> Any:
        """Import and return the object behind an entry-point field, for example ``part("make_env")``."""
        if name not in {f.name for f in fields(self)}:
            raise UnknownNameError("EnvSpec field", name, [f.name for f in fields(self)])
        return load(getattr(self, name))


@cache
def load(entry_point: str) -> Any:
    """Import ``"module:attribute"``. The result is kept."""
    module, _, attribute = entry_point.partition(":")
    return getattr(import_module(module), attribute)


_SPECS: dict[str, EnvSpec] = {}


def register(spec: EnvSpec) -> EnvSpec:
    """Add an environment; its id and mount must be new."""
    if spec.id in _SPECS:
        raise InvalidValueError("id", spec.id, "an id that is not registered yet")
    if spec.mount in {s.mount for s in _SPECS.values()}:
        raise InvalidValueError("mount", spec.mount, "a mount that no environment has yet")
    _SPECS[spec.id] = spec
    return spec


def unregister(env_id: str) -> None:
    """Remove an environment (used by tests that register a temporary one)."""
    _SPECS.pop(get_spec(env_id).id)


def all_specs() -> tuple[EnvSpec, ...]:
    """All environments, in order of registration."""
    return tuple(_SPECS.values())


def get_spec(env_id: str) -> EnvSpec:
    """The environment with this id or short name.

    Raises:
        UnknownNameError: no such environment; lists near matches.
    """
    for spec in _SPECS.values():
        if env_id in (spec.id, spec.name):
            return spec
    raise UnknownNameError("environment", env_id, [*_SPECS, *(s.name for s in _SPECS.values())])


SERVING = register(
    EnvSpec(
        id="InferenceGym/Serving-v0",
        mount="",
        title="Serving control",
        description="Tune one LLM inference engine's five knobs every second while traffic changes.",
        version="0.1.0",
        action_model="inferencegym.models.serving:ServeAction",
        observation_model="inferencegym.models.serving:ServeObservation",
        state_model="inferencegym.models.serving:EpisodeState",
        config_model="inferencegym.models.serving:RewardConfig",
        make_env="env.serving.episode:make_env",
        tasks="env.serving.tasks:ALL_TASKS",
        grader="grader.serving.grader:GRADER",
        agents="agents.serving.agents:AGENTS",
        info="env.serving.episode:describe",
        view="server.dashboard.views.serving:VIEW",
    )
)

AUTOSCALING = register(
    EnvSpec(
        id="InferenceGym/Autoscaling-v0",
        mount="/autoscaling",
        title="Autoscaling",
        description="Decide every 15 seconds how many replicas of an LLM service run.",
        version="0.1.0",
        action_model="inferencegym.models.autoscaling:AutoscalingAction",
        observation_model="inferencegym.models.autoscaling:AutoscalingObservation",
        state_model="inferencegym.models.autoscaling:AutoscalingState",
        config_model="inferencegym.models.autoscaling:AutoscalingConfig",
        make_env="env.autoscaling.episode:make_env",
        tasks="env.autoscaling.tasks:TASKS",
        grader="grader.autoscaling.grader:GRADER",
        agents="agents.autoscaling.agents:AGENTS",
        info="env.autoscaling.info:describe",
        view="server.dashboard.views.autoscaling:VIEW",
        reward_range=(-1.0, 0.5),
    )
)

ROUTING = register(
    EnvSpec(
        id="InferenceGym/Routing-v0",
        mount="/routing",
        title="Carbon-aware routing",
        description="Decide which model answers each query and when, or whether a cache does.",
        version="0.1.0",
        action_model="inferencegym.models.routing:RoutingAction",
        observation_model="inferencegym.models.routing:RoutingObservation",
        state_model="inferencegym.models.routing:RoutingState",
        config_model="inferencegym.models.routing:RoutingConfig",
        make_env="env.routing.episode:make_env",
        tasks="env.routing.tasks:TASKS",
        grader="grader.routing.grader:GRADER",
        agents="agents.routing.agents:AGENTS",
        info="env.routing.episode:describe",
        view="server.dashboard.views.routing:VIEW",
        # The classic tasks keep their own arithmetic: a cache hit gives 1.5, a vain cascade less than −1.
        reward_range=(-2.0, 1.5),
    )
)

MARKET = register(
    EnvSpec(
        id="InferenceGym/Market-v0",
        mount="/market",
        title="Market",
        description="Set the price of GPU capacity every hour while price-sensitive customers come and go.",
        version="0.1.0",
        action_model="inferencegym.models.market:PriceAction",
        observation_model="inferencegym.models.market:MarketObservation",
        state_model="inferencegym.models.market:MarketState",
        config_model="inferencegym.models.market:MarketConfig",
        make_env="env.market.episode:make_env",
        tasks="env.market.tasks:TASKS",
        grader="grader.market.grader:GRADER",
        agents="agents.market.agents:AGENTS",
        info="env.market.episode:describe",
        view="server.dashboard.views.market:VIEW",
    )
)
