"""Packs are written and read whole; whatever is not a full, finite grid is refused with a reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inferencegym.errors import TracePackError
from simulator.packs.io import DEFAULT_PACK_PATH, TracePack, axis_columns, read_pack, write_pack
from simulator.packs.schema import GRID_SHAPE, VALUE_COLUMNS

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def pack() -> TracePack:
    return read_pack(DEFAULT_PACK_PATH)


@pytest.fixture(scope="module")
def table() -> Any:
    return pq.ParquetFile(DEFAULT_PACK_PATH).read()


def write(table: Any, path: Path) -> Path:
    pq.write_table(table, path)
    return path


def test_round_trip_is_exact(pack: TracePack, tmp_path: Path):
    write_pack(tmp_path / "pack.parquet", pack)
    again = read_pack(tmp_path / "pack.parquet")
    assert again.metadata == pack.metadata
    for name in VALUE_COLUMNS:
        np.testing.assert_array_equal(again.columns[name], pack.columns[name])


def test_rows_are_in_c_order(pack: TracePack, table: Any):
    row = np.ravel_multi_index((3, 2, 1, 2, 5), GRID_SHAPE)
    record = table.slice(row, 1).to_pylist()[0]
    assert (record["batch_size"], record["kv_budget"], record["spec_length"]) == (16, 0.5, 1)
    assert (record["quant_tier"], record["prompt_len_bucket"]) == (2, 5)
    assert record["tpot_ms"] == pack.columns["tpot_ms"][3, 2, 1, 2, 5]


def test_committed_file_is_small_snappy_and_real():
    assert DEFAULT_PACK_PATH.stat().st_size < 300 * 1024
    metadata = pq.ParquetFile(DEFAULT_PACK_PATH).metadata
    assert metadata.num_rows == 5400
    assert {metadata.row_group(0).column(i).compression for i in range(metadata.num_columns)} == {"SNAPPY"}


def test_provenance_is_there_for_a_generic_viewer(table: Any):
    plain = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert plain["gpu"] == "a100_sxm"
    assert plain["engine"] == "trtllm"
    assert plain["source"] == "measured"
    assert plain["reference_output_tokens"] == "256"
    assert plain["reference_acceptance_rate"] == "0.8"
    assert {"model", "engine_version", "library", "library_version", "build_date"} <= plain.keys()


def test_arrays_cannot_be_changed_by_a_reader(pack: TracePack):
    with pytest.raises(ValueError, match="read-only"):
        pack.columns["tps"][0, 0, 0, 0, 0] = 1.0


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"PAR1" * 10])
def test_a_file_that_is_no_parquet(content: bytes, tmp_path: Path):
    path = tmp_path / "pack.parquet"
    path.write_bytes(content)
    with pytest.raises(TracePackError, match="cannot be read"):
        read_pack(path)


def test_a_missing_file(tmp_path: Path):
    with pytest.raises(TracePackError, match=r"absent\.parquet"):
        read_pack(tmp_path / "absent.parquet")


def test_a_missing_column(table: Any, tmp_path: Path):
    with pytest.raises(TracePackError, match="lacks the columns tps"):
        read_pack(write(table.drop_columns(["tps"]), tmp_path / "p"))


def test_missing_and_reordered_rows(table: Any, tmp_path: Path):
    with pytest.raises(TracePackError, match="full grid"):
        read_pack(write(table.slice(0, 5399), tmp_path / "short"))
    backwards = table.take(pa.array(np.arange(5400)[::-1].copy()))
    with pytest.raises(TracePackError, match="full grid"):
        read_pack(write(backwards, tmp_path / "backwards"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([None] + [1.0] * 5399), "nulls"),
        (pa.array(["fast"] * 5400), "type string"),
        (pa.array([float("nan")] + [1.0] * 5399), "NaN"),
        (pa.array([float("inf")] + [1.0] * 5399), "NaN or infinity"),
    ],
)
def test_values_that_are_no_finite_numbers(table: Any, tmp_path: Path, values: Any, message: str):
    index = table.column_names.index("tps")
    with pytest.raises(TracePackError, match=f"tps: .*{message}"):
        read_pack(write(table.set_column(index, "tps", values), tmp_path / "p"))


def test_writer_refuses_what_the_reader_would(pack: TracePack, tmp_path: Path):
    path = tmp_path / "p"
    with pytest.raises(TracePackError, match="'tps' is missing"):
        write_pack(path, TracePack({k: v for k, v in pack.columns.items() if k != "tps"}, pack.metadata))
    with pytest.raises(TracePackError, match="tps: shape"):
        write_pack(path, TracePack({**pack.columns, "tps": np.ones(5400)}, pack.metadata))
    assert not path.exists()


def test_axis_columns_cover_the_grid():
    columns = axis_columns()
    assert len({tuple(row) for row in np.stack(list(columns.values()), axis=1).tolist()}) == 5400


def test_reading_a_pack_loads_neither_pandas_nor_the_kernel_library():
    code = (
        "import sys; from simulator.packs.io import *; read_pack(DEFAULT_PACK_PATH); "
        "print([name for name in ('pandas', 'aiconfigurator_core') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
