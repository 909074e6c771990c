"""What a JSON schema allows, in words: so errors never disagree with the schema."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

__all__ = ["Schema", "describe", "schema_at"]

Schema = Mapping[str, Any]


def _resolve(schema: Schema, root: Schema) -> Schema:
    while "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        schema = cast("Schema", root.get("$defs", {}).get(name, {}))
    return schema


def _branches(schema: Schema, root: Schema) -> list[Schema]:
    options = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if not options:
        return [schema]
    # An optional field of several kinds has its choices inside of a choice.
    return [branch for option in options for branch in _branches(_resolve(option, root), root)]


def schema_at(root: Schema, path: Iterable[int | str]) -> Schema | None:
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
