"""What a person can set in an action: knobs read off the action model's JSON schema, for any environment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, cast

from pydantic import BaseModel

from agents.llm.task_text import action_schema
from env.protocols import TaskInfo
from inferencegym.errors import InferenceGymError
from server.bound import BoundEnv
from server.dashboard.wording import number, titled

__all__ = ["Form", "Group", "Knob", "form_of", "option_label"]

STEPS_OF_A_SLIDER = 80
"""At least so many, so that the step is a power of ten and a value can still be hit."""

Schema = Mapping[str, Any]
Value = str | float | int | bool | None


@dataclass(frozen=True, slots=True)
class Knob:
    """A field of the action.

    Args:
        name: of the field.
        kind: ``slider`` for a number with bounds, ``number`` for one without, ``choice``, ``flag``.
        default: value of the field when it is left out; None for an optional one.
        optional: leaving it out means something of its own.
        help: the model's description.
        low, high, step: of a number.
        whole: whole numbers only.
        options: of a choice.
    """

    name: str
    kind: Literal["slider", "number", "choice", "flag"]
    default: Value
    optional: bool
    help: str
    low: float | None = None
    high: float | None = None
    step: float = 1.0
    whole: bool = False
    options: tuple[Value, ...] = ()

    @property
    def label(self) -> str:
        """Name, and the range of a number."""
        name = titled(self.name)
        if self.kind != "slider" or self.low is None or self.high is None:
            return name
        return f"{name} ({number(self.low)} to {number(self.high)})"

    @property
    def info(self) -> str:
        """What it does, and what it is when nobody touches it."""
        if self.kind == "flag":
            return self.help
        default = "left out" if self.default is None else option_label(self.default)
        return f"{self.help} Default: {default}.".strip()

    def at(self, observation: BaseModel) -> Knob:
        """The knob with the bounds in force: the observation's ``min_NAME`` and ``max_NAME``, if any."""
        low: float | None = getattr(observation, f"min_{self.name}", self.low)
        high: float | None = getattr(observation, f"max_{self.name}", self.high)
        if low is None or high is None:
            return self
        step = 1.0 if self.whole else _step(high - low)
        return replace(self, kind="slider", low=low, high=high, step=step)

    def current(self, observation: BaseModel) -> Value:
        """What the observation shows under the same words (``replicas_target`` for ``target_replicas``)."""
        words = sorted(self.name.split("_"))
        for name in type(observation).model_fields:
            if sorted(name.split("_")) == words:
                value: Any = getattr(observation, name)
                return value if isinstance(value, (int, float)) else None
        return None

    def initial(self, observation: BaseModel) -> Value:
        """Where it stands when an episode starts: its default, or where the episode stands."""
        if self.default is not None:
            return self.default
        if self.kind not in ("slider", "number"):
            return self.options[0] if self.options else False
        current = self.current(observation)
        if current is not None:
            return current
        # Of a change, for example, none.
        return 0.0 if self.low is None or self.low < 0.0 else self.low


@dataclass(frozen=True, slots=True)
class Group:
    """Knobs of which an action sets one: fields that exclude each other, or a field that may be left out."""

    knobs: tuple[Knob, ...]

    @property
    def nothing(self) -> bool:
        """All of them may be left out."""
        return all(knob.optional for knob in self.knobs)

    @property
    def chosen(self) -> bool:
        """A person must say which of them is set."""
        first, *others = self.knobs
        return bool(others) or first.optional

    def initial(self, observation: BaseModel) -> str:
        """Name of the knob that is set at the start, "" for none: one that changes nothing as it stands."""
        first, *_ = self.knobs
        return first.name if not first.optional or first.current(observation) is not None else ""


@dataclass(frozen=True, slots=True)
class Form:
    """All knobs of an environment's action."""

    groups: tuple[Group, ...]

    def opened(self, task: TaskInfo) -> tuple[Group, ...]:
        """The groups of what the task leaves open."""
        kept = (
            tuple(knob for knob in group.knobs if knob.name in task.active_actions) for group in self.groups
        )
        return tuple(Group(knobs) for knobs in kept if knobs)


