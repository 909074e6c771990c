"""Build a trace pack: ``python -m simulator.packs.building.build_traces --help``.

Without arguments it writes the pack of this directory (Llama-3.1-8B on an A100 with 40 GiB, TensorRT-LLM,
measured kernels), which needs the extra ``traces``. ``--source roofline`` needs nothing beyond the server's
own dependencies. ``--check`` builds in memory and compares with the file instead of writing it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np

from inferencegym.errors import InferenceGymError, InvalidValueError
from inferencegym.options import OptionParser
from simulator.packs.building.columns import PackSettings, build_pack
from simulator.packs.building.kernel_sources import KernelSource
from simulator.packs.building.measured_kernels import MeasuredKernels
from simulator.packs.building.roofline_kernels import RooflineKernels
from simulator.packs.building.systems import system_named
from simulator.packs.io import DEFAULT_PACK_PATH, TracePack, read_pack, write_pack
from simulator.packs.schema import VALUE_COLUMNS

__all__ = ["CHECK_TOLERANCE", "GROUP_SIZES", "BuildOptions", "build", "differences", "main"]

GROUP_SIZES = (1, 2, 4, 8)
"""GPUs of an engine (tensor parallelism)."""

CHECK_TOLERANCE = 1e-9
"""Largest relative difference between a rebuilt and a stored value that ``--check`` accepts."""


def differences(built: TracePack, stored: TracePack) -> list[str]:
    """What distinguishes two packs beyond build date and rounding, one sentence each."""
    found: list[str] = []
    dated = replace(built.metadata, build_date=stored.metadata.build_date)
    if dated != stored.metadata:
        found.append("the metadata differ")
    for name in VALUE_COLUMNS:
        new, old = built.columns[name], stored.columns[name]
        worst = float(np.max(np.abs(new - old) / np.maximum(np.abs(old), 1e-12)))
        if worst > CHECK_TOLERANCE:
            found.append(f"{name} differs by up to {worst:.3g} (relative)")
    return found


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """What a pack is built from. None takes the system's own figure (see ``systems.SYSTEMS``)."""

    system: str = "a100_sxm"
    model: str = "meta-llama/Meta-Llama-3.1-8B"
    backend: str = "trtllm"
    backend_version: str | None = None
    gpus: int = 1
    source: str = "measured"
    memory_gib: float | None = None
    cents_per_gpu_hour: float | None = None
    cost_cap_cents_per_1k: float = PackSettings(build_date="").cost_cap_cents_per_1k
    build_date: date | None = None

    @property
    def file_name(self) -> str:
        """For example ``h100_sxm_meta-llama-3.1-8b_vllm.parquet``."""
        parts = [self.system, self.model.rpartition("/")[2].lower()]
        parts += [f"tp{self.gpus}"] if self.gpus > 1 else []
        return "_".join([*parts, self.backend if self.source == "measured" else self.source]) + ".parquet"


def build(options: BuildOptions) -> TracePack:
    """Build a pack in memory.

    Raises:
        TracePackError: the library is absent, or has no timings of the combination.
        InvalidValueError, UnknownNameError: an option that nothing can be built from.
    """
    system = system_named(options.system, options.memory_gib, options.cents_per_gpu_hour)
    if options.gpus not in GROUP_SIZES:
        raise InvalidValueError("gpus", options.gpus, ", ".join(map(str, GROUP_SIZES)))
    if options.source == "roofline":
        if options.gpus > 1:
            raise InvalidValueError("gpus", options.gpus, "1 with the roofline, which knows no links")
        kernels: KernelSource = RooflineKernels.named(options.system, options.model, system.memory_gib)
    else:
        kernels = MeasuredKernels(
            options.system,
            options.model,
            options.backend,
            options.backend_version,
            system.memory_gib,
            options.gpus,
        )
    settings = PackSettings(
        build_date=(options.build_date or datetime.now(UTC).date()).isoformat(),
        memory_limit_gb=system.memory_gib,
        cents_per_gpu_hour=system.cents_per_gpu_hour,
        cost_cap_cents_per_1k=options.cost_cap_cents_per_1k,
        kv_link_gb_per_s=system.kv_link_gb_per_s,
        weight_load_gb_per_s=system.weight_load_gb_per_s,
    )
    return build_pack(kernels, settings)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code (0 done or equal, 1 differs, 2 cannot be built)."""
    args = vars(_parser().parse_args(argv))
    output, check = args.pop("output"), args.pop("check")
    try:
        pack = build(BuildOptions(**args))
        if check:
            return _check(pack, output)
        write_pack(output, pack)
    except InferenceGymError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(f"wrote {output} ({output.stat().st_size / 1024:.0f} KiB)\n")
    return 0


def _check(pack: TracePack, path: Path) -> int:
    found = differences(pack, read_pack(path))
    for sentence in found:
        sys.stderr.write(f"{path}: {sentence}\n")
    if not found:
        sys.stdout.write(f"{path}: equal to a fresh build within {CHECK_TOLERANCE:g}\n")
    return 1 if found else 0


def _positive(text: str) -> float:
    value = float(text)
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not allowed; allowed: a finite number above 0")
    return value


def _parser() -> argparse.ArgumentParser:
    defaults = BuildOptions()
    parser = OptionParser(prog="python -m simulator.packs.building.build_traces", description=__doc__)
    parser.add_argument("--source", choices=("measured", "roofline"), default=defaults.source)
    parser.add_argument("--system", default=defaults.system, help="GPU, by the library's name")
    parser.add_argument("--model", default=defaults.model, help="Hugging Face id")
    parser.add_argument("--backend", default=defaults.backend, help="trtllm, vllm or sglang (measured only)")
    parser.add_argument(
        "--backend-version", default=None, help="default: the newest the library has timings of"
    )
    parser.add_argument("--gpus", type=int, default=defaults.gpus, help="tensor-parallel size")
    parser.add_argument("--memory-gib", type=_positive, default=None, help="default: the system's")
    parser.add_argument("--cents-per-gpu-hour", type=_positive, default=None, help="default: the system's")
    parser.add_argument("--cost-cap-cents-per-1k", type=_positive, default=defaults.cost_cap_cents_per_1k)
    parser.add_argument("--output", type=Path, default=DEFAULT_PACK_PATH)
    parser.add_argument("--build-date", type=date.fromisoformat, default=None)
    parser.add_argument("--check", action="store_true", help="compare with --output, write nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
