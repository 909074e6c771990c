"""``inferencegym traces list | info | build | validate | plot``: trace packs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from inferencegym.errors import InvalidValueError, TracePackError

__all__ = [
    "build_pack",
    "find_pack",
    "list_packs",
    "plot_pack",
    "show_pack",
    "tell_how_to_play",
    "validate_pack",
]

_PACK_HELP = "A pack's name or file; default the one in use."
PackArgument = Annotated[str | None, typer.Argument(metavar="[NAME|FILE]", help=_PACK_HELP)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON only.")]


def find_pack(pack: str | None) -> Path:
    """The file of a pack that is given by name or path. Raises UnknownNameError, TracePackError."""
    from simulator.packs.io import PACK_SUFFIX
    from simulator.packs.on_offer import pack_path

    if pack is not None and ("/" in pack or pack.endswith(PACK_SUFFIX) or Path(pack).is_file()):
        return Path(pack)
    return pack_path(pack)


def list_packs(as_json: JsonOption = False) -> None:
    """List the trace packs that tasks can be played with."""
    from rich.console import Console
    from rich.table import Table

    from inferencegym.cli.show import print_json
    from simulator.packs.io import read_pack
    from simulator.packs.on_offer import known_packs, pack_name, pack_path

    path_in_use = pack_path()
    used = pack_name(path_in_use)
    rows: list[dict[str, Any]] = []
    for name, path in {**known_packs(), used: path_in_use}.items():
        try:
            metadata = read_pack(path).metadata
        except TracePackError as error:  # one broken file must not hide the others
            typer.secho(f"left out: {error}", fg="yellow", err=True)
            continue
        fields = ("gpu", "gpus_per_engine", "model", "engine", "engine_version", "source", "tier_names")
        rows.append(
            {"name": name, **{field: getattr(metadata, field) for field in fields}, "used": name == used}
        )
    if as_json:
        print_json(rows)
        return
    table = Table("pack", "GPU", "model", "engine", "tiers", "source")
    table.columns[0].no_wrap = True
    table.columns[2].overflow = "fold"
    for row in rows:
        gpus = row["gpu"] if row["gpus_per_engine"] == 1 else f"{row['gpus_per_engine']} x {row['gpu']}"
        mark = " *" if row["used"] else ""
        engine = f"{row['engine']} {row['engine_version']}"
        table.add_row(
            row["name"] + mark,
            gpus,
            row["model"].rpartition("/")[2],
            engine,
            ", ".join(row["tier_names"]).replace("(estimated)", "est."),
            row["source"],
        )
    Console().print(table)
    Console().print("* in use; INFERENCEGYM_TRACE_PACK or config.trace_pack names another")


def show_pack(pack: PackArgument = None, as_json: JsonOption = False) -> None:
    """Show where a trace pack comes from and what it covers."""
    from rich.console import Console
    from rich.table import Table

    from inferencegym.cli.show import print_json
    from simulator.packs.io import read_pack

    where = find_pack(pack)
    content = read_pack(where)
    metadata: dict[str, Any] = asdict(content.metadata)
    ranges = {name: [float(grid.min()), float(grid.max())] for name, grid in content.columns.items()}
    rows = next(iter(content.columns.values())).size
    if as_json:
        print_json({"rows": rows, "metadata": metadata, "ranges": ranges})
        return
    table = Table("field", "value", title=f"{where.name}: {rows} rows", title_justify="left")
    for name, value in metadata.items():
        table.add_row(name, _text(value))
    for name, (low, high) in ranges.items():
        table.add_row(name, f"{low:.4g} to {high:.4g}")
    Console().print(table)


def build_pack(
    system: Annotated[str, typer.Option(help="GPU, by aiconfigurator's name: h100_sxm, l40s, …")],
    model: Annotated[
        str, typer.Option(help="Dense model, Hugging Face id.")
    ] = "meta-llama/Meta-Llama-3.1-8B",
    backend: Annotated[str, typer.Option(help="trtllm, vllm or sglang.")] = "vllm",
    backend_version: Annotated[
        str | None, typer.Option(help="Default: the newest that was measured.")
    ] = None,
    gpus: Annotated[int, typer.Option("--gpus", "--tp", help="Tensor-parallel size: 1, 2, 4 or 8.")] = 1,
    source: Annotated[str, typer.Option(help="measured (extra traces), or roofline.")] = "measured",
    memory_gib: Annotated[
        float | None, typer.Option(help="Memory for the engine on each GPU, at most 80; default the GPU's.")
    ] = None,
    cents_per_gpu_hour: Annotated[float | None, typer.Option(help="Price; default a list price.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="File to write; default a name made of these, here.")
    ] = None,
) -> None:
    """Build a trace pack for a GPU, a model and an engine from measured kernels."""
    from agents.compare.output_files import check_writable
    from simulator.packs.building.build_traces import BuildOptions, build
    from simulator.packs.checks import findings
    from simulator.packs.io import PACK_SUFFIX, write_pack

    if source not in ("measured", "roofline"):
        raise InvalidValueError("source", source, "measured or roofline")
    options = BuildOptions(
        system, model, backend, backend_version, gpus, source, memory_gib, cents_per_gpu_hour
    )
    path = output or Path(options.file_name)
    check_writable("--output", path, PACK_SUFFIX)
    pack = build(options)
    write_pack(path, pack)
    typer.echo(f"wrote {path} ({path.stat().st_size / 1024:.0f} KiB): {', '.join(pack.metadata.tier_names)}")
    for finding in findings(pack):
        typer.echo(f"note: {finding}")
    tell_how_to_play(path)


def tell_how_to_play(path: Path) -> None:
    """The line under a pack that was just written."""
    typer.echo(f"play with it: INFERENCEGYM_TRACE_PACK={path} inferencegym serve")


def validate_pack(pack: PackArgument = None) -> None:
    """Hold a pack to the schema and to physics; exit code 1 if it fails."""
    from simulator.packs.checks import faults, findings
    from simulator.packs.io import read_pack

    file = find_pack(pack)
    content = read_pack(file)
    found = faults(content)
    for fault in found:
        typer.secho(f"fault: {fault}", fg="red", err=True)
    for finding in findings(content):
        typer.echo(f"note: {finding}")
    if found:
        raise TracePackError(f"{file.name}: {len(found)} faults.", "Rebuild the pack, or import it again.")
    typer.echo(f"{file.name}: valid, {next(iter(content.columns.values())).size} rows")


def plot_pack(
    pack: PackArgument = None,
    output: Annotated[Path | None, typer.Option(help="PNG to write; default the pack's name, here.")] = None,
) -> None:
    """Draw a pack: the throughput-latency frontier of each tier, and where tiers cross (needs matplotlib)."""
    from agents.compare.output_files import check_writable
    from simulator.packs.building.plot import write_plot
    from simulator.packs.io import read_pack

    path = find_pack(pack)
    picture = output or Path(f"{path.stem}.png")
    check_writable("--output", picture, ".png")
    write_plot(read_pack(path), picture)
    typer.echo(f"wrote {picture}")


def _text(value: str | float | tuple[str | float, ...]) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