def form_of(bound: BoundEnv) -> Form:
    """The knobs of an environment's action model. Free text is left out: it has no effect on an episode."""
    schema = action_schema(bound.spec)
    definitions: Schema = schema.get("$defs", {})
    required: Sequence[str] = schema.get("required", ())
    read = (
        _knob(name, field, definitions, required=name in required)
        for name, field in cast("Mapping[str, Schema]", schema["properties"]).items()
    )
    return Form(tuple(Group(knobs) for knobs in _grouped(bound, [knob for knob in read if knob])))


def option_label(value: Any) -> str:
    """A value of a choice as people read it; names in capitals stay as they are."""
    if isinstance(value, str):
        return value if value.isupper() else value.replace("_", " ")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, (int, float)) else str(value)


def _knob(name: str, field: Schema, definitions: Schema, *, required: bool) -> Knob | None:
    parts = _parts(field, definitions)
    optional = any(part.get("type") == "null" for part in parts)
    parts = [part for part in parts if part.get("type") != "null"]
    default: Value = field.get("default")
    text = str(field.get("description", ""))
    choices = [tuple(part["enum"]) for part in parts if "enum" in part]
    if choices:
        options, default = _options(choices, default)
        return Knob(name, "choice", default, optional, text, options=options)
    if len(parts) != 1:
        return None
    part = parts[0]
    kind = part.get("type")
    if kind == "boolean":
        return Knob(name, "flag", default, optional, text)
    if kind in ("integer", "number"):
        return _number(name, part, default, text, optional=optional, needed=required)
    return None


def _number(name: str, part: Schema, default: Value, text: str, *, optional: bool, needed: bool) -> Knob:
    low: float | None = part.get("minimum", part.get("exclusiveMinimum"))
    high: float | None = part.get("maximum", part.get("exclusiveMaximum"))
    whole = part["type"] == "integer"
    if default is None and needed:
        default = low if low is not None else 0
    if low is None or high is None:
        return Knob(name, "number", default, optional, text, low, high, whole=whole)
    step = 1.0 if whole else _step(high - low)
    return Knob(name, "slider", default, optional, text, low, high, step, whole)


def _step(span: float) -> float:
    return 10.0 ** math.floor(math.log10(span / STEPS_OF_A_SLIDER))


def _options(choices: Sequence[tuple[Value, ...]], default: Value) -> tuple[tuple[Value, ...], Value]:
    """Of several ways to spell the same values the one with names; the default in the same spelling."""
    named = next((options for options in choices if isinstance(options[0], str)), choices[0])
    for options in choices:
        if default in options and len(options) == len(named):
            return named, named[options.index(default)]
    return named, default


def _parts(field: Schema, definitions: Schema) -> list[Schema]:
    """What a field may be, references and unions resolved."""
    if "$ref" in field:
        return _parts(definitions[field["$ref"].rpartition("/")[2]], definitions)
    unions: Sequence[Schema] = field.get("anyOf", field.get("allOf", ()))
    return [part for union in unions for part in _parts(union, definitions)] if unions else [field]


def _grouped(bound: BoundEnv, knobs: Sequence[Knob]) -> list[tuple[Knob, ...]]:
    """Knobs that the model refuses together stand together. A schema cannot say so; the model is asked."""
    groups: list[list[Knob]] = [[knob] for knob in knobs]
    for one, other in combinations(knobs, 2):
        a, b = ({knob.name: _moved(knob)} for knob in (one, other))
        if _takes(bound, a) and _takes(bound, b) and not _takes(bound, {**a, **b}):
            first = next(group for group in groups if one in group)
            second = next(group for group in groups if other in group)
            if first is not second:
                first.extend(second)
                groups.remove(second)
    return [tuple(group) for group in groups]


def _moved(knob: Knob) -> Value:
    """A value of the knob other than its default."""
    if knob.kind == "flag":
        return not knob.default
    if knob.kind == "choice":
        return next((option for option in knob.options if option != knob.default), knob.options[0])
    ends = [end for end in (knob.low, knob.high) if end is not None and end != knob.default]
    value = ends[0] if ends else 1.0
    return int(value) if knob.whole else value


def _takes(bound: BoundEnv, values: Mapping[str, Value]) -> bool:
    try:
        bound.parse_action(values)
    except InferenceGymError:
        return False
    return True
