"""The knobs of an action as components of the page, made once for each environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr
from pydantic import BaseModel

from env.protocols import TaskInfo
from server.bound import BoundEnv
from server.dashboard.play.form import Group, Knob, form_of, option_label
from server.dashboard.wording import titled

__all__ = ["ActionControls"]

RADIO_MOST = 6
"""More options go into a list that opens."""

WHICH, NOTHING = "Set one of these", ""


class ActionControls:
    """Knobs of one environment, shown and hidden by what the task opens.

    Args:
        bound: the environment.
    """

    def __init__(self, bound: BoundEnv) -> None:
        self._form = form_of(bound)
        self._choices: list[tuple[Group, gr.Radio]] = []
        self._knobs: dict[str, Any] = {}
        with gr.Column(visible=False, elem_classes="ig-play-knobs") as self._box:
            for group in self._form.groups:
                self._build(group)

    @property
    def components(self) -> list[Any]:
        """Inputs and outputs of whoever reads or moves the knobs."""
        return [self._box, *self.inputs]

    @property
    def inputs(self) -> list[Any]:
        """The components that hold a value."""
        return [*(choice for _, choice in self._choices), *self._knobs.values()]

    def closed(self) -> dict[Any, Any]:
        """Updates that hide them all."""
        return {self._box: gr.update(visible=False)}

    def opened(self, task: TaskInfo, observation: BaseModel) -> dict[Any, Any]:
        """Updates that show the task's knobs where the episode stands."""
        updates: dict[Any, Any] = {self._box: gr.update(visible=True)}
        for component in self.inputs:
            updates[component] = gr.update(visible=False)
        for group in self._form.opened(task):
            choice = self._choice_of(group)
            set_one = group.initial(observation)
            if choice is not None:
                updates[choice] = gr.update(choices=_alternatives(group), value=set_one, visible=True)
            for knob in group.knobs:
                shown = choice is None or knob.name == set_one
                updates[self._knobs[knob.name]] = _standing(knob, observation, shown=shown)
        return updates

    def followed(self, task: TaskInfo, observation: BaseModel, given: Mapping[Any, Any]) -> dict[Any, Any]:
        """Updates of knobs that are not set: they follow what is observed, so as to begin there."""
        updates: dict[Any, Any] = {}
        for group in self._form.opened(task):
            choice = self._choice_of(group)
            if choice is None:
                continue
            for knob in group.knobs:
                current = knob.current(observation) if knob.optional else None
                if current is not None and given[choice] != knob.name:
                    updates[self._knobs[knob.name]] = gr.update(value=current)
        return updates

    def values(self, task: TaskInfo, given: Mapping[Any, Any]) -> dict[str, Any]:
        """The action that the knobs stand for."""
        values: dict[str, Any] = {}
        for group in self._form.opened(task):
            choice = self._choice_of(group)
            for knob in group.knobs:
                if choice is None or given[choice] == knob.name:
                    values[knob.name] = _whole(knob, given[self._knobs[knob.name]])
        return values

    def _build(self, group: Group) -> None:
        alternatives = _alternatives(group)
        choice = gr.Radio(alternatives, value=alternatives[0][1], label=WHICH) if group.chosen else None
        for knob in group.knobs:
            self._knobs[knob.name] = _component(knob)
        if choice is not None:
            self._choices.append((group, choice))
            _show_chosen(choice, {knob.name: self._knobs[knob.name] for knob in group.knobs})

    def _choice_of(self, group: Group) -> gr.Radio | None:
        name = group.knobs[0].name
        for whole, choice in self._choices:
            if any(knob.name == name for knob in whole.knobs):
                return choice
        return None


def _show_chosen(choice: gr.Radio, members: Mapping[str, Any]) -> None:
    def show(chosen: str) -> Any:
        updates = [gr.update(visible=name == chosen) for name in members]
        return updates if len(updates) > 1 else updates[0]

    choice.input(show, choice, list(members.values()), show_progress="hidden", api_visibility="private")


def _alternatives(group: Group) -> list[tuple[str, str]]:
    named = [(titled(knob.name), knob.name) for knob in group.knobs]
    return [*named, ("Nothing", NOTHING)] if group.nothing else named


def _component(knob: Knob) -> Any:
    if knob.kind == "flag":
        return gr.Checkbox(bool(knob.default), label=knob.label, info=knob.info)
    if knob.kind == "choice":
        make = gr.Radio if len(knob.options) <= RADIO_MOST else gr.Dropdown
        options: list[Any] = [(option_label(value), value) for value in knob.options]
        return make(options, value=knob.default, label=knob.label, info=knob.info)
    if knob.kind == "number":
        return gr.Number(_start(knob), label=knob.label, info=knob.info)
    assert knob.low is not None
    assert knob.high is not None
    return gr.Slider(
        knob.low, knob.high, value=_start(knob), step=knob.step, label=knob.label, info=knob.info, buttons=[]
    )


def _start(knob: Knob) -> float:
    return float(knob.default) if isinstance(knob.default, (int, float)) else (knob.low or 0.0)


def _standing(knob: Knob, observation: BaseModel, *, shown: bool) -> Any:
    value = knob.initial(observation)
    if knob.kind == "slider":
        knob = knob.at(observation)
        return gr.update(
            value=value,
            minimum=knob.low,
            maximum=knob.high,
            step=knob.step,
            label=knob.label,
            visible=shown,
        )
    return gr.update(value=value, visible=shown)


def _whole(knob: Knob, value: Any) -> Any:
    """Numbers come as floats: 32.0 is meant as 32. A fraction is left for the model to refuse."""
    return int(value) if knob.whole and isinstance(value, float) and value.is_integer() else value
