"""Play: a person turns the knobs, sees what comes of it, and is graded beside the environment's own agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import gradio as gr

from env.protocols import TaskInfo
from inferencegym.errors import InferenceGymError
from server.bound import DEFAULT_SEED, BoundEnv
from server.dashboard.components import environment_field
from server.dashboard.message import NO_MESSAGE, message, sentence
from server.dashboard.play.controls import ActionControls
from server.dashboard.play.episode import Played
from server.dashboard.play.text import consequence, grade_text, observation_text, task_text
from server.dashboard.player import player
from server.dashboard.typed import seed_field, typed_seed

__all__ = ["play_tab"]

AT_ONCE = 8
"""Visitors whose step is computed at the same time; the next one waits some milliseconds."""

KEPT_S = 3600
"""An episode that nobody has touched for so long is given up."""

_PLAIN: dict[str, Any] = {"apply_default_css": False, "elem_classes": "ig-play-text"}
"""Options of text that brings its own style."""

GONE = (
    "Your episode is no longer kept: the server was restarted, you pressed nothing for an hour, or many "
    "others came. Press Start; the same task and seed bring the same traffic again."
)


def play_tab(bound: BoundEnv, bounds: Sequence[BoundEnv]) -> None:
    """Builds the tab.

    Args:
        bound: environment shown first.
        bounds: all environments.
    """
    _PlayTab(bound, bounds).connect()


class _PlayTab:
    """The components of the tab. They are the same for all visitors; a visitor's episode is in ``state``."""

    def __init__(self, bound: BoundEnv, bounds: Sequence[BoundEnv]) -> None:
        self.bounds = {each.spec.id: each for each in bounds}
        first = bound.task(bound.first_task)
        self.state = gr.State(None, time_to_live=KEPT_S)
        with gr.Row(elem_classes="ig-play-choose"):
            self.environment = environment_field([each.spec for each in bounds], bound.spec)
            self.task = gr.Dropdown(
                _tasks(bound), value=first.id, label="Task", min_width=220, allow_custom_value=True
            )
            self.seed = seed_field(DEFAULT_SEED, min_width=110)
            self.start = gr.Button("Start", variant="primary", min_width=120)
        self.about = gr.HTML(task_text(bound.spec, first), **_PLAIN)
        self.said = gr.HTML(NO_MESSAGE, **_PLAIN)
        with gr.Row(visible=False, elem_classes="ig-play-area") as self.area:
            with gr.Column(scale=2, min_width=320):
                self.controls = {each.spec.id: ActionControls(each) for each in bounds}
                with gr.Row(elem_classes="ig-play-go"):
                    self.one = gr.Button("Next step", variant="primary", min_width=90)
                    self.ten = gr.Button("Next 10 steps", min_width=90)
                    self.rest = gr.Button("To the end", min_width=90)
                    self.stop = gr.Button("Grade so far", min_width=90)
                self.refused = gr.HTML(NO_MESSAGE, **_PLAIN)
                self.grade = gr.HTML(**_PLAIN)
                self.consequence = gr.HTML(**_PLAIN)
                self.observation = gr.HTML(**_PLAIN)
            with gr.Column(scale=3, min_width=320):
                self.player = player()

    def connect(self) -> None:
        """Attach what the buttons do."""
        quick: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        work: dict[str, Any] = {**quick, "concurrency_limit": AT_ONCE, "concurrency_id": "play"}
        self.environment.input(self._tasks_of, self.environment, [self.task, self.about], **quick)
        self.task.input(self._about, [self.environment, self.task], self.about, **quick)
        knobs = [knob for controls in self.controls.values() for knob in controls.inputs]
        shown = [self.said, self.refused, self.consequence, self.observation, self.grade, self.player]
        buttons = [self.one, self.ten, self.rest, self.stop]
        everything = [
            self.state,
            self.area,
            *shown,
            *buttons,
            *(each for controls in self.controls.values() for each in controls.components),
        ]
        start: set[Any] = {self.environment, self.task, self.seed}
        for begin in (self.start.click, self.seed.submit):
            begin(self._start, start, everything, **work)
        for button, most in ((self.one, 1), (self.ten, 10), (self.rest, None)):
            button.click(
                partial(self._go, most), {self.state, *knobs}, [self.state, *shown, *buttons, *knobs], **work
            )
        self.stop.click(self._grade, {self.state}, [self.state, *shown], **work)

    # What the buttons do

    def _tasks_of(self, env_id: str) -> tuple[Any, Any]:
        bound = self.bounds[env_id]
        return gr.update(choices=_tasks(bound), value=bound.first_task), self._about(env_id, bound.first_task)

    def _about(self, env_id: str, task_id: str) -> str:
        bound = self.bounds[env_id]
        try:
            return task_text(bound.spec, bound.task(task_id))
        except InferenceGymError:
            return ""  # Start says what is wrong with it

    def _start(self, given: Mapping[Any, Any]) -> dict[Any, Any]:
        bound = self.bounds[given[self.environment]]
        try:
            played = Played(bound, given[self.task], typed_seed(given[self.seed]))
        except InferenceGymError as error:
            return {self.said: message(error), self.refused: NO_MESSAGE}
        updates: dict[Any, Any] = {}
        for controls in self.controls.values():
            updates |= controls.closed()
        updates |= self.controls[bound.spec.id].opened(played.task, played.observation)
        return {
            **updates,
            **self._view(played),
            self.state: played,
            self.area: gr.update(visible=True),
        }

    def _go(self, most: int | None, given: Mapping[Any, Any]) -> dict[Any, Any]:
        played: Played | None = given[self.state]
        if played is None:
            return {self.refused: sentence(GONE)}
        controls = self.controls[played.spec.id]
        with played.lock:
            count = len(played.steps)
            refused: dict[Any, Any] = {}
            try:
                played.play(controls.values(played.task, given), most)
            except InferenceGymError as error:
                refused = {self.refused: message(error)}
            if len(played.steps) == count:
                return refused
            updates = {**self._view(played), **controls.followed(played.task, played.observation, given)}
        # Given back, it is kept for another hour.
        return {**updates, **refused, self.state: played}

    def _grade(self, given: Mapping[Any, Any]) -> dict[Any, Any]:
        played: Played | None = given[self.state]
        if played is None:
            return {self.refused: sentence(GONE)}
        try:
            with played.lock:
                graded = played.graded()
        except InferenceGymError as error:
            return {self.refused: message(error)}
        return {
            self.state: played,
            self.said: NO_MESSAGE,
            self.refused: NO_MESSAGE,
            self.grade: grade_text(graded),
            self.player: graded.scene.to_json(),
        }

    def _view(self, played: Played) -> dict[Any, Any]:
        """Everything that shows the episode as it stands; when it is over, with its grade."""
        scene, grade = played.scene(), ""
        said = consequence(played, scene)
        if played.done:
            graded = played.graded()
            scene, grade = graded.scene, grade_text(graded)
        going = gr.update(interactive=not played.done)
        return {
            self.said: NO_MESSAGE,
            self.refused: NO_MESSAGE,
            self.consequence: said,
            self.observation: observation_text(played),
            self.grade: grade,
            self.player: scene.to_json(),
            self.one: going,
            self.ten: going,
            self.rest: going,
            self.stop: going,
        }


def _tasks(bound: BoundEnv) -> list[tuple[str, str]]:
    return [(_task_label(task), task.id) for task in bound.tasks.values()]


def _task_label(task: TaskInfo) -> str:
    return f"{task.name} ({task.difficulty})"
