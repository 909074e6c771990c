"""What no GPU can have measured: a forward pass that is shorter than reading the model's weights once.

Every output token after the first takes one such pass, and so does the first; only drafts give several
tokens a pass. It holds whatever the engine, and whatever part of the prompt comes from a prefix cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simulator.data.import_measurements import known_model
from simulator.data.measured_figures import Figure
from simulator.data.measurements import LeftOut
from simulator.data.pack_schema import QUANT_TIERS, TIER_NAMES, PackMetadata
from simulator.data.roofline_kernels import GPUS, RooflineKernels

__all__ = ["WeightReading", "possible", "reading_of_pack"]

_SECONDS_BELOW = 0.02
"""Share of the least time below which a figure is not of a faster deployment but in seconds: drafts, tiers
and several GPUs give a factor of 8 each at most, and not all of them at once."""


@dataclass(frozen=True, slots=True)
class WeightReading:
    """Least time of a forward pass, ms by tier, and of what."""

    least_ms: tuple[float, ...]
    tier_names: tuple[str, ...]
    of_what: str

    @classmethod
    def of(
        cls, kernels: RooflineKernels, tier_names: tuple[str, ...] = TIER_NAMES, gpus: int = 1
    ) -> WeightReading:
        """The one of a model on one GPU, or on several that share its weights."""
        info = kernels.info
        least = tuple(kernels.least_step_ms(tier) / gpus for tier in QUANT_TIERS)
        several = f"{gpus} x " if gpus > 1 else ""
        return cls(least, tier_names, f"{info.model} from the memory of {several}{info.gpu}")


def reading_of_pack(metadata: PackMetadata) -> WeightReading | None:
    """That of the GPU and the model of a pack; None where the data sheet of either is not known here."""
    try:
        model = known_model(metadata.model)
    except LookupError:
        return None
    if metadata.gpu not in GPUS:
        return None
    kernels = RooflineKernels.named(metadata.gpu, model, metadata.memory_limit_gb)
    return WeightReading.of(kernels, metadata.tier_names, metadata.gpus_per_engine)


def possible(
    figures: Iterable[Figure], reading: WeightReading | None
) -> tuple[list[Figure], tuple[LeftOut, ...]]:
    """The figures that can be. With one that cannot, all of its run are left out: it is not what it says."""
    figures = list(figures)
    if reading is None:
        return figures, ()
    reasons = {figure.point: reason for figure in figures if (reason := _impossible(figure, reading))}
    left_out = tuple(LeftOut(point.where, reason) for point, reason in reasons.items())
    return [figure for figure in figures if figure.point not in reasons], left_out


def _impossible(figure: Figure, reading: WeightReading) -> str:
    """Why a figure cannot be, or nothing."""
    tier, passes = figure.point.tier, 1.0
    measured_ms = figure.measured
    if figure.quantity == "latency_s":
        passes, measured_ms = figure.point.output_tokens, figure.measured * 1e3
    least_ms = reading.least_ms[tier] * passes
    if measured_ms >= least_ms:
        return ""
    unit = " s" if figure.quantity == "latency_s" else " ms"
    least = least_ms / (1e3 if figure.quantity == "latency_s" else 1.0)
    if measured_ms < _SECONDS_BELOW * least_ms:
        why = "is it in seconds?" if unit == " ms" else "is it of the whole batch?"
    else:
        why = (
            "without speculative decoding it cannot be; or is it another --system, --model or --tier, or "
            "several GPUs?"
        )
    return (
        f"{figure.quantity} is {figure.measured:.4g}{unit}, and reading the {reading.tier_names[tier]} "
        f"weights of {reading.of_what} takes {least:.3g}{unit} at its peak bandwidth: {why}"
    )
