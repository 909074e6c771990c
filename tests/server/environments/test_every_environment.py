"""What every environment of the registry must have on this server, whoever made it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from inferencegym.registry import EnvSpec, all_specs
from tests.server.conftest import begin

MODELS = ("action_model", "observation_model", "state_model", "config_model")
NO_SCHEMA_WORDS = {"ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length"}
"""pydantic's own names of limits; JSON Schema says minimum, maximum, maxLength."""

each = pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)


def keys_of(value: Any) -> set[str]:
    """All keys of a schema, but for the names of properties."""
    if isinstance(value, list):
        return {key for entry in value for key in keys_of(entry)}
    if not isinstance(value, dict):
        return set()
    found: set[str] = set()
    for key, inner in value.items():
        found |= {key}
        inners = inner.values() if key == "properties" else [inner]
        found |= {each_key for entry in inners for each_key in keys_of(entry)}
    return found


@each
async def test_every_get_answers(client: httpx.AsyncClient, spec: EnvSpec) -> None:
    session = await begin(client, spec.mount)
    task = session["task_id"]
    for path in ("health", "tasks", "tasks/meta", f"tasks/{task}", "info", "schema", "metadata", "docs"):
        reply = await client.get(f"{spec.mount}/{path}")
        assert reply.status_code == 200, (path, reply.text[:300])
    reply = await client.get(f"{spec.mount}/state", params={"session_id": session["session_id"]})
    assert reply.status_code == 200
    info = (await client.get(f"{spec.mount}/info")).json()
    assert info["id"] == spec.id


@each
async def test_the_baseline_lies_where_it_was_meant_to(client: httpx.AsyncClient, spec: EnvSpec) -> None:
    reply = (await client.get(f"{spec.mount}/baseline")).json()
    assert list(reply["expected_range"]) == list(reply["scores"])
    for task_id, meant in reply["expected_range"].items():
        assert meant is None or meant[0] <= reply["scores"][task_id] <= meant[1]
    if spec.name == "serving":
        assert reply["expected_range"] == {"task1": [0.3, 0.4], "task2": [0.22, 0.35], "task3": [0.18, 0.3]}


@each
async def test_schemas_speak_json_schema(client: httpx.AsyncClient, spec: EnvSpec) -> None:
    for name in MODELS:
        assert not keys_of(spec.part(name).model_json_schema()) & NO_SCHEMA_WORDS, name
    for path in ("schema", "info"):
        body = (await client.get(f"{spec.mount}/{path}")).json()
        schemas = {name: part for name, part in body.items() if path == "schema" or name.endswith("_schema")}
        assert schemas
        assert not keys_of(schemas) & NO_SCHEMA_WORDS, path


@each
async def test_meta_tells_the_range_of_rewards(client: httpx.AsyncClient, spec: EnvSpec) -> None:
    meta = (await client.get(f"{spec.mount}/tasks/meta")).json()
    assert meta["reward_range"] == list(spec.reward_range)
