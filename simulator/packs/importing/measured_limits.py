"""What no GPU can have measured: a forward pass that is shorter than reading the model's weights once.

Every output token after the first takes one such pass, and so does the first; only drafts give several
tokens a pass. It holds whatever the engine, and whatever part of the prompt comes from a prefix cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from inferencegym.errors import InvalidValueError
from simulator.packs.building.roofline_kernels import GPUS, RooflineKernels
from simulator.packs.importing.import_measurements import known_model
from simulator.packs.importing.load_test import LEAST_TPOT_MS, LEAST_TTFT_MS
from simulator.packs.importing.measured_figures import QUANTITIES, Figure
from simulator.packs.importing.measurements import LeftOut
from simulator.packs.schema import QUANT_TIERS, TIER_NAMES, PackMetadata

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
    """The figures that can be. With one that cannot, all of its run are left out: it is not what it says.

    Without a reading only what nothing served can be is refused.

    Raises ``InvalidValueError`` for one that is in seconds.
    """
    figures = list(figures)
    if reading is None:
        for figure in figures:
            _check_unit(figure)
        return figures, ()
    reasons = {figure.point: reason for figure in figures if (reason := _impossible(figure, reading))}
    left_out = tuple(LeftOut(point.where, reason) for point, reason in reasons.items())
    return [figure for figure in figures if figure.point not in reasons], left_out


def _check_unit(figure: Figure) -> None:
    """Raises ``InvalidValueError`` for a time that is too short for any model and GPU."""
    latency_s = LEAST_TPOT_MS * figure.point.output_tokens / 1e3
    least = {"tpot_ms": LEAST_TPOT_MS, "ttft_ms": LEAST_TTFT_MS, "latency_s": latency_s}[figure.quantity]
    if figure.measured < least:
        where = f"{figure.point.where}, {QUANTITIES[figure.quantity]}"
        raise InvalidValueError(where, figure.measured, f"{least:.3g} or more", _unit_hint(figure))


def _unit_hint(figure: Figure) -> str:
    offline = figure.quantity == "latency_s"
    return "Its unit is another one." if offline else "Is it in seconds? Give milliseconds."


def _field(figure: Figure) -> str:
    tpot, ttft = figure.point.fields
    return {"tpot_ms": tpot, "ttft_ms": ttft}.get(figure.quantity, figure.quantity)


def _impossible(figure: Figure, reading: WeightReading) -> str:
    """Why a figure cannot be, or nothing."""
    offline = figure.quantity == "latency_s"
    unit, passes = ("s", figure.point.output_tokens / 1e3) if offline else ("ms", 1.0)
    least = reading.least_ms[figure.point.tier] * passes
    if figure.measured >= least:
        return ""
    weights = f"the {reading.tier_names[figure.point.tier]} weights of {reading.of_what}"
    takes = f"reading {weights} takes {least:.3g} {unit} at its peak bandwidth"
    if figure.measured < _SECONDS_BELOW * least:
        raise InvalidValueError(
            f"{figure.point.where}, {QUANTITIES[figure.quantity]}",
            figure.measured,
            f"{least:.3g} or more: {takes}",
            _unit_hint(figure),
        )
    return (
        f"{_field(figure)} is {figure.measured:.4g} {unit}, and {takes}: without speculative decoding it "
        "cannot be; or is it another --system, --model or --tier, or several GPUs?"
    )
