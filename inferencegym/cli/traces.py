"""``inferencegym traces info``: provenance and ranges of a trace pack."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from inferencegym.cli.show import print_json
from inferencegym.registry import load

__all__ = ["show_pack"]


def show_pack(path: Path | None, as_json: bool) -> None:
    """Print a pack's metadata, and the lowest and highest value of each column.

    Raises:
        TracePackError: missing, or no trace pack.
    """
    where: Path = load("simulator.data.pack_io:DEFAULT_PACK_PATH") if path is None else path
    pack = load("simulator.data.pack_io:read_pack")(where)
    metadata: dict[str, Any] = asdict(pack.metadata)
    ranges = {name: [float(grid.min()), float(grid.max())] for name, grid in pack.columns.items()}
    rows = next(iter(pack.columns.values())).size
    if as_json:
        print_json({"rows": rows, "metadata": metadata, "ranges": ranges})
        return
    console = Console()
    table = Table("field", "value", title=f"{where.name}: {rows} rows", title_justify="left")
    for name, value in metadata.items():
        table.add_row(name, _text(value))
    for name, (low, high) in ranges.items():
        table.add_row(name, f"{low:.4g} to {high:.4g}")
    console.print(table)


def _text(value: str | float | tuple[str | float, ...]) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
