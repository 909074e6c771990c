"""The objective of a market as a visitor may set it: weights of the reward, and constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import gradio as gr

from inferencegym.models.market import AVG_WAIT_MAX, AVG_WAIT_MIN, PRICE_LIMIT_HIGH, PRICE_LIMIT_LOW
from server.dashboard.typed import checked_number
from simulator.market.config import load_market

__all__ = ["Objective", "checked_objective", "objective_inputs", "objective_of"]

Objective = dict[str, dict[str, float]]
"""``{"weights": {...}, "constraints": {...}}``: what a run changes of the scenario's own."""


class _Field(NamedTuple):
    part: str
    name: str
    label: str
    low: float
    high: float


_FIELDS = (
    _Field("weights", "revenue", "Weight of revenue", 0.0, 1.0),
    _Field("weights", "low_wait_time", "Weight of short waits", 0.0, 1.0),
    _Field("weights", "fairness", "Weight of fairness", 0.0, 1.0),
    _Field("weights", "market_activity", "Weight of a live market", 0.0, 1.0),
    _Field("constraints", "min_price", "Lowest price (USD)", PRICE_LIMIT_LOW, PRICE_LIMIT_HIGH),
    _Field("constraints", "max_price", "Highest price (USD)", PRICE_LIMIT_LOW, PRICE_LIMIT_HIGH),
    _Field("constraints", "max_avg_wait", "Longest average wait (h)", AVG_WAIT_MIN, AVG_WAIT_MAX),
)


def objective_of(scenario: str) -> list[float]:
    """The scenario's own values, in the order of the inputs."""
    goal = load_market().objective_of(scenario).model_dump()
    return [goal[field.part][field.name] for field in _FIELDS]


def objective_inputs(scenario: str) -> list[Any]:
    """A number field for each value, folded away until it is opened."""
    values = objective_of(scenario)
    with gr.Accordion("Objective: weights of the reward and constraints", open=False), gr.Row():
        return [
            gr.Number(value, label=field.label, info=f"{field.low:g} to {field.high:g}", min_width=150)
            for field, value in zip(_FIELDS, values, strict=True)
        ]


def checked_objective(scenario: str, values: Sequence[Any]) -> Objective | None:
    """What a visitor typed that the scenario has not itself; None when nothing. Raises InferenceGymError."""
    typed: Objective = {}
    for field, own, value in zip(_FIELDS, objective_of(scenario), values, strict=True):
        number = checked_number(field.label, value, field.low, field.high)
        if number != own:
            typed.setdefault(field.part, {})[field.name] = number
    return typed or None
