"""Fit the roofline's efficiencies to a measured pack: ``python -m simulator.packs.building.fit_roofline``.

Prints the fitted constants (they are stored by hand as ``roofline_kernels.FITTED``) and how far the stored
ones are from the pack. Least squares on the logarithm of step and prefill times, robust against the few
cells where a kernel library switches algorithm.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from inferencegym.errors import InferenceGymError
from inferencegym.options import OptionParser
from simulator.packs.building.columns import PackSettings, build_pack
from simulator.packs.building.kernel_sources import FloatArray
from simulator.packs.building.roofline_kernels import FITTED, GPUS, MODELS, Efficiencies, RooflineKernels
from simulator.packs.io import DEFAULT_PACK_PATH, TracePack, read_pack

__all__ = ["Deviation", "deviation", "fit", "main"]

optimize: Any = import_module("scipy.optimize")  # scipy ships no type information

_BOUNDS = Efficiencies(
    matrix_compute=(1.0, 1.0, 1.0),
    matrix_memory=(1.0, 1.0, 1.0),
    cache_memory=1.0,
    prefill_attention_compute=1.0,
    elementwise_memory=1.0,
    smoothness=np.inf,
    launch_us=np.inf,
)
"""No kernel is faster than the data sheet."""

_ROBUST_SCALE = 0.05
"""Residuals beyond 5 % count linearly, not squared."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """Relative deviation of a roofline's times from a measured pack's."""

    step_median: float
    step_p95: float
    prefill_median: float
    prefill_max: float

    def __str__(self) -> str:
        return (
            f"step: median {self.step_median:.1%}, 95th percentile {self.step_p95:.1%}; "
            f"prefill: median {self.prefill_median:.1%}, largest {self.prefill_max:.1%}"
        )


def deviation(measured: TracePack, efficiencies: Efficiencies = FITTED) -> Deviation:
    """Compare a roofline pack of the same model and GPU with a measured one, all tiers and draft lengths."""
    roofline = _roofline_pack(measured, efficiencies)
    step = np.abs(roofline.step_ms / measured.step_ms - 1.0)
    prefill = np.abs(roofline.prefill_ms / measured.prefill_ms - 1.0)
    return Deviation(
        step_median=float(np.median(step)),
        step_p95=float(np.quantile(step, 0.95)),
        prefill_median=float(np.median(prefill)),
        prefill_max=float(np.max(prefill)),
    )


def fit(measured: TracePack, start: Efficiencies = FITTED) -> Efficiencies:
    """Efficiencies that bring the roofline closest to the measured pack."""

    def residuals(logs: FloatArray) -> FloatArray:
        roofline = _roofline_pack(measured, _unpack(np.exp(logs)))
        step = np.log(roofline.step_ms / measured.step_ms)
        prefill = np.log(roofline.prefill_ms / measured.prefill_ms)
        # Balance the two groups: there are 45 step cells for each prefill cell.
        weight = np.sqrt(step.size / prefill.size)
        return np.concatenate([step.ravel(), weight * prefill.ravel()])

    upper = np.log(_pack(_BOUNDS))
    result = optimize.least_squares(
        residuals,
        np.minimum(np.log(_pack(start)), upper - 1e-3),
        bounds=(np.full(upper.shape, -np.inf), upper),
        loss="soft_l1",
        f_scale=_ROBUST_SCALE,
    )
    return _unpack(np.exp(result.x))


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code (0 done, 2 the pack is unusable)."""
    parser = OptionParser(prog="python -m simulator.packs.building.fit_roofline", description=__doc__)
    parser.add_argument("--pack", type=Path, default=DEFAULT_PACK_PATH)
    try:
        pack = read_pack(parser.parse_args(argv).pack)
    except InferenceGymError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    fitted = fit(pack)
    sys.stdout.write(f"fitted  {fitted}\n        {deviation(pack, fitted)}\n")
    sys.stdout.write(f"stored  {FITTED}\n        {deviation(pack)}\n")
    return 0


def _roofline_pack(measured: TracePack, efficiencies: Efficiencies) -> TracePack:
    metadata = measured.metadata
    kernels = RooflineKernels(
        GPUS[metadata.gpu], MODELS[metadata.model], metadata.memory_limit_gb, efficiencies
    )
    settings = PackSettings(
        build_date=metadata.build_date, reference_output_tokens=metadata.reference_output_tokens
    )
    return build_pack(kernels, settings)


def _pack(efficiencies: Efficiencies) -> FloatArray:
    return np.asarray(
        [
            *efficiencies.matrix_compute,
            *efficiencies.matrix_memory,
            efficiencies.cache_memory,
            efficiencies.prefill_attention_compute,
            efficiencies.elementwise_memory,
            efficiencies.smoothness,
            efficiencies.launch_us,
        ]
    )


def _unpack(values: FloatArray) -> Efficiencies:
    numbers: list[float] = values.tolist()
    return Efficiencies(
        matrix_compute=(numbers[0], numbers[1], numbers[2]),
        matrix_memory=(numbers[3], numbers[4], numbers[5]),
        cache_memory=numbers[6],
        prefill_attention_compute=numbers[7],
        elementwise_memory=numbers[8],
        smoothness=numbers[9],
        launch_us=numbers[10],
    )


if __name__ == "__main__":
    sys.exit(main())
