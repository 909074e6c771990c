"""Environments for TRL's ``GRPOTrainer(environment_factory=…)``: a language model plays by calling tools.

TRL's contract (its guide on OpenEnv, version 1): the factory is called without arguments, once for every
generation; ``reset(**columns)`` starts an episode with the columns of a dataset row and returns the text that
is added to the prompt; every other public method with typed, documented arguments is a tool; what a method
raises is shown to the model; reward functions get the environments back::

    from agents.llm.trl_environment import environment_class, grade_reward, training_rows

    trainer = GRPOTrainer(
        model="Qwen/Qwen3-1.7B",
        train_dataset=Dataset.from_list(training_rows("serving", seeds=range(3000, 3256))),
        reward_funcs=grade_reward,
        environment_factory=environment_class("serving", hold_steps=10),
        args=GRPOConfig(max_completion_length=8192),
    )

This module needs neither TRL nor a GPU. The tools are ``set_knobs``, whose arguments come from the action
model, and ``observe``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ValidationError

from agents.compare.players import Player, start_player
from agents.llm.task_text import action_schema, describe_observation, find_task, task_text
from env.checks import checked_seed, checked_whole
from env.protocols import listed_tasks
from inferencegym.client import InferenceGymClient
from inferencegym.connection import http_address
from inferencegym.errors import EpisodeDoneError, EpisodeNotStartedError, InvalidValueError
from inferencegym.registry import EnvSpec, get_spec

__all__ = ["ToolEnvironment", "environment_class", "grade_reward", "training_rows"]

DEFAULT_SEED = 42

HOLD_STEPS_MAX = 10_000
"""Longer than any episode."""

PROMPT = "Run the system described below with the tool set_knobs until the episode is over."


class ToolEnvironment:
    """Base of the classes that :func:`environment_class` makes. One instance plays one episode at a time."""

    _spec: ClassVar[EnvSpec]
    _hold_steps: ClassVar[int]
    _base_url: ClassVar[str | None]

    def __init__(self) -> None:
        self.reward = 0.0
        """Sum of the step rewards over the length of an episode: in [-1, 1] as each of them."""
        self.steps = 0
        self.done = False
        self._player: Player | None = None
        self._client: InferenceGymClient[Any] | None = None
        self._length = 1
        self._score: tuple[int, float] = (0, 0.0)

    def __del__(self) -> None:
        # The trainer never says that it is done, and a public method to close would be a tool.
        if self._client is not None:
            self._client.close()

    def reset(self, **columns: Any) -> str:
        """Start an episode.

        Args:
            columns: of the dataset's row; ``task_id`` (default: the first task) and ``seed`` are used, and
                None counts as left out.

        Returns:
            The task and the first observation in words.

        Raises:
            UnknownNameError: no such task.
            InvalidValueError: a seed that is no whole number from 0 to 2**63 - 1.
        """
        spec = self._spec
        name, given = columns.get("task_id"), columns.get("seed")
        task = find_task(spec, next(iter(spec.part("tasks"))) if name is None else name)
        seed = DEFAULT_SEED if given is None else checked_seed(given)
        if self._base_url is not None and self._client is None:
            self._client = InferenceGymClient(self._base_url, spec.id)
        self._player = start_player(spec, task.id, seed, self._client)
        self.reward, self.steps, self.done = 0.0, 0, False
        self._length, self._score = task.episode_length, (0, 0.0)
        held = "" if self._hold_steps == 1 else f" Each call of set_knobs lasts {self._hold_steps} steps."
        return f"{task_text(spec, task)}\n{held.strip()}\n\n{self._describe(self._player)}"

    def observe(self) -> str:
        """
        Look at the system. This takes no time.

        Returns:
            The newest observation, one field a line.
        """
        return self._describe(self._playing())

    @property
    def score(self) -> float:
        """Grade of the steps so far, in [0, 1]; a part of an episode scores at most its share."""
        if self._player is not None and self._score[0] != self.steps:
            self._score = (self.steps, self._player.grade()[0])
        return self._score[1]

    def _act(self, values: Mapping[str, Any]) -> str:
        """The body of ``set_knobs``: hold an action for some steps and tell what came of it."""
        player = self._playing()
        if self.done:
            raise EpisodeDoneError("The episode is over.", "There is nothing more to do.")
        action = _parse(self._spec, values)
        total, taken = 0.0, 0
        while taken < self._hold_steps and not player.done:
            total += player.step(action)
            taken += 1
        self.steps += taken
        self.reward += total / self._length
        self.done = player.done
        ending = "The episode is over." if self.done else f"{self._length - self.steps} steps left."
        return f"Mean reward {total / taken:.3f}. {ending}\n{self._describe(player)}"

    def _playing(self) -> Player:
        if self._player is None:
            raise EpisodeNotStartedError("There is no episode yet.", "Call reset() first.")
        return self._player

    @staticmethod
    def _describe(player: Player) -> str:
        return f"Observation:\n{describe_observation(player.observation)}"


def environment_class(
    env_id: str = "serving", *, hold_steps: int = 1, base_url: str | None = None
) -> type[ToolEnvironment]:
    """The class to pass as ``environment_factory``.

    Args:
        env_id: id or short name of the environment.
        hold_steps: steps that one call of ``set_knobs`` lasts; an episode of 200 single steps overflows most
            contexts.
        base_url: server to play on, which must keep as many sessions as the trainer opens; by default
            episodes run in this process.

    Raises:
        UnknownNameError: no such environment.
        InvalidValueError: hold_steps or base_url outside what is allowed.
    """
    hold_steps = checked_whole("hold_steps", hold_steps, 1, HOLD_STEPS_MAX)
    if base_url is not None:
        base_url = http_address("base_url", base_url)
    spec = get_spec(env_id)
    members = {"_spec": spec, "_hold_steps": hold_steps, "_base_url": base_url, "set_knobs": _tool(spec)}
    name = f"{spec.name.capitalize()}ToolEnvironment"
    return type(name, (ToolEnvironment,), {**members, "__doc__": spec.description, "__module__": __name__})


def grade_reward(environments: Sequence[ToolEnvironment], **_columns: Any) -> list[float]:
    """A TRL reward function: the grade of each episode, in [0, 1]."""
    return [environment.score for environment in environments]


def training_rows(
    env_id: str = "serving", task_ids: Iterable[str] | None = None, seeds: Iterable[int] = range(3000, 3064)
) -> list[dict[str, Any]]:
    """Rows of a training data set: every task with every seed. Held-out seeds (below 3,000) are the caller's
    to leave out.

    Args:
        env_id: id or short name of the environment.
        task_ids: ids or aliases, at least one; None takes all listed tasks.
        seeds: of the episodes.

    Raises:
        UnknownNameError: no such environment or task.
        InvalidValueError: no task, a text in place of a list, or a seed outside what is allowed.
    """
    spec = get_spec(env_id)
    given = list(listed_tasks(spec.part("tasks"))) if task_ids is None else task_ids
    tasks = [] if isinstance(given, str) else [find_task(spec, name).id for name in given]
    if not tasks:
        raise InvalidValueError("task_ids", task_ids, "a list of at least one task id, or None for all")
    prompt = [{"role": "user", "content": PROMPT}]
    each = [checked_seed(seed, "seeds") for seed in seeds]
    return [{"prompt": prompt, "task_id": task, "seed": seed} for seed in each for task in tasks]


def _parse(spec: EnvSpec, values: Mapping[str, Any]) -> BaseModel:
    model: type[BaseModel] = spec.part("action_model")
    try:
        return model.model_validate(values)
    except ValidationError as error:
        detail = error.errors()[0]
        field = ".".join(str(part) for part in detail["loc"]) or "action"
        raise InvalidValueError(field, detail.get("input"), detail["msg"]) from None


def _tool(spec: EnvSpec) -> Any:
    """The method ``set_knobs``, with the action's fields as typed, documented arguments."""
    fields: dict[str, dict[str, Any]] = action_schema(spec)["properties"]

    def set_knobs(self: ToolEnvironment, **values: Any) -> str:
        return self._act(values)  # pyright: ignore[reportPrivateUsage] (it becomes one of its methods)

    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    lines: list[str] = []
    for name, field in fields.items():
        hint, default = _hint(field), _default(field)
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        )
        set_knobs.__annotations__[name] = hint
        lines.append(f"    {name}: {field.get('description', name)}{_bounds(field)}")
    set_knobs.__annotations__["return"] = str
    for unused in ("self", "values"):
        set_knobs.__annotations__.pop(unused, None)
    set_knobs.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    set_knobs.__doc__ = (
        "\nAct, and see what comes of it. Arguments that are left out take their defaults.\n\nArgs:\n"
        + "\n".join(lines)
        + "\n\nReturns:\n    Reward, steps left and the new observation.\n"
    )
    return set_knobs


_KINDS: Mapping[str, Any] = {"integer": int, "number": float, "boolean": bool, "string": str}


def _hint(field: Mapping[str, Any]) -> Any:
    """A type that tool-schema builders know: int, float, bool, str or a Literal."""
    if "anyOf" in field:  # the names of an enum say more than its numbers
        return _hint(field["anyOf"][-1])
    if "enum" in field:
        return Literal[tuple(field["enum"])]
    return _KINDS.get(str(field.get("type")), str)


def _default(field: Mapping[str, Any]) -> Any:
    """The default; of an enum that takes names, the name."""
    default, choices = field.get("default"), [part.get("enum", []) for part in field.get("anyOf", [])]
    if len(choices) > 1 and default in choices[0]:
        return choices[-1][choices[0].index(default)]
    return default


def _bounds(field: Mapping[str, Any]) -> str:
    if "minimum" in field and "maximum" in field:
        return f" From {field['minimum']} to {field['maximum']}."
    return ""
