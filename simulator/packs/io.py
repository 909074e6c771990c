"""Read and write trace packs (Parquet, snappy). The only module of the simulator that needs pyarrow."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from inferencegym.errors import InvalidValueError, TracePackError
from simulator.packs.schema import AXES, GRID_SHAPE, VALUE_COLUMNS, PackMetadata
from simulator.packs.whole_file import write_whole

__all__ = ["DEFAULT_PACK_PATH", "PACK_SUFFIX", "TracePack", "axis_columns", "read_pack", "write_pack"]

PACK_SUFFIX = ".parquet"
"""Ending of a pack's file name: what tells a path from a name, and a pack from other files in a folder."""

DEFAULT_PACK_PATH = Path(__file__).parents[1] / "data" / "traces_llama3_8b.parquet"

pa: Any = import_module("pyarrow")  # pyarrow ships no type information
pq: Any = import_module("pyarrow.parquet")

Grid = npt.NDArray[np.float64]

GRID_ROWS = math.prod(GRID_SHAPE)
FILE_BYTES_MAX = 16 * 1024 * 1024
"""A pack takes 0.1–0.3 MB."""
UNPACKED_BYTES_MAX = 64 * 1024 * 1024
"""Its eleven columns of numbers take half a megabyte."""
COLUMNS_MAX, ROW_GROUPS_MAX = 64, 64
FOOTER_BYTES_MAX, FOOTER_ENTRIES_MAX = 1024 * 1024, 10_000
_NUMBERS = ("INT32", "INT64", "FLOAT", "DOUBLE")
"""Parquet's physical types of numbers."""


@dataclass(frozen=True, slots=True)
class TracePack:
    """A pack in memory: one float64 array of ``GRID_SHAPE`` per value column, and the metadata."""

    columns: Mapping[str, Grid]
    metadata: PackMetadata

    @property
    def step_ms(self) -> Grid:
        """Verify-step time, (batch, spec_length, quant_tier, prompt): it does not depend on kv_budget."""
        expected = self.metadata.reference_tokens_per_step()
        return self.columns["tpot_ms"][:, 0] * expected[None, :, None, None]

    @property
    def prefill_ms(self) -> Grid:
        """Prefill of one prompt, (quant_tier, prompt): it depends on nothing else."""
        return (self.columns["ttft_p50_ms"][:, 0] - 0.5 * self.step_ms)[0, 0]


def axis_columns() -> dict[str, npt.NDArray[Any]]:
    """The five axis columns of the full grid, in row order (float64 for ``kv_budget``, else int32)."""
    meshes = np.meshgrid(*(np.asarray(values) for _, values in AXES), indexing="ij")
    kinds = (np.float64 if name == "kv_budget" else np.int32 for name, _ in AXES)
    return {
        name: mesh.ravel().astype(kind) for (name, _), mesh, kind in zip(AXES, meshes, kinds, strict=True)
    }


def write_pack(path: Path, pack: TracePack) -> None:
    """Write a pack, whole or not at all.

    Raises:
        TracePackError: a column is missing, misshapen or not finite.
        InvalidValueError: the place cannot be written to.
    """
    arrays: dict[str, npt.NDArray[Any]] = axis_columns()
    for name in VALUE_COLUMNS:
        arrays[name] = _checked(name, pack.columns).ravel()
    table = pa.table(arrays).replace_schema_metadata(pack.metadata.to_parquet())
    try:
        write_whole(path, lambda beside: pq.write_table(table, beside, compression="snappy"))
    except OSError as error:
        raise InvalidValueError("output", str(path), "a file that can be written", _reason(error)) from None


def read_pack(path: Path | str) -> TracePack:
    """Read a pack and hold it to the schema.

    Raises ``TracePackError`` when the file is missing or no Parquet, when a column is missing, when the
    rows are not the full grid in C order, or when a value is not finite.
    """
    path = Path(path)
    table = _read_table(path)
    metadata = PackMetadata.from_parquet_schema(table.schema)
    absent = [name for name in (*dict(AXES), *VALUE_COLUMNS) if name not in table.column_names]
    if absent:
        raise TracePackError(f"trace pack {path.name!r} lacks the columns {', '.join(absent)}.")
    for name, expected in axis_columns().items():
        if not np.array_equal(_to_numpy(name, table), expected):
            raise TracePackError(
                f"trace pack {path.name!r}: column {name!r} is not the full grid in C order.",
                f"It needs {expected.size} rows over the axes {', '.join(dict(AXES))}.",
            )
    columns = {name: _to_numpy(name, table).reshape(GRID_SHAPE) for name in VALUE_COLUMNS}
    return TracePack({name: _checked(name, columns) for name in VALUE_COLUMNS}, metadata)


