"""Task, action and observation in words, taken from the registry's models: one text for every language agent.

What a field means, its unit and its bounds stand once, in the pydantic models; this module only renders
them, so that it serves any environment of the registry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from env.protocols import TaskInfo, TaskName, task_named
from inferencegym.errors import UnknownNameError
from inferencegym.registry import EnvSpec

__all__ = ["action_schema", "describe_observation", "find_task", "has_task", "open_fields", "task_text"]


def find_task(spec: EnvSpec, task_id: TaskName) -> TaskInfo:
    """A task of an environment by id or alias. Raises UnknownNameError with near matches."""
    return task_named(spec.part("tasks"), task_id)


def has_task(spec: EnvSpec, task_id: TaskName) -> bool:
    """Whether an environment has a task of this id or alias."""
    try:
        find_task(spec, task_id)
    except UnknownNameError:
        return False
    return True


def open_fields(spec: EnvSpec, task: TaskInfo) -> tuple[str, ...]:
    """Action fields that the task leaves to the agent, in the order of the model."""
    model: type[BaseModel] = spec.part("action_model")
    return tuple(name for name in model.model_fields if name in task.active_actions)


def action_schema(spec: EnvSpec, task: TaskInfo | None = None) -> dict[str, Any]:
    """JSON schema of the action; with a task, of the fields that it opens only."""
    schema: dict[str, Any] = spec.part("action_model").model_json_schema()
    if task is not None:
        keep = open_fields(spec, task)
        schema["properties"] = {name: schema["properties"][name] for name in keep}
    return schema


def task_text(spec: EnvSpec, task: TaskInfo) -> str:
    """What the agent is asked: environment, task, and each open action field with bounds and default."""
    lines = [
        f"{spec.title}: {spec.description}",
        f"Task {task.id}, {task.name} ({task.difficulty}), {task.episode_length} steps: {task.description}",
        "Action fields, all optional:",
    ]
    schema = action_schema(spec, task)
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    for name, field in schema["properties"].items():
        lines.append(f"- {name} ({_allowed(field, definitions)}; default {_shown(field.get('default'))})")
        if field.get("description"):
            lines[-1] += f": {field['description']}"
    return "\n".join(lines)


def describe_observation(observation: BaseModel) -> str:
    """One line a field: name, value and, from the model, its meaning with unit."""
    lines: list[str] = []
    values = observation.model_dump(mode="json")
    for name, field in type(observation).model_fields.items():
        meaning = f" ({field.description.rstrip('.')})" if field.description else ""
        lines.append(f"{name} = {_shown(values[name])}{meaning}")
    return "\n".join(lines)


def _allowed(field: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """The values of a schema in words: ``integer from 1 to 512``, ``one of 0, 1, 2``."""
    if "$ref" in field:
        return _allowed(definitions[field["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in field:
        return " or ".join(_allowed(part, definitions) for part in field["anyOf"])
    if "enum" in field:
        return f"one of {_list(field['enum'])}"
    if "const" in field:
        return _shown(field["const"])
    kind = str(field.get("type", "any"))
    low, high = field.get("minimum"), field.get("maximum")
    if low is not None and high is not None:
        return f"{kind} from {_shown(low)} to {_shown(high)}"
    if low is not None or high is not None:
        return f"{kind} from {_shown(low)} up" if high is None else f"{kind} up to {_shown(high)}"
    return "true or false" if kind == "boolean" else kind


def _list(values: Iterable[Any]) -> str:
    return ", ".join(_shown(value) for value in values)


def _shown(value: Any) -> str:
    """JSON of a value, floats to four significant digits: more would only cost tokens."""
    return json.dumps(_rounded(value), ensure_ascii=False)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_rounded(part) for part in value]  # pyright: ignore[reportUnknownVariableType]
    return value
