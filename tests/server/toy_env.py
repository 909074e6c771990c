"""A second, tiny environment: push a point to the origin. It joins through the registry alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from env.protocols import GradeResult, TaskInfo
from inferencegym.errors import EpisodeDoneError, InvalidValueError, UnknownNameError
from inferencegym.registry import EnvSpec


class Push(BaseModel):
    """Move the point by ``force``; ``brake`` halves it first."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)

    force: float = Field(0.0, ge=-1.0, le=1.0, description="Displacement.")
    brake: bool = Field(False, strict=True)
    mode: Literal["walk", "run"] = "walk"
    repeat: int = Field(1, ge=1, le=3, strict=True)


class Position(BaseModel):
    """Where the point is."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    x: float = Field(ge=-10.0, le=10.0)
    timestep: int = Field(ge=0, le=50)


class ToyState(BaseModel):
    model_config = ConfigDict(extra="forbid")

    session_id: str = ""
    episode_id: str
    task_id: str
    seed: int
    step_count: int
    cumulative_reward: float
    done: bool


class ToyConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    wind: float | None = Field(None, ge=0.0, le=0.5)


TASKS = {
    "calm": TaskInfo(
        "calm", "Calm", "easy", "No wind.", ("force", "brake", "repeat"), 20, ("still",), {"wind": 0.0}
    ),
    "windy": TaskInfo("windy", "Windy", "hard", "Gusts.", ("force", "brake", "mode", "repeat"), 50),
    "drill": TaskInfo("drill", "Drill", "easy", "Only when asked for.", ("force",), 3, listed=False),
}


class ToyEpisode:
    """The point drifts with the wind; the reward is its nearness minus the force spent."""

    def __init__(self, task_id: str, seed: int, config: Mapping[str, Any] | None) -> None:
        if task_id not in TASKS:
            raise UnknownNameError("task_id", task_id, TASKS)
        self.task = TASKS[task_id]
        self.wind = (config or {}).get("wind", 0.2 if task_id == "windy" else 0.0)
        self.seed = seed
        self.reset()

    def reset(self, seed: int | None = None) -> Position:
        self.seed = self.seed if seed is None else seed
        self.rng = Random(self.seed)
        self.x = self.rng.uniform(-5.0, 5.0)
        self.steps, self.total = 0, 0.0
        return self._observation()

    @property
    def done(self) -> bool:
        return self.steps >= self.task.episode_length

    def step(self, action: Push) -> tuple[Position, float, bool, dict[str, Any]]:
        if self.done:
            raise EpisodeDoneError("The episode is over.", "Start a new one with reset.")
        force = action.force * (0.5 if action.brake else 1.0) * action.repeat
        self.x = max(-10.0, min(10.0, self.x + force + self.rng.gauss(0.0, self.wind)))
        self.steps += 1
        terms = {"nearness": 1.0 - abs(self.x) / 10.0, "effort": -0.1 * abs(action.force)}
        reward = terms["nearness"] + terms["effort"]
        self.total += reward
        info = {
            "timestep": self.steps,
            "metrics": {"distance": abs(self.x)},
            "workload": {"wind": self.wind},
            "masked_actions": [],
            "reward_terms": terms,
        }
        return self._observation(), reward, self.done, info

    def state(self) -> dict[str, Any]:
        return {
            "session_id": "",
            "episode_id": "",
            "task_id": self.task.id,
            "seed": self.seed,
            "step_count": self.steps,
            "cumulative_reward": self.total,
            "done": self.done,
        }

    def snapshot(self) -> Any:
        return (self.x, self.steps, self.total, self.rng.getstate())

    def restore(self, snapshot: Any) -> None:
        self.x, self.steps, self.total, state = snapshot
        self.rng.setstate(state)

    def _observation(self) -> Position:
        return Position(x=self.x, timestep=self.steps)


def make_env(task_id: str, seed: int = 42, config: Mapping[str, Any] | None = None) -> ToyEpisode:
    return ToyEpisode(task_id, seed, config)


class ToyGrader:
    """The mean nearness over the steps."""

    def grade_log(
        self, task_id: str, log: Sequence[Mapping[str, Any]], *, verified: bool = False
    ) -> GradeResult:
        if not log:
            raise InvalidValueError("episode_log", [], "at least one step")
        near: list[float] = []
        for index, entry in enumerate(log):
            distance = (entry.get("metrics") or entry.get("info", {}).get("metrics", {})).get("distance")
            if isinstance(distance, bool) or not isinstance(distance, int | float) or not 0 <= distance <= 10:
                raise InvalidValueError(
                    f"episode_log[{index}].metrics.distance", distance, "a number from 0 to 10"
                )
            near.append(1.0 - distance / 10.0)
        score = sum(near) / len(near)
        feedback = f"Mean nearness {score:.3f}."
        return GradeResult(
            score, {"nearness": score}, feedback, verified, len(log), {"path_m": 10.0 - 10.0 * score}
        )

    def grade_replay(
        self,
        task_id: str,
        seed: int,
        actions: Sequence[Mapping[str, Any]],
        config: Mapping[str, Any] | None = None,
    ) -> GradeResult:
        episode = make_env(task_id, seed, config)
        log = [{"metrics": episode.step(Push(**action))[3]["metrics"]} for action in actions]
        return self.grade_log(task_id, log, verified=True)


class ToBaseline:
    """Walks to the origin."""

    def __init__(self, task_id: str, seed: int) -> None:
        self.task_id = task_id

    def reset(self) -> None:
        pass

    def act(self, observation: Position) -> Push:
        return Push(force=max(-1.0, min(1.0, -observation.x)))


def describe() -> dict[str, Any]:
    return {"physics": "a point on a line"}


GRADER = ToyGrader()
AGENTS = {"baseline": ToBaseline}

SPEC = EnvSpec(
    id="InferenceGym/Toy-v0",
    mount="/toy",
    title="Toy",
    description="Push a point to the origin.",
    version="0.0.1",
    action_model=f"{__name__}:Push",
    observation_model=f"{__name__}:Position",
    state_model=f"{__name__}:ToyState",
    config_model=f"{__name__}:ToyConfig",
    make_env=f"{__name__}:make_env",
    tasks=f"{__name__}:TASKS",
    grader=f"{__name__}:GRADER",
    agents=f"{__name__}:AGENTS",
    info=f"{__name__}:describe",
)
