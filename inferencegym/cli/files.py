"""Files of episodes: what ``run --out`` writes and what ``grade`` reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agents.output_files import write_file
from inferencegym.errors import InvalidValueError

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


@dataclass(frozen=True, slots=True)
class LogRecord:
    """What an episode's player wrote down."""

    env: str | None
    task_id: str
    seed: int | None
    log: list[dict[str, Any]]
    config: dict[str, Any] | None = None

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
        return ReplayRecord(self.env, self.task_id, self.seed, actions, self.config)


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
    if episode.report.note:
        document["note"] = episode.report.note
    write_file("--out", path, lambda file: file.write_text(json.dumps(document, indent=1) + "\n"))


def load_record(path: Path, task_id: str | None) -> LogRecord | ReplayRecord:
    """Read a saved episode; ``task_id`` is for a file that does not name its own.

    Raises:
        InvalidValueError: not readable, no JSON, or none of the known forms.
    """
    try:
        document: Any = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidValueError("FILE", str(path), "a readable JSON file", str(error)) from None
    except RecursionError:
        raise InvalidValueError("FILE", str(path), "a JSON file", "It is nested too deeply.") from None
    fields = _fields(document)
    task: Any = fields.get("task_id", task_id)
    if not isinstance(task, str):
        raise InvalidValueError("task_id", task, "a task id in the file or by --task")
    seed: Any = fields.get("seed")
    seed = seed if isinstance(seed, int) and not isinstance(seed, bool) else None
    env, config = fields.get("env"), fields.get("config")
    if "actions" not in fields:
        return LogRecord(env, task, seed, _steps(fields, "episode_log"), config)
    if seed is None:
        raise InvalidValueError("seed", fields.get("seed"), "a whole number in the file")
    return ReplayRecord(env, task, seed, _steps(fields, "actions"), config)


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
