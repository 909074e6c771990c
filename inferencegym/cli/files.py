"""Files of episodes: what ``run --out`` writes and what ``grade`` reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agents.compare.output_files import write_file
from env.protocols import task_named
from inferencegym.errors import InvalidValueError, UnknownNameError
from inferencegym.registry import get_spec

if TYPE_CHECKING:
    from inferencegym.cli.play import PlayedEpisode

__all__ = ["LogRecord", "ReplayRecord", "load_record", "save_episode"]

FORMS = "a list of steps, {task_id, episode_log} or {task_id, seed, actions}"


@dataclass(frozen=True, slots=True)
class ReplayRecord:
    """What it takes to play an episode again."""

    env: str | None
    task_id: str
    seed: int
    actions: list[dict[str, Any]]
    config: dict[str, Any] | None = None
    score: float | None = None
    """What the file says that it scored."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """What an episode's player wrote down."""

    env: str | None
    task_id: str
    seed: int | None
    log: list[dict[str, Any]]
    config: dict[str, Any] | None = None
    score: float | None = None
    """What the file says that it scored."""

    def as_replay(self) -> ReplayRecord:
        """The same episode, to be played again from its seed and the log's actions.

        Raises:
            InvalidValueError: the file has no seed, or a step without an action.
        """
        if self.seed is None:
            raise InvalidValueError("seed", None, "a whole number in the file", "A replay needs the seed.")
        for index, entry in enumerate(self.log):
            if not isinstance(entry.get("action"), dict):
                raise InvalidValueError(
                    f"episode_log[{index}].action", entry.get("action"), "the action of that step"
                )
        actions = [entry["action"] for entry in self.log]
        return ReplayRecord(self.env, self.task_id, self.seed, actions, self.config, self.score)


def save_episode(path: Path, episode: PlayedEpisode) -> None:
    """Write an episode so that ``grade`` (also with ``--replay``) and POST /grader understand it.

    Raises InferenceGymError when that fails.
    """
    document: dict[str, Any] = {
        "env": episode.env,
        "task_id": episode.task_id,
        "seed": episode.seed,
        "agent": episode.agent,
        "score": episode.grade.score,
        "episode_log": episode.log,
    }
    if episode.config is not None:
        document["config"] = dict(episode.config)
    if episode.report.note:
        document["note"] = episode.report.note
    write_file("--out", path, lambda file: file.write_text(json.dumps(document, indent=1) + "\n"))


def load_record(path: Path, task_id: str | None) -> LogRecord | ReplayRecord:
    """Read a saved episode; ``task_id`` is for a file that does not name its own.

    Raises:
        InvalidValueError: not readable, no JSON, none of the known forms, or parts that contradict each
        other.
    """
    try:
        document: Any = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidValueError("FILE", str(path), "a readable JSON file", str(error)) from None
    except RecursionError:
        raise InvalidValueError("FILE", str(path), "a JSON file", "It is nested too deeply.") from None
    fields = _fields(document)
    task: Any = fields.get("task_id", task_id)
    if isinstance(task, bool) or not isinstance(task, str | int):
        raise InvalidValueError("task_id", task, "a task id in the file or by --task")
    task = str(task)
    if task_id is not None and not _same_task(fields.get("env"), task_id, task):
        raise InvalidValueError("--task", task_id, f"{task}, which the file names, or nothing")
    seed: Any = fields.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise InvalidValueError("seed", seed, "a whole number in the file")
    env, config, score = fields.get("env"), fields.get("config"), fields.get("score")
    score = float(score) if isinstance(score, int | float) else None
    if "actions" not in fields:
        log = _steps(fields, "episode_log")
        _check_seed(seed, log)
        return LogRecord(env, task, seed, log, config, score)
    if seed is None:
        raise InvalidValueError("seed", None, "a whole number in the file")
    return ReplayRecord(env, task, seed, _steps(fields, "actions"), config, score)


def _same_task(env: Any, one: str, other: str) -> bool:
    """Whether both name the same task of the file's environment; names of no task are told apart by text."""
    if one == other:
        return True
    try:
        tasks = get_spec(env or "serving").part("tasks")
        return task_named(tasks, one).id == task_named(tasks, other).id
    except UnknownNameError:
        return False


def _check_seed(seed: int | None, log: list[dict[str, Any]]) -> None:
    """Raises InvalidValueError: a step tells another seed than the file."""
    for index, entry in enumerate(log):
        metrics: Any = {**_object(entry.get("info")), **entry}.get("metrics")
        told = _object(metrics).get("seed", seed)
        if seed is not None and told != seed:
            raise InvalidValueError(
                f"episode_log[{index}].metrics.seed", told, f"{seed}, the file's own seed"
            )


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _fields(document: Any) -> dict[str, Any]:
    if isinstance(document, list):
        return {"episode_log": document}
    if isinstance(document, dict) and ("episode_log" in document or "actions" in document):
        return cast("dict[str, Any]", document)
    raise InvalidValueError("FILE", cast("Any", document), FORMS)


def _steps(fields: dict[str, Any], name: str) -> list[dict[str, Any]]:
    value: list[Any] = fields[name] if isinstance(fields[name], list) else [fields[name]]
    if not isinstance(fields[name], list) or not all(isinstance(entry, dict) for entry in value):
        raise InvalidValueError(name, fields[name], "a list of objects, one for each step")
    return value
