"""Turn pydantic's findings into errors that name the field, the value and what is allowed.

What is allowed is read from the model's JSON schema, so it never disagrees with GET /schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError

from inferencegym.errors import InferenceGymError, InvalidValueError
from inferencegym.schema_text import Schema, describe, schema_at
from server.api.errors import InvalidJsonError, RejectedError

__all__ = ["explain", "shown"]

MAX_FINDINGS = 4
"""Findings that one message tells; the rest is counted."""
MAX_SHOWN_CHARS = 60

_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


class shown:  # noqa: N801 (reads as a verb where it is used)
    """A rejected value, printed as short JSON. Never fails, whatever the value is."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        try:
            text = json.dumps(self.value, ensure_ascii=True, default=str)
        except (ValueError, RecursionError):  # an integer of thousands of digits, a cycle
            text = f"a {type(self.value).__name__}"
        return text if len(text) <= MAX_SHOWN_CHARS else text[: MAX_SHOWN_CHARS - 3] + "..."


def explain(error: ValidationError, model: type[BaseModel], prefix: str = "") -> InferenceGymError:
    """The error to raise for ``error``, found while validating ``model``.

    Args:
        error: what pydantic found.
        model: the model that was validated; its schema says what is allowed.
        prefix: put before every field, for example ``"actions[3]"``.
    """
    findings = error.errors(include_url=False)
    if findings[0]["type"] == "json_invalid":
        return InvalidJsonError(findings[0]["msg"].removeprefix("Invalid JSON: "))
    told = [_finding(finding, model, prefix) for finding in findings[:MAX_FINDINGS]]
    if len(told) == 1:
        return told[0]
    message = " ".join(each.message for each in told)
    if len(findings) > MAX_FINDINGS:
        message += f" And {len(findings) - MAX_FINDINGS} more."
    hints = list(dict.fromkeys(each.hint for each in told if each.hint))
    return RejectedError(message, " ".join(hints))


def _finding(finding: Mapping[str, Any], model: type[BaseModel], prefix: str) -> InferenceGymError:
    root = _schema_of(model)
    path: Sequence[int | str] = finding["loc"]
    field = _dotted(path, prefix)
    kind = finding["type"]
    if kind == "missing":
        allowed = describe(schema_at(root, path), root)
        return RejectedError(f"{field}: missing; expected {allowed}." if allowed else f"{field}: missing.")
    if kind == "extra_forbidden":
        return _unknown_field(field, str(path[-1]), schema_at(root, path[:-1]))
    if kind == "value_error" and (not path or _properties(schema_at(root, path))):
        # A rule over several fields, such as "the weights sum to at most 1": its own words say it best.
        return RejectedError(f"{field}: {finding['msg'].removeprefix('Value error, ')}.")
    allowed = describe(schema_at(root, path), root) or finding["msg"].removeprefix("Value error, ")
    return InvalidValueError(field, shown(finding["input"]), _with_limit(allowed, finding))


def _with_limit(allowed: str, finding: Mapping[str, Any]) -> str:
    """Add the limit that was broken when the schema does not tell it (pydantic leaves out those that are
    put on an optional field as a whole)."""
    if any(character.isdigit() for character in allowed):
        return allowed
    limits = [
        f"{sign} {finding['ctx'][key]}" for key, sign in _SIGNS.items() if key in finding.get("ctx", {})
    ]
    return " ".join([allowed, *limits])


def _unknown_field(field: str, name: str, parent: Schema | None) -> InferenceGymError:
    known = sorted(_properties(parent))
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"Did you mean {near[0]}?" if near else f"Known fields: {', '.join(known)}."
    field = field if len(field) <= MAX_SHOWN_CHARS else field[: MAX_SHOWN_CHARS - 3] + "..."
    return RejectedError(f"{field}: unknown field.", hint if known else "")


def _dotted(path: Iterable[int | str], prefix: str) -> str:
    text = prefix
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".") or "body"


@lru_cache(maxsize=64)
def _schema_of(model: type[BaseModel]) -> Schema:
    return model.model_json_schema()


def _properties(schema: Schema | None) -> Mapping[str, Any]:
    return schema.get("properties", {}) if schema else {}
