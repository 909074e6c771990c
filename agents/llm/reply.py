"""Reads an action out of whatever a language model wrote around it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, cast

from pydantic import BaseModel, ValidationError

from inferencegym.errors import InferenceGymError

__all__ = ["ParsedReply", "ReplyError", "parse_reply"]

TEXT_MAX = 50_000
"""Characters of a reply that are looked at, from its end."""

TRIES_MAX = 200
"""Opening braces that are tried as the start of an object."""

_WRAPPERS = ("action", "arguments", "parameters", "knobs")
"""Fields that models like to put the action into."""

_END_OF_THOUGHT = "</think>"


class ReplyError(InferenceGymError):
    """A reply without a valid action."""

    code = "bad_reply"


class ParsedReply(NamedTuple):
    """The action, and what had to be overlooked to get it."""

    action: BaseModel
    notes: tuple[str, ...]


def parse_reply(text: str, model: type[BaseModel], fields: Collection[str]) -> ParsedReply:
    """The action of a reply: its last JSON object that names an action field.

    Code fences, prose, a thinking part, an enclosing ``{"action": …}`` and numbers written as text are
    understood; fields that are missing take their defaults and fields that do not count are left out, both
    noted.

    Args:
        text: what the model wrote.
        model: the environment's action model.
        fields: action fields that the task leaves open.

    Raises:
        ReplyError: no such object, or a value outside what its field allows (named).
    """
    found = _last_action(text.rpartition(_END_OF_THOUGHT)[2][-TEXT_MAX:], model)
    if found is None:
        raise ReplyError(f"the reply has no JSON object with any of {', '.join(fields)}.")
    given = {name: value for name, value in found.items() if name in fields and value is not None}
    notes = [f"{name} does not count" for name in found if name not in fields]
    missing = [name for name in fields if name not in given]
    if missing:
        notes.append(f"{', '.join(missing)} missing: default taken")
    problem = _problem(model, given)
    if problem is not None:
        read = {name: _from_text(value) for name, value in given.items()}
        if _problem(model, read) is not None:
            raise ReplyError(problem)
        notes += [f"{name}: text read as {read[name]!r}" for name in read if read[name] != given[name]]
        given = read
    return ParsedReply(model.model_validate(given), tuple(notes))


def _last_action(text: str, model: type[BaseModel]) -> dict[str, Any] | None:
    """The last object that holds any field of the model, unwrapped."""
    found: dict[str, Any] | None = None
    for candidate in _objects(text):
        for mapping in (candidate, *(candidate.get(name) for name in _WRAPPERS)):
            if isinstance(mapping, dict) and model.model_fields.keys() & mapping.keys():
                found = cast("dict[str, Any]", mapping)
    return found


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a text that are not inside one another, in order."""
    decoder = json.JSONDecoder()
    position = text.find("{")
    for _ in range(TRIES_MAX):
        if position < 0:
            return
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            yield value
        position = text.find("{", end)


def _problem(model: type[BaseModel], values: Mapping[str, Any]) -> str | None:
    """Why the model refuses values, naming the field; None when it does not."""
    try:
        model.model_validate(values)
    except ValidationError as error:
        detail = error.errors()[0]
        where = ".".join(str(part) for part in detail["loc"]) or "the action"
        return f"{where}: {str(detail.get('input'))[:60]!r} is not allowed: {detail['msg']}."
    return None


def _from_text(value: Any) -> Any:
    """A number or boolean that was written as text; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        read = json.loads(value.strip().lower())
    except (ValueError, RecursionError):
        return value
    return read if isinstance(read, bool | int | float) else value