def _read_table(path: Path) -> Any:
    """The file as a ``pyarrow.Table``.

    ``ParquetFile`` and not ``read_table``: the latter imports pandas where it finds it, 0.4 s and 60 MB.
    """
    try:
        _check_file(path, path.stat())  # before it is opened: a pipe would be waited for
        with (
            path.open("rb") as source,
            pq.ParquetFile(
                source,
                thrift_string_size_limit=FOOTER_BYTES_MAX,
                thrift_container_size_limit=FOOTER_ENTRIES_MAX,
            ) as file,
        ):
            _check_footer(path, file)
            return file.read([*dict(AXES), *VALUE_COLUMNS], use_threads=False)
    except (OSError, pa.ArrowException) as error:
        # Not the whole path: clients of a server may read this, too.
        raise TracePackError(
            f"trace pack {path.name!r} cannot be read: {_reason(error)}.",
            "A pack is a Parquet file that `inferencegym traces build` or `traces import` has written.",
        ) from None


def _check_file(path: Path, status: os.stat_result) -> None:
    """Raises TracePackError: no file, or one that is far larger than a pack."""
    if not stat.S_ISREG(status.st_mode):
        raise TracePackError(f"trace pack {path.name!r} cannot be read: it is no regular file.")
    _check_bound(path, "bytes", status.st_size, FILE_BYTES_MAX)


def _check_footer(path: Path, file: Any) -> None:
    """What a file says of itself, before anything of it is decoded: a few bytes can stand for many.

    Raises TracePackError that names the figure and its limit.
    """
    footer = file.metadata
    _check_bound(path, "rows", footer.num_rows, GRID_ROWS)
    _check_bound(path, "columns", footer.num_columns, COLUMNS_MAX)
    _check_bound(path, "row groups", footer.num_row_groups, ROW_GROUPS_MAX)
    _check_bound(path, "bytes of metadata", footer.serialized_size, FOOTER_BYTES_MAX)
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    unpacked = sum(group.total_byte_size for group in groups)  # whole numbers
    _check_bound(path, "bytes unpacked", unpacked, UNPACKED_BYTES_MAX)
    for column in file.schema:
        if column.path in (*dict(AXES), *VALUE_COLUMNS) and column.physical_type not in _NUMBERS:
            raise TracePackError(
                f"trace pack {path.name!r}: {column.name}: type {column.logical_type.type.lower()} "
                f"({column.physical_type}) is not allowed; allowed: numbers."
            )


def _check_bound(path: Path, what: str, count: int, most: int) -> None:
    if count > most:
        raise TracePackError(
            f"trace pack {path.name!r}: {count} {what} are not allowed; allowed: at most {most}.",
            "A pack is a Parquet file that `inferencegym traces build` or `traces import` has written.",
        )


def _reason(error: Exception) -> str:
    """Why, without the path that pyarrow repeats."""
    code = error.errno if isinstance(error, OSError) else None
    return os.strerror(code) if code else str(error).rstrip(".")


def _to_numpy(name: str, table: Any) -> npt.NDArray[Any]:
    """A column without a detour over pandas. Nulls and non-numbers raise ``TracePackError``."""
    column = table.column(name).combine_chunks()
    if column.null_count or not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise TracePackError(f"{name}: nulls or type {column.type} are not allowed; allowed: numbers.")
    return np.from_dlpack(column)


def _checked(name: str, columns: Mapping[str, Grid]) -> Grid:
    """The named column as float64, contiguous, after checks of presence, shape and finiteness."""
    if name not in columns:
        raise TracePackError(f"trace pack: value column {name!r} is missing.")
    values = np.ascontiguousarray(columns[name], dtype=np.float64)
    if values.shape != GRID_SHAPE:
        raise TracePackError(f"{name}: shape {values.shape} is not allowed; allowed: {GRID_SHAPE}.")
    if not np.isfinite(values).all():
        raise TracePackError(f"{name}: NaN or infinity is not allowed; allowed: finite values.")
    return values
