"""A pack from a folder is a stranger's file: what it says of itself is bounded before anything is decoded."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inferencegym.errors import TracePackError
from simulator.packs import io as pack_io
from simulator.packs.io import DEFAULT_PACK_PATH, GRID_ROWS, read_pack


def shipped() -> Any:
    with pq.ParquetFile(DEFAULT_PACK_PATH) as file:
        return file.read()


def rewritten(path: Path, table: Any, **options: Any) -> Path:
    pq.write_table(table, path, **options)
    return path


def with_more_rows(path: Path) -> Path:
    """A few kilobytes that stand for ten million rows."""
    count = 10_000_000
    names = shipped().column_names
    zeros = pa.nulls(count, pa.float64()).fill_null(0.0)
    return rewritten(path, pa.table(dict.fromkeys(names, zeros)))


def with_texts(path: Path) -> Path:
    """One text of a megabyte, referred to by every row."""
    table = shipped()
    nowhere_else = pa.array([0] * GRID_ROWS, pa.int32())
    texts = pa.DictionaryArray.from_arrays(nowhere_else, ["x" * 1_000_000])
    return rewritten(path, table.set_column(table.column_names.index("tps"), "tps", texts))


def with_more_columns(path: Path) -> Path:
    table = shipped()
    for number in range(200):
        table = table.append_column(f"x{number}", table.column("tps"))
    return rewritten(path, table)


def with_metadata(path: Path) -> Path:
    table = shipped()
    metadata = {**table.schema.metadata, b"more": b"x" * 3_000_000}
    return rewritten(path, table.replace_schema_metadata(metadata))


def with_row_groups(path: Path) -> Path:
    return rewritten(path, shipped(), row_group_size=10)


def large(path: Path) -> Path:
    path.write_bytes(DEFAULT_PACK_PATH.read_bytes())
    os.truncate(path, pack_io.FILE_BYTES_MAX + 1)
    return path


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (with_more_rows, "10000000 rows"),
        (with_texts, "BYTE_ARRAY"),
        (with_more_columns, "columns are not allowed"),
        (with_metadata, "cannot be read|bytes of metadata"),
        (with_row_groups, "row groups"),
        (large, "bytes are not allowed"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_bomb_is_refused_before_it_is_decoded(
    make: Callable[[Path], Path], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = make(tmp_path / "bomb.parquet")

    def decoded(*_arguments: Any, **_options: Any) -> Any:
        raise AssertionError("it was decoded")

    monkeypatch.setattr(pq.ParquetFile, "read", decoded)
    with pytest.raises(TracePackError, match=told) as refused:
        read_pack(path)
    assert "bomb.parquet" in str(refused.value)
    assert str(tmp_path) not in str(refused.value)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path):
    pipe = tmp_path / "pipe.parquet"
    os.mkfifo(pipe)
    refused: list[str] = []

    def read() -> None:
        try:
            read_pack(pipe)
        except TracePackError as error:
            refused.append(str(error))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(10)
    assert refused == ["trace pack 'pipe.parquet' cannot be read: it is no regular file."]


def test_further_columns_are_passed_over(tmp_path: Path):
    table = shipped()
    noted = table.append_column("note", table.column("tps").cast(pa.string()))
    more = rewritten(tmp_path / "more.parquet", noted)
    assert (read_pack(more).step_ms == read_pack(DEFAULT_PACK_PATH).step_ms).all()
