"""Turn pydantic's findings into errors that name the field, the value and what is allowed.

What is allowed is read from the model's JSON schema, so it never disagrees with GET /schema.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from inferencegym.errors import InferenceGymError, InvalidValueError
from server.errors import InvalidJsonError, RejectedError

__all__ = ["explain", "shown"]

MAX_FINDINGS = 4
"""Findings that one message tells; the rest is counted."""
MAX_SHOWN_CHARS = 60

Schema = Mapping[str, Any]

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
        allowed = describe(_walk(root, path), root)
        return RejectedError(f"{field}: missing; expected {allowed}." if allowed else f"{field}: missing.")
    if kind == "extra_forbidden":
        return _unknown_field(field, str(path[-1]), _walk(root, path[:-1]))
    if kind == "value_error" and (not path or _properties(_walk(root, path))):
        # A rule over several fields, such as "the weights sum to at most 1": its own words say it best.
        return RejectedError(f"{field}: {finding['msg'].removeprefix('Value error, ')}.")
    allowed = describe(_walk(root, path), root) or finding["msg"].removeprefix("Value error, ")
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


def _resolve(schema: Schema, root: Schema) -> Schema:
    while "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        schema = cast("Schema", root.get("$defs", {}).get(name, {}))
    return schema


def _branches(schema: Schema, root: Schema) -> list[Schema]:
    options = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    return [_resolve(option, root) for option in options] if options else [schema]


def _walk(root: Schema, path: Iterable[int | str]) -> Schema | None:
    """The schema at a path of field names and list positions; None where the schema says nothing."""
    here: Schema = root
    for part in path:
        key = "items" if isinstance(part, int) else "properties"
        for branch in _branches(_resolve(here, root), root):
            inner = branch.get(key)
            inner = inner.get(part) if inner is not None and key == "properties" else inner
            if inner is not None:
                here = inner
                break
        else:
            return None
    here = _resolve(here, root)
    with_fields = [b for b in _branches(here, root) if b.get("properties")]
    return with_fields[0] if with_fields and len(_branches(here, root)) <= 2 else here


def _properties(schema: Schema | None) -> Mapping[str, Any]:
    return schema.get("properties", {}) if schema else {}


def describe(schema: Schema | None, root: Schema) -> str:
    """What a schema allows, in words; "" when it says nothing. That null is allowed goes without saying."""
    if not schema:
        return ""
    branches = [branch for branch in _branches(schema, root) if branch.get("type") != "null"]
    choices = [_choices(branch) for branch in branches]
    if branches and all(choices):
        return _one_of([value for values in choices for value in values])
    return " or ".join(filter(None, dict.fromkeys(_by_type(branch) for branch in branches)))


def _choices(schema: Schema) -> Sequence[Any]:
    return [schema["const"]] if "const" in schema else schema.get("enum", ())


def _by_type(schema: Schema) -> str:
    kind = str(schema.get("type", ""))
    if kind in ("integer", "number"):
        return f"{'a whole number' if kind == 'integer' else 'a finite number'}{_range(schema)}"
    if kind == "string":
        return f"text{_span(schema, 'minLength', 'maxLength', 'characters')}"
    if kind == "array":
        return f"a list{_span(schema, 'minItems', 'maxItems', 'entries')}"
    return {"boolean": "true or false", "object": "an object", "null": "null"}.get(kind, "")


def _one_of(values: Sequence[Any]) -> str:
    texts = [json.dumps(value) for value in values]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def _range(schema: Schema) -> str:
    low = schema.get("minimum", schema.get("exclusiveMinimum", -math.inf))
    high = schema.get("maximum", schema.get("exclusiveMaximum", math.inf))
    if math.isinf(low) and math.isinf(high):
        return ""
    if math.isinf(high):
        return f" ≥ {low}" if "minimum" in schema else f" > {low}"
    if math.isinf(low):
        return f" ≤ {high}" if "maximum" in schema else f" < {high}"
    start = f"from {low}" if "minimum" in schema else f"above {low}"
    return f" {start} {'to' if 'maximum' in schema else 'to below'} {high}"


def _span(schema: Schema, low_key: str, high_key: str, unit: str) -> str:
    low, high = schema.get(low_key), schema.get(high_key)
    if low and high is not None:
        return f" of {low} to {high} {unit}"
    if high is not None:
        return f" of at most {high} {unit}"
    return f" of at least {low} {unit}" if low else ""
