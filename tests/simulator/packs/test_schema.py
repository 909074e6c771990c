"""The metadata of a pack survive a round trip and refuse what does not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from inferencegym.errors import TracePackError
from simulator.packs.io import DEFAULT_PACK_PATH, read_pack
from simulator.packs.physics import acceptance_rate, prompt_bucket, tokens_per_verify_step
from simulator.packs.schema import AXES, GRID_SHAPE, METADATA_KEY, SPEC_LENGTHS, PackMetadata


@dataclass
class Schema:
    """Stands for a ``pyarrow.Schema``."""

    metadata: dict[bytes, bytes] | None


@pytest.fixture(scope="module")
def metadata() -> PackMetadata:
    return read_pack(DEFAULT_PACK_PATH).metadata


def changed(metadata: PackMetadata, change: Callable[[dict[str, Any]], object]) -> Schema:
    values = json.loads(metadata.to_parquet()[METADATA_KEY])
    change(values)
    return Schema({METADATA_KEY: json.dumps(values).encode()})


def test_grid_has_5400_rows_in_the_order_of_the_axes():
    assert GRID_SHAPE == (9, 5, 5, 3, 8)
    assert np.prod(GRID_SHAPE) == 5400
    assert [name for name, _ in AXES] == [
        "batch_size",
        "kv_budget",
        "spec_length",
        "quant_tier",
        "prompt_len_bucket",
    ]


def test_round_trip(metadata: PackMetadata):
    assert PackMetadata.from_parquet_schema(Schema(metadata.to_parquet())) == metadata


def test_round_trip_of_whole_numbers_where_floats_are_declared(metadata: PackMetadata):
    schema = changed(metadata, lambda values: values.update(memory_limit_gb=80))
    assert PackMetadata.from_parquet_schema(schema) == replace(metadata, memory_limit_gb=80.0)


def test_unknown_fields_are_left_for_newer_readers(metadata: PackMetadata):
    schema = changed(metadata, lambda values: values.update(added_later=1))
    assert PackMetadata.from_parquet_schema(schema) == metadata


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (Schema(None), "no 'inferencegym' metadata"),
        (Schema({}), "no 'inferencegym' metadata"),
        (Schema({METADATA_KEY: b"{"}), "not JSON"),
        (Schema({METADATA_KEY: b"[]"}), "not a JSON object"),
        (Schema({METADATA_KEY: b"{}"}), "schema_version"),
    ],
)
def test_foreign_files_are_refused(schema: Schema, message: str):
    with pytest.raises(TracePackError, match=message):
        PackMetadata.from_parquet_schema(schema)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gpu", 1),
        ("reference_output_tokens", 256.5),
        ("reference_output_tokens", True),
        ("memory_limit_gb", "40"),
        ("weights_bytes", [1.0, 2.0]),
        ("weights_bytes", 1.0),
        ("kv_pool_tokens", [1, 2, "3"]),
        ("tier_names", [1, 2, 3]),
        ("schema_version", 99),
    ],
)
def test_a_bad_field_is_named(metadata: PackMetadata, field: str, value: object):
    with pytest.raises(TracePackError, match=field):
        PackMetadata.from_parquet_schema(changed(metadata, lambda values: values.update({field: value})))


def test_a_missing_field_is_named(metadata: PackMetadata):
    with pytest.raises(TracePackError, match="kv_link_gb_per_s"):
        PackMetadata.from_parquet_schema(changed(metadata, lambda values: values.pop("kv_link_gb_per_s")))


def test_reference_tokens_follow_the_published_formula(metadata: PackMetadata):
    expected = metadata.reference_tokens_per_step()
    assert expected[0] == 1.0
    for gamma, value in zip(SPEC_LENGTHS, expected, strict=True):
        acceptance = acceptance_rate(metadata.reference_acceptance_rate, prompt_bucket(0), gamma)
        assert value == pytest.approx(tokens_per_verify_step(acceptance, gamma), rel=1e-15)
