"""A person's episode: the steps so far, and the agent it is measured by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any
from uuid import uuid4

from pydantic import BaseModel

from agents.registry import rule_name
from inferencegym.errors import EpisodeDoneError, EpisodeNotStartedError, InferenceGymError
from server.bound import BoundEnv
from server.dashboard.scene import Outcome, Scene
from server.dashboard.watch.recording import Recording, Side, scene_of
from server.sessions.episodes import StepResult

__all__ = ["Graded", "Played"]

YOU = "you"

AXIS_STEPS = (20, 50, 100, 200)
"""Lengths of the charts' axis while an episode goes on."""


@dataclass(frozen=True, slots=True)
class Graded:
    """The grades of the person and of the agent beside; ``problem`` says why there is no agent."""

    yours: Outcome
    rival: Outcome | None
    steps: int
    length: int
    finished: bool
    scene: Scene
    problem: str = ""


class Played(Side):
    """The episode of one visitor. Hold ``lock`` for every use: a visitor may press two buttons at once.

    Raises:
        InferenceGymError: task or seed are not allowed.
    """

    def __init__(self, bound: BoundEnv, task_id: object, seed: object) -> None:
        start = bound.parse_reset_fields({"task_id": task_id, "seed": seed})
        super().__init__(bound.spec, start.task_id, start.seed, YOU)
        self.bound = bound
        self.lock = Lock()
        self.before: BaseModel | None = None
        self.last: list[StepResult] = []
        self._rival: Recording | None = None
        self._run = uuid4().hex

    def play(self, values: Mapping[str, Any], most: int | None = None) -> None:
        """Steps with the same action, until the episode ends or ``most`` are taken.

        ``before`` is then the observation before them and ``last`` what they gave.

        Raises:
            EpisodeDoneError: the episode is over.
            InferenceGymError: the action is refused; nothing was changed.
        """
        action = self.bound.parse_action(values)
        if self.done:
            raise EpisodeDoneError("The episode is over.", "Press Start for another.")
        before, first = self.observation, len(self.steps)
        limit = self.task.episode_length if most is None else most
        try:
            while not self.done and len(self.steps) - first < limit:
                self.take(action)
        finally:
            if len(self.steps) > first:
                self.before, self.last = before, self.steps[first:]

    def scene(self) -> Scene:
        """The run so far, shown at its newest step."""
        return self._at_the_end(scene_of(self.spec, [self], self.seed, self._run))

    def graded(self) -> Graded:
        """The grade so far, and that of the environment's rule-based agent after as many steps.

        A finished episode stands against the agent's finished episode.

        Raises:
            EpisodeNotStartedError: no step was taken.
        """
        if not self.steps:
            raise EpisodeNotStartedError("There is no step to grade yet.", "Press Next step first.")
        rival, problem = self._beside()
        sides: list[Side] = [self] if rival is None else [self, rival]
        scene = scene_of(self.spec, sides, self.seed, f"{self._run} {len(self.steps)}")
        return Graded(
            self.outcome(0),
            None if rival is None else rival.outcome(1),
            len(self.steps),
            self.task.episode_length,
            self.done,
            self._at_the_end(scene),
            problem,
        )

    def _beside(self) -> tuple[Recording | None, str]:
        try:
            if self._rival is None:
                self._rival = Recording(self.spec, self.task.id, self.seed, rule_name(self.spec.id))
            while not self._rival.done and (self.done or len(self._rival.steps) < len(self.steps)):
                self._rival.advance()
        except InferenceGymError as error:
            return None, f"{error.message} {error.hint}".strip()
        return self._rival, ""

    def _at_the_end(self, scene: Scene) -> Scene:
        """Shown at its newest step, with an axis so short that the last steps can be seen."""
        ahead = next((steps for steps in AXIS_STEPS if steps > scene.steps), scene.length)
        length = scene.length if self.done else min(ahead, scene.length)
        return replace(scene, start=scene.steps, plays=False, outcomes=[], length=length)
