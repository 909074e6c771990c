"""OpenEnv's wire models of an environment, and its rubric tree, generated from the registry's models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from openenv.core.env_server.types import Action, Observation, State
from openenv.core.rubrics.base import Rubric
from pydantic import BaseModel, Field, create_model

from inferencegym.models.base import construct
from server.bound import BoundEnv
from server.sessions.episodes import StepResult

__all__ = ["RewardRubric", "WireModels", "first_observation", "wire_models", "wire_observation"]


@dataclass(frozen=True, slots=True)
class WireModels:
    """Action, observation and state as OpenEnv's classes."""

    action: type[Action]
    observation: type[Observation]
    state: type[State]


def _without_metadata(action: Any) -> Any:
    if not isinstance(action, Mapping):
        return action
    fields = cast("Mapping[str, Any]", action)
    return {name: value for name, value in fields.items() if name != "metadata"}


def wire_models(bound: BoundEnv) -> WireModels:
    """Build the three classes. Learning signals are typed fields: OpenEnv's metadata may be dropped."""
    prefix = bound.spec.name.capitalize()

    class _Action(bound.action_model, Action):  # type: ignore[name-defined,misc]
        @classmethod
        def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
            """As REST's: OpenEnv's clients send their own ``metadata`` along, which is passed over, but it is
            no field of an action."""
            schema: dict[str, Any] = handler(core_schema)
            handler.resolve_ref_schema(schema).get("properties", {}).pop("metadata", None)
            return schema

        @classmethod
        def model_validate(cls, obj: Any, **_options: Any) -> Any:
            """Validate as REST does, so that both say the same about a bad action.

            pydantic's own error cannot be sent by OpenEnv when it carries an exception object.
            """
            return bound.parse_action(_without_metadata(obj))

    action = create_model(f"{prefix}Action", __base__=_Action, __doc__=bound.action_model.__doc__)
    observation: Any = create_model(
        f"{prefix}Observation",
        __base__=(bound.observation_model, Observation),
        __doc__=bound.observation_model.__doc__,
        terminated=(bool, Field(False, description="The episode ended by what happened in it.")),
        truncated=(bool, Field(False, description="The episode ended because its length was reached.")),
        info=(
            dict[str, Any],
            Field(
                default_factory=dict,
                description="After a step as in a REST /step reply; after a reset task_id, seed, episode_id "
                "and episode_length.",
            ),
        ),
    )
    state: Any = create_model(
        f"{prefix}State", __base__=(bound.state_model, State), __doc__=bound.state_model.__doc__
    )
    return WireModels(action, observation, state)


class _TermRubric(Rubric):
    """One named term of the reward, as the environment computed it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def forward(self, action: Any, observation: Any) -> float:
        return float(observation.info["reward_terms"][self._name])


class RewardRubric(Rubric):
    """The reward; its children are the terms that sum to it (RFC 004)."""

    def __init__(self, terms: tuple[str, ...]) -> None:
        super().__init__()
        for name in terms:
            setattr(self, name, _TermRubric(name))
        # Attributes of every rubric as plain mappings: Rubric's own assignment looks at each value's type.
        self._states = (("", vars(self)), *((name, vars(self.get_rubric(name))) for name in terms))

    def forward(self, action: Any, observation: Any) -> float:
        for term in self.children():
            term(action, observation)
        # The environment's own sum, bit for bit.
        return float(observation.reward)

    def score(self, action: Any, observation: Any) -> None:
        """Evaluate the tree for its ``last_score`` values and hooks.

        Without a hook nothing is called: the values are known, and OpenEnv's calling protocol costs more
        than the rest of a step's bookkeeping.
        """
        values = observation.info["reward_terms"]
        for name, state in self._states:
            if state["_forward_hooks"] or state["_forward_pre_hooks"]:
                self(action, observation)
                return
            state["last_score"] = values[name] if name else observation.reward


def wire_observation(models: WireModels, result: StepResult) -> Observation:
    """A step's result as OpenEnv sends it. Its values are valid already, so nothing is checked again."""
    return construct(
        models.observation,
        {
            **result.observation.__dict__,
            "reward": result.reward,
            "done": result.done,
            "terminated": result.terminated,
            "truncated": result.truncated,
            "info": result.info,
            "metadata": {},
        },
    )


def first_observation(models: WireModels, observation: BaseModel, info: dict[str, Any]) -> Observation:
    """What a reset returns."""
    # An environment's own model may have some of these fields too.
    values: dict[str, Any] = {
        **observation.__dict__,
        "reward": None,
        "done": False,
        "terminated": False,
        "truncated": False,
        "info": info,
        "metadata": {},
    }
    return models.observation.model_construct(**values)
