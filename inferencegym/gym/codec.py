"""Between an environment's typed models and the vectors that learning libraries want.

A :class:`GymCodec` is two tables. *Features* say how numbers of the observation model become entries of a
float32 vector inside finite bounds; *knobs* say how entries of an action become fields of the action model.
Environments join with one module ``inferencegym/gym/NAME/codec.py`` that holds a ``CODEC``; one without such
a module gets a codec made from its schemas (:mod:`inferencegym.gym.schema_codec`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log
from operator import attrgetter
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from pydantic import BaseModel, ValidationError

from inferencegym.errors import InvalidValueError, UnknownNameError
from inferencegym.gym.knobs import Knob
from inferencegym.models.base import construct

__all__ = ["ACTION_MODES", "ActionMode", "Feature", "GymCodec", "Panel", "encode_row"]

FloatVector = npt.NDArray[np.float32]
ActionMode = Literal["flat", "dict", "multidiscrete"]
ACTION_MODES: tuple[ActionMode, ...] = ("flat", "dict", "multidiscrete")

LINEAR, LOG, TREND = range(3)
_SCALES = {"linear": LINEAR, "log": LOG, "trend": TREND}


@dataclass(frozen=True, slots=True)
class Feature:
    """One entry of the observation vector, made from the number x at ``source`` (a dotted path).

    - ``linear``: (x − low) / (high − low), in [0, 1];
    - ``log``: ln(1 + (x − low) / unit) / ln(1 + (high − low) / unit), in [0, 1]; ``unit`` is where the scale
      turns from linear to logarithmic;
    - ``trend``: (x − p) / (x + p), in [-1, 1], where p is x one step ago (0 at the first observation).

    Values outside [low, high] are held at the bound.
    """

    name: str
    source: str
    low: float = 0.0
    high: float = 1.0
    scale: Literal["linear", "log", "trend"] = "linear"
    unit: float = 1.0

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the entry."""
        return (-1.0, 1.0) if self.scale == "trend" else (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Panel:
    """One curve of the rendered chart: a key of ``info["metrics"]``, or "reward"."""

    key: str
    label: str
    log: bool = False


def encode_row(
    values: Any, previous: Any, scale: Any, source: Any, low: Any, factor: Any, norm: Any, out: Any
) -> None:
    """Fill ``out`` from the numbers of one observation and those of the one before (see :class:`Feature`).

    Plain arithmetic over sequences: the vector environment runs a compiled copy of this source.
    ``scale`` to ``norm`` are the columns of :func:`feature_columns`.
    """
    columns = zip(scale, source, low, factor, norm)  # noqa: B905 - compiled code knows no strict
    for index, (kind, column, start, slope, span) in enumerate(columns):
        value = values[column]
        if kind == LINEAR:
            entry = (value - start) * slope if value > start else 0.0
        elif kind == LOG:
            entry = log(1.0 + (value - start) * slope) * span if value > start else 0.0
        else:
            before = previous[column]
            total = value + before
            entry = (value - before) / total if total > 0.0 else 0.0
        out[index] = entry if entry < 1.0 else 1.0  # noqa: FURB136 - a call takes longer


class GymCodec:
    """Observation vectors and action spaces of one environment.

    Args:
        action_model: what ``decode`` makes.
        features: entries of the observation vector, in order.
        knobs: one for each field of the action model that an agent may set, in the order of the flat action.
        panels: curves that ``render`` draws.
    """

    def __init__(
        self,
        action_model: type[BaseModel],
        features: Sequence[Feature],
        knobs: Sequence[Knob],
        panels: Sequence[Panel] = (Panel("reward", "reward"),),
    ) -> None:
        self.action_model = action_model
        self.features = tuple(features)
        self.knobs = tuple(knobs)
        self.panels = tuple(panels)
        self.sources = tuple(dict.fromkeys(feature.source for feature in features))
        read = cast("Callable[[Any], Any]", attrgetter(*self.sources))
        # With one path attrgetter gives the bare value.
        self.read: Callable[[Any], Sequence[float]] = (
            read if len(self.sources) > 1 else lambda model: (read(model),)
        )
        self.columns = feature_columns(self.features, self.sources)
        self._complete = [knob.name for knob in self.knobs] == list(action_model.model_fields)
        self._row = [0.0] * len(self.features)
        self._spaces = {mode: _action_space(mode, self.knobs) for mode in ACTION_MODES}

    @property
    def observation_names(self) -> tuple[str, ...]:
        """Name of each entry of the observation vector."""
        return tuple(feature.name for feature in self.features)

    def observation_space(self) -> spaces.Box:
        """float32 vector with finite bounds."""
        low, high = zip(*(feature.bounds for feature in self.features), strict=True)
        return spaces.Box(np.asarray(low, dtype=np.float32), np.asarray(high, dtype=np.float32))

    def encode(self, values: Sequence[float], previous: Sequence[float]) -> FloatVector:
        """Observation vector of the numbers that ``read`` gave now and one step ago."""
        row = self._row
        encode_row(values, previous, *self.columns, row)
        return np.array(row, dtype=np.float32)

    def action_space(self, mode: str) -> spaces.Space[Any]:
        """A fresh action space.

        - ``flat``: Box [-1, 1], one entry a knob; entries beyond it are held at the bound;
        - ``dict``: Dict with one space a knob, in the knob's own units;
        - ``multidiscrete``: MultiDiscrete, each knob on its grid of levels.

        Raises:
            UnknownNameError: no such mode.
        """
        if mode not in ACTION_MODES:
            raise UnknownNameError("action_mode", mode, ACTION_MODES)
        return _action_space(mode, self.knobs)

    def decode(self, mode: ActionMode, action: Any) -> BaseModel:
        """The action model for an element of ``action_space(mode)``.

        Raises:
            InvalidValueError: not an element of that space (flat entries beyond [-1, 1] are held at it).
        """
        try:
            values = _DECODERS[mode](self.knobs, action)
        except InvalidValueError:
            raise
        except (TypeError, ValueError, IndexError, KeyError, OverflowError) as error:
            raise InvalidValueError("action", action, f"an element of {self._spaces[mode]}") from error
        if self._complete and mode != "dict":
            return construct(self.action_model, values)  # knobs keep within the model's bounds
        try:
            return self.action_model(**values)
        except ValidationError as error:
            detail = error.errors()[0]
            field = ".".join(["action", *(str(part) for part in detail["loc"])])
            raise InvalidValueError(field, detail.get("input"), detail["msg"]) from None

    def action_mask(self, active: Iterable[str]) -> npt.NDArray[np.int8]:
        """1 for each knob that a task opens, 0 for each that it holds at its default. Read-only."""
        free = set(active)
        mask = np.asarray([knob.name in free for knob in self.knobs], dtype=np.int8)
        mask.setflags(write=False)
        return mask

    def level_masks(self, active: Iterable[str]) -> tuple[npt.NDArray[np.int8], ...]:
        """Allowed levels of each knob in mode ``multidiscrete``: a locked knob keeps one, its default's."""
        free = set(active)
        masks: list[npt.NDArray[np.int8]] = []
        for knob in self.knobs:
            allowed = np.full(len(knob.levels), 1 if knob.name in free else 0, dtype=np.int8)
            allowed[knob.default_level] = 1
            masks.append(allowed)
        return tuple(masks)

    def sample_mask(self, mode: str, active: Iterable[str]) -> Any:
        """What ``action_space(mode).sample(mask=…)`` takes: never samples a locked knob away from its
        default. Box spaces know no masks: None there, and any value of a locked knob is ignored."""
        if mode == "multidiscrete":
            return self.level_masks(active)
        if mode == "dict":
            masks = dict(zip((knob.name for knob in self.knobs), self.level_masks(active), strict=True))
            return {knob.name: masks[knob.name] if knob.kind == "choice" else None for knob in self.knobs}
        return None


Column = list[Any]


def feature_columns(
    features: Sequence[Feature], sources: Sequence[str]
) -> tuple[Column, Column, Column, Column, Column]:
    """The table of features as the columns that :func:`encode_row` takes."""
    scale = [_SCALES[feature.scale] for feature in features]
    source = [sources.index(feature.source) for feature in features]
    low = [float(feature.low) for feature in features]
    factor = [
        1.0 / (feature.unit if feature.scale == "log" else feature.high - feature.low) for feature in features
    ]
    norm = [1.0 / log(1.0 + (feature.high - feature.low) / feature.unit) for feature in features]
    return scale, source, low, factor, norm


def _action_space(mode: ActionMode, knobs: Sequence[Knob]) -> spaces.Space[Any]:
    if mode == "flat":
        return spaces.Box(-1.0, 1.0, (len(knobs),), np.float32)
    if mode == "dict":
        return spaces.Dict({knob.name: knob.space() for knob in knobs})
    return spaces.MultiDiscrete([len(knob.levels) for knob in knobs])


def _from_flat(knobs: Sequence[Knob], action: Any) -> dict[str, Any]:
    entries = action.tolist() if isinstance(action, np.ndarray) else np.asarray(action).tolist()
    return {knob.name: knob.from_flat(entry) for knob, entry in zip(knobs, entries, strict=True)}


def _from_dict(knobs: Sequence[Knob], action: Any) -> dict[str, Any]:
    if len(action) != len(knobs):
        raise KeyError("knobs")
    return {knob.name: knob.from_space(action[knob.name]) for knob in knobs}


def _from_levels(knobs: Sequence[Knob], action: Any) -> dict[str, Any]:
    entries = action.tolist() if isinstance(action, np.ndarray) else np.asarray(action).tolist()
    return {knob.name: knob.from_level(entry) for knob, entry in zip(knobs, entries, strict=True)}


_DECODERS: dict[str, Callable[[Sequence[Knob], Any], dict[str, Any]]] = {
    "flat": _from_flat,
    "dict": _from_dict,
    "multidiscrete": _from_levels,
}
