"""Measurements against a pack, and measurements made into one: what ``inferencegym traces import`` tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inferencegym.errors import InvalidValueError, UnknownNameError
from simulator.packs.building.columns import PackSettings, build_pack
from simulator.packs.building.compare_measured import ErrorSummary, error_summary
from simulator.packs.building.roofline_kernels import GPUS, MODELS, RooflineKernels
from simulator.packs.building.systems import system_named
from simulator.packs.importing.import_measurements import (
    PARAMETERS,
    Calibration,
    calibrate,
    check_enough,
    held_out_errors,
    imported_pack,
    known_model,
    usable,
)
from simulator.packs.importing.measured_figures import QUANTITIES, Figure, PackPredictor
from simulator.packs.importing.measured_limits import WeightReading, possible, reading_of_pack
from simulator.packs.importing.measurements import LeftOut, Measurements
from simulator.packs.io import TracePack
from simulator.packs.schema import TIER_NAMES

__all__ = ["ImportReport", "ImportRequest", "hold_against", "import_pack"]

MAX_REASONS = 50
"""Results left out of which an error tells the reasons; of more it tells the number."""

MAX_OUTLIER = 10.0
"""Factor between a figure and its prediction by the finished fit, beyond which it is a mistake: another
unit, another model. Real scatter and queues that went unnoticed stay below."""


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What an import is made with.

    ``model`` None takes the one that the files name; memory and price None those of the system
    (:mod:`simulator.packs.building.systems`), whose links are taken in any case.
    """

    system: str
    build_date: str
    model: str | None = None
    memory_gib: float | None = None
    cents_per_gpu_hour: float | None = None
    engine: str | None = None
    engine_version: str = "not stated"


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Measured figures beside what a pack predicts.

    ``errors`` are relative, by set: ``predicted`` by the pack itself; for an import also ``uncorrected`` by
    the roofline alone and ``held_out``, each figure predicted by a fit that did not see it.
    """

    figures: tuple[Figure, ...]
    errors: Mapping[str, tuple[float, ...]]
    left_out: tuple[LeftOut, ...]
    pack: TracePack
    notes: tuple[str, ...] = ()
    calibration: Calibration | None = None

    def summaries(self) -> dict[str, dict[str, ErrorSummary]]:
        """Errors of each set, by measured quantity and over all."""
        groups = {title: [f.quantity == name for f in self.figures] for name, title in QUANTITIES.items()}
        groups = {title: members for title, members in groups.items() if any(members)}
        groups["all"] = [True] * len(self.figures)
        return {
            kind: {
                title: error_summary([e for e, member in zip(errors, members, strict=True) if member])
                for title, members in groups.items()
            }
            for kind, errors in self.errors.items()
        }

    def document(self) -> dict[str, Any]:
        """The report as JSON-ready values."""
        rows = [
            {
                "where": figure.point.where,
                "tier": self.pack.metadata.tier_names[figure.point.tier],
                "batch": figure.point.batch,
                "prompt_tokens": figure.point.prompt_tokens,
                "output_tokens": figure.point.output_tokens,
                "quantity": figure.quantity,
                "measured": figure.measured,
                "predicted": figure.measured * (1.0 + self.errors["predicted"][index]),
                "errors": {kind: errors[index] for kind, errors in self.errors.items()},
            }
            for index, figure in enumerate(self.figures)
        ]
        summaries = {
            kind: {title: asdict(summary) for title, summary in by_title.items()}
            for kind, by_title in self.summaries().items()
        }
        document: dict[str, Any] = {
            "figures": rows,
            "summary": summaries,
            "left_out": [asdict(entry) for entry in self.left_out],
            "notes": list(self.notes),
            "metadata": asdict(self.pack.metadata),
        }
        if self.calibration is not None:
            fitted = zip(PARAMETERS, self.calibration.values, self.calibration.deviations, strict=True)
            document["parameters"] = [
                {**asdict(parameter), "value": value, "deviation": deviation}
                for parameter, value, deviation in fitted
            ]
        return document


def hold_against(measurements: Measurements, pack: TracePack) -> ImportReport:
    """Predict the measured figures from an existing pack; nothing is fitted.

    Raises ``InvalidValueError`` when there is no figure to hold it against.
    """
    figures, left_out = usable(measurements)
    figures, impossible = possible(figures, reading_of_pack(pack.metadata))
    left_out += impossible
    if not figures:
        raise InvalidValueError("usable figures", 0, "one or more", _reasons(left_out))
    errors = tuple(PackPredictor(pack).errors(figures).tolist())
    notes = _model_note(measurements.model, pack.metadata.model)
    return ImportReport(tuple(figures), {"predicted": errors}, left_out, pack, notes)


def import_pack(measurements: Measurements, request: ImportRequest) -> ImportReport:
    """Calibrate the roofline of a GPU and a model with the measurements, and build its pack.

    Raises ``InvalidValueError`` or ``UnknownNameError`` for what cannot be used.
    """
    if request.system not in GPUS:
        raise UnknownNameError("system", request.system, GPUS)
    system = system_named(request.system, request.memory_gib, request.cents_per_gpu_hour)
    figures, left_out = usable(measurements)
    check_enough(figures, _reasons(left_out))
    model = _model(measurements, request, _reasons(left_out))
    base = RooflineKernels.named(request.system, model, system.memory_gib)
    _check_memory(base, figures, system.memory_gib)
    figures, impossible = possible(figures, WeightReading.of(base))
    left_out += impossible
    settings = PackSettings(
        build_date=request.build_date,
        memory_limit_gb=system.memory_gib,
        cents_per_gpu_hour=system.cents_per_gpu_hour,
        kv_link_gb_per_s=system.kv_link_gb_per_s,
        weight_load_gb_per_s=system.weight_load_gb_per_s,
    )
    calibration = calibrate(base, settings, figures, _reasons(left_out))
    uncorrected = PackPredictor(build_pack(base, settings)).errors(figures)
    held_out = held_out_errors(base, settings, figures)
    origin = (
        f"{len(figures)} figures of {_names(measurements.files)}, "
        f"median error held out {error_summary(held_out).median_absolute:.1%}"
    )
    engine = request.engine or measurements.engine or "not stated"
    pack = imported_pack(base, settings, calibration, figures, origin, engine, request.engine_version)
    errors = {
        "uncorrected": tuple(uncorrected.tolist()),
        "predicted": tuple(PackPredictor(pack).errors(figures).tolist()),
        "held_out": tuple(held_out.tolist()),
    }
    _check_outliers(figures, errors["predicted"])
    notes = _model_note(measurements.model, base.info.model)
    return ImportReport(tuple(figures), errors, left_out, pack, notes, calibration)


def _model(measurements: Measurements, request: ImportRequest, reasons: str) -> str:
    if request.model is not None:
        return known_model(request.model)
    if measurements.model is None:
        allowed = f"one of {', '.join(MODELS)}"
        raise InvalidValueError("--model", None, allowed, f"The files do not name their model. {reasons}")
    return known_model(measurements.model)


def _model_note(measured: str | None, used: str) -> tuple[str, ...]:
    """A word when the files name another model than the one that is used."""
    if measured is None:
        return ()
    try:
        same = known_model(measured) == known_model(used)
    except LookupError:
        same = measured == used
    return () if same else (f"The files name the model {measured!r}; the pack is of {used!r}.",)


def _check_memory(base: RooflineKernels, figures: Sequence[Figure], memory_gib: float) -> None:
    for tier in sorted({figure.point.tier for figure in figures}):
        memory = base.memory(tier)
        longest = max(f.point.prompt_tokens + f.point.output_tokens for f in figures if f.point.tier == tier)
        if memory.kv_pool_tokens < longest:
            raise InvalidValueError(
                "memory_gib",
                memory_gib,
                f"more than the weights of {TIER_NAMES[tier]} ({memory.weights_bytes / 2**30:.1f} GiB), the "
                "engine's reserves and one sequence take",
                "Engines of several GPUs cannot be imported: the roofline is of one.",
            )


def _check_outliers(figures: Sequence[Figure], errors: Sequence[float]) -> None:
    """The fit passes over a single figure that is far off, and so would its median: it must not go unseen."""
    for figure, error in zip(figures, errors, strict=True):
        ratio = 1.0 + error
        if not 1.0 / MAX_OUTLIER <= ratio <= MAX_OUTLIER:
            raise InvalidValueError(
                f"{figure.point.where}, {QUANTITIES[figure.quantity]}",
                figure.measured,
                f"at most a factor of {MAX_OUTLIER:g} from what the other figures say, "
                f"{figure.measured * ratio:.4g}",
                "Are its units those of the format? Leave it out, or mend it.",
            )


def _names(files: Sequence[str]) -> str:
    return ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")


def _reasons(left_out: Sequence[LeftOut]) -> str:
    """Why there is so little, a line each."""
    lines = [f"{entry.where}: {entry.reason}" for entry in left_out[:MAX_REASONS]]
    if len(left_out) > MAX_REASONS:
        lines.append(f"and {len(left_out) - MAX_REASONS} more")
    return "\n  ".join(["Left out:", *lines]) if lines else ""
