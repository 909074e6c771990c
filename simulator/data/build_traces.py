"""Build a trace pack: ``python -m simulator.data.build_traces --help``.

Without arguments it writes the pack of this directory (Llama-3.1-8B on an A100 with 40 GiB, TensorRT-LLM,
measured kernels), which needs the extra ``traces``. ``--source roofline`` needs nothing beyond the server's
own dependencies. ``--check`` builds in memory and compares with the file instead of writing it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np

from inferencegym.errors import InferenceGymError
from simulator.data.kernel_sources import KernelSource
from simulator.data.measured_kernels import MeasuredKernels
from simulator.data.pack_columns import PackSettings, build_pack
from simulator.data.pack_io import DEFAULT_PACK_PATH, TracePack, read_pack, write_pack
from simulator.data.pack_schema import VALUE_COLUMNS
from simulator.data.roofline_kernels import RooflineKernels

__all__ = ["CHECK_TOLERANCE", "differences", "main"]

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


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code (0 done or equal, 1 differs, 2 cannot be built)."""
    args = _parser().parse_args(argv)
    try:
        pack = build_pack(_source(args), _settings(args))
        if args.check:
            return _check(pack, args.output)
        write_pack(args.output, pack)
    except InferenceGymError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(f"wrote {args.output} ({args.output.stat().st_size / 1024:.0f} KiB)\n")
    return 0


def _check(pack: TracePack, path: Path) -> int:
    found = differences(pack, read_pack(path))
    for sentence in found:
        sys.stderr.write(f"{path}: {sentence}\n")
    if not found:
        sys.stdout.write(f"{path}: equal to a fresh build within {CHECK_TOLERANCE:g}\n")
    return 1 if found else 0


def _source(args: argparse.Namespace) -> KernelSource:
    if args.source == "roofline":
        return RooflineKernels.named(args.system, args.model, args.memory_gib)
    return MeasuredKernels(args.system, args.model, args.backend, args.backend_version, args.memory_gib)


def _settings(args: argparse.Namespace) -> PackSettings:
    return PackSettings(
        build_date=args.build_date.isoformat(),
        memory_limit_gb=args.memory_gib,
        cents_per_gpu_hour=args.cents_per_gpu_hour,
        cost_cap_cents_per_1k=args.cost_cap_cents_per_1k,
    )


def _positive(text: str) -> float:
    value = float(text)
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not allowed; allowed: a finite number above 0")
    return value


def _parser() -> argparse.ArgumentParser:
    defaults = PackSettings(build_date="")
    parser = argparse.ArgumentParser(prog="python -m simulator.data.build_traces", description=__doc__)
    parser.add_argument("--source", choices=("measured", "roofline"), default="measured")
    parser.add_argument("--system", default="a100_sxm", help="GPU, by the library's name")
    parser.add_argument("--model", default="meta-llama/Meta-Llama-3.1-8B", help="Hugging Face id")
    parser.add_argument("--backend", default="trtllm", help="trtllm, vllm or sglang (measured only)")
    parser.add_argument(
        "--backend-version", default=None, help="default: the newest the library has timings of"
    )
    parser.add_argument("--memory-gib", type=_positive, default=defaults.memory_limit_gb)
    parser.add_argument("--cents-per-gpu-hour", type=_positive, default=defaults.cents_per_gpu_hour)
    parser.add_argument("--cost-cap-cents-per-1k", type=_positive, default=defaults.cost_cap_cents_per_1k)
    parser.add_argument("--output", type=Path, default=DEFAULT_PACK_PATH)
    parser.add_argument("--build-date", type=date.fromisoformat, default=datetime.now(UTC).date())
    parser.add_argument("--check", action="store_true", help="compare with --output, write nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
