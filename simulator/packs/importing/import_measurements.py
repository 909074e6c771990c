"""Calibrate a roofline with measured figures of a deployment and make a trace pack of it.

Nine numbers are fitted (:class:`~simulator.packs.building.calibrated_kernels.Correction`), each held near "no
correction" by a prior, so that a few points correct what they bear on and leave the rest to the roofline:
maximum a posteriori, with robust residuals. How well the figures determine each number is told by its
standard deviation beside the prior's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from math import exp, log
from typing import Any

import numpy as np
import numpy.typing as npt

from inferencegym.errors import InvalidValueError, UnknownNameError
from simulator.packs.building.calibrated_kernels import CalibratedKernels, Correction
from simulator.packs.building.columns import PackSettings, build_pack
from simulator.packs.building.kernel_sources import FloatArray, KernelSource, SourceInfo
from simulator.packs.building.roofline_kernels import MODELS, RooflineKernels
from simulator.packs.importing.measured_figures import Figure, PackPredictor, figures_of
from simulator.packs.importing.measurements import LeftOut, Measurement, Measurements
from simulator.packs.io import TracePack
from simulator.packs.schema import BATCH_SIZES, QUANT_TIERS, TIER_NAMES
from simulator.packs.trace_table import MAX_DENSE_TOKENS

__all__ = [
    "MIN_BATCHES",
    "MIN_FIGURES",
    "PARAMETERS",
    "Calibration",
    "Parameter",
    "calibrate",
    "check_enough",
    "held_out_errors",
    "imported_pack",
    "known_model",
    "usable",
]

optimize: Any = import_module("scipy.optimize")  # scipy ships no type information

MIN_FIGURES = 4
"""Measured numbers (TPOT, TTFT, latencies) below which nothing is fitted."""

MIN_BATCHES = 2
"""Different running batches among them: at one alone, overhead and speed cannot be told apart."""

_FOLDS = 10


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number to be fitted. A factor is 1 without correction, an overhead 0.

    ``prior`` is the standard deviation that is thought likely before anything is measured: of the logarithm
    of a factor, of an overhead in ms.
    """

    name: str
    factor: bool
    prior: float


PARAMETERS = (
    Parameter("prefill", True, 0.3),
    Parameter("weights", True, 0.3),
    *(
        Parameter(f"weights {TIER_NAMES[tier]} against {TIER_NAMES[0]}", True, 0.15)
        for tier in QUANT_TIERS[1:]
    ),
    Parameter("rows against weights", True, 0.3),
    Parameter("attention", True, 0.3),
    Parameter("ms a step", False, 2.0),
    Parameter("ms a step and sequence", False, 0.05),
    Parameter("ms a prompt", False, 10.0),
)
"""Priors: the roofline's efficiencies were fitted on one card and differ by some tens of per cent between
kernels and cards; tiers among themselves by less. Published vLLM runs lie up to 5 ms a step behind their
kernels at batch 64 (docs/physics/packs.md), and HTTP, tokenizer and scheduler take some ms a request."""

_SIGMA = {"tpot_ms": 0.03, "ttft_ms": 0.08, "latency_s": 0.03}
"""Relative scatter of a measured figure about the best such model: TTFT varies more from run to run."""

_ROBUST = 3.0
"""Residuals beyond this many sigma count linearly, not squared."""

_MAX_FACTOR = 4.0
_MAX_OVERHEAD_MS = 500.0

_PREFILL, _WEIGHTS, _TIERS = 0, 1, slice(2, 1 + len(QUANT_TIERS))
_ROWS, _ATTENTION = 1 + len(QUANT_TIERS), 2 + len(QUANT_TIERS)


@dataclass(frozen=True, slots=True)
class Calibration:
    """A fitted correction.

    Attributes:
        correction: what :class:`CalibratedKernels` takes.
        values: the fitted numbers in the order of ``PARAMETERS``; factors as such, overheads in ms.
        deviations: their standard deviations after the fit, comparable with ``Parameter.prior``.
    """

    correction: Correction
    values: tuple[float, ...]
    deviations: tuple[float, ...]


def known_model(name: str) -> str:
    """The roofline's name for a model: itself, or the one a tuned variant of it has the shape of.

    Raises ``UnknownNameError`` with the known ones.
    """
    if name in MODELS:
        return name
    by_key = {_model_key(known): known for known in reversed(MODELS)}
    if _model_key(name) not in by_key:
        raise UnknownNameError("model", name, MODELS)
    return by_key[_model_key(name)]


def _model_key(name: str) -> str:
    """``meta-llama/Llama-3.1-8B-Instruct`` and ``meta-llama/Meta-Llama-3.1-8B`` have one."""
    words = name.rsplit("/", 1)[-1].casefold().split("-")
    return "-".join(word for word in words if word not in ("meta", "instruct", "chat", "it", "hf"))


def usable(measurements: Measurements) -> tuple[list[Figure], tuple[LeftOut, ...]]:
    """The figures inside a pack's grid, and all that is left out."""
    inside: list[Measurement] = []
    left_out = list(measurements.left_out)
    for point in measurements.points:
        longest = point.prompt_tokens + point.output_tokens
        if point.batch > BATCH_SIZES[-1]:
            reason = f"batch: {point.batch:.0f} sequences decode together; a pack ends at {BATCH_SIZES[-1]}"
            left_out.append(LeftOut(point.where, reason))
        elif longest > MAX_DENSE_TOKENS:
            reason = (
                f"prompt_tokens + output_tokens: contexts grow to {longest:.0f} tokens; the simulator's "
                f"tables end at {MAX_DENSE_TOKENS}"
            )
            left_out.append(LeftOut(point.where, reason))
        else:
            inside.append(point)
    return figures_of(inside), tuple(left_out)


def check_enough(figures: Sequence[Figure], hint: str = "") -> None:
    """Raise ``InvalidValueError`` for too few figures to fit anything; ``hint`` tells why they are few."""
    if len(figures) < MIN_FIGURES:
        allowed = f"at least {MIN_FIGURES} of TPOT, TTFT and latency together"
        raise InvalidValueError("usable figures", len(figures), allowed, hint)


def calibrate(
    base: KernelSource, settings: PackSettings, figures: Sequence[Figure], hint: str = ""
) -> Calibration:
    """Fit the correction of ``base`` to the figures. ``hint`` tells in an error why figures are few.

    Raises:
        InvalidValueError: too few figures, all at one batch, or so far from the base that a factor ends at
            its limit.
    """
    check_enough(figures, hint)
    batches = {round(figure.point.batch, 1) for figure in figures if figure.quantity != "ttft_ms"}
    if len(batches) < MIN_BATCHES:
        allowed = f"TPOT or latency at {MIN_BATCHES} different ones or more"
        raise InvalidValueError("running batches", sorted(batches), allowed, hint)
    calibration = _fit(_LinearModel.of(base, settings, figures))
    _check_limits(calibration)
    return calibration


def held_out_errors(base: KernelSource, settings: PackSettings, figures: Sequence[Figure]) -> FloatArray:
    """Errors of figures that the fit did not see: ten folds, or one a point where there are fewer points."""
    model = _LinearModel.of(base, settings, figures)
    places = list(dict.fromkeys(figure.point for figure in figures))
    fold_of = {point: index % _FOLDS for index, point in enumerate(places)}
    folds = np.asarray([fold_of[figure.point] for figure in figures])
    errors = np.empty(len(figures))
    for fold in range(min(_FOLDS, len(places))):
        hidden = folds == fold
        fitted = _fit(model.restricted(~hidden)).correction
        unseen = model.restricted(hidden)
        errors[hidden] = unseen.predict(_coefficients(fitted)) / unseen.measured - 1.0
    return errors


def imported_pack(
    base: RooflineKernels,
    settings: PackSettings,
    calibration: Calibration,
    figures: Sequence[Figure],
    origin: str,
    engine: str,
    engine_version: str,
) -> TracePack:
    """The pack of the calibrated roofline; ``origin`` (files, errors) goes into its metadata."""
    measured = {figure.point.tier for figure in figures}
    kernels = tuple(
        f"{kernel}, calibrated with {origin}"
        if tier in measured
        else f"{kernel}, corrected as the measured tier"
        for tier, kernel in enumerate(base.info.tier_kernels)
    )
    info = SourceInfo(
        source="imported",
        gpu=base.info.gpu,
        model=base.info.model,
        engine=engine,
        engine_version=engine_version,
        library=base.info.library,
        library_version=base.info.library_version,
        tier_kernels=kernels,
    )
    return build_pack(CalibratedKernels(base, calibration.correction, info), settings)


@dataclass(frozen=True, slots=True)
class _LinearModel:
    """Predictions of figures as the linear functions that they are of a correction's coefficients.

    Step and prefill times are linear in factors and overheads, and so are what is read between the grid's
    nodes, TPOT, TTFT and latencies. One pack a coefficient tells the slopes; none is built while fitting.

    Attributes:
        constant: predictions without correction, shape (figures,).
        slopes: change for a change of 1 in each coefficient, (figures, coefficients).
        measured, sigma: the figures and their relative scatter, (figures,).
    """

    constant: FloatArray
    slopes: FloatArray
    measured: FloatArray
    sigma: FloatArray

    @classmethod
    def of(cls, base: KernelSource, settings: PackSettings, figures: Sequence[Figure]) -> _LinearModel:
        def predictions(coefficients: FloatArray) -> FloatArray:
            kernels = CalibratedKernels(base, _from_coefficients(coefficients))
            predictor = PackPredictor(build_pack(kernels, settings))
            return np.asarray([predictor.predict(figure) for figure in figures])

        without = _coefficients(Correction())
        constant = predictions(without)
        slopes = [predictions(without + unit) - constant for unit in np.eye(len(without))]
        return cls(
            constant,
            np.stack(slopes, axis=1),
            np.asarray([figure.measured for figure in figures]),
            np.asarray([_SIGMA[figure.quantity] for figure in figures]),
        )

    def restricted(self, chosen: npt.NDArray[np.bool_]) -> _LinearModel:
        """The same for some of the figures."""
        return _LinearModel(
            self.constant[chosen], self.slopes[chosen], self.measured[chosen], self.sigma[chosen]
        )

    def predict(self, coefficients: FloatArray) -> FloatArray:
        """Predictions with a correction."""
        return self.constant + self.slopes @ (coefficients - _coefficients(Correction()))


def _coefficients(by: Correction) -> FloatArray:
    overheads = (by.step_ms, by.sequence_ms, by.prompt_ms)
    return np.asarray([by.prefill, *by.weights, *by.rows, by.attention, *overheads])


def _from_coefficients(values: FloatArray) -> Correction:
    prefill, *tiers, attention, step_ms, sequence_ms, prompt_ms = values.tolist()
    weights, rows = tuple(tiers[: len(QUANT_TIERS)]), tuple(tiers[len(QUANT_TIERS) :])
    return Correction(prefill, weights, rows, attention, step_ms, sequence_ms, prompt_ms)


def _fit(model: _LinearModel) -> Calibration:
    priors = np.asarray([parameter.prior for parameter in PARAMETERS])

    def residuals(scaled: FloatArray) -> FloatArray:
        predicted = model.predict(_coefficients(_correction(scaled * priors)))
        return np.concatenate([_robust(np.log(predicted / model.measured) / model.sigma), scaled])

    factor = np.asarray([parameter.factor for parameter in PARAMETERS])
    upper = np.where(factor, log(_MAX_FACTOR), _MAX_OVERHEAD_MS) / priors
    lower = np.where(factor, -upper, 0.0)
    result = optimize.least_squares(residuals, np.where(factor, 0.0, 0.1), bounds=(lower, upper))
    jacobian: FloatArray = result.jac
    deviations = np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian))) * priors
    fitted: FloatArray = result.x * priors
    values = np.where(factor, np.exp(np.where(factor, fitted, 0.0)), fitted)
    return Calibration(_correction(fitted), tuple(values.tolist()), tuple(deviations.tolist()))


def _correction(values: FloatArray) -> Correction:
    """From the parameters' own scale: logarithms of factors, ms."""
    weights = [exp(values[_WEIGHTS] + tier) for tier in (0.0, *values[_TIERS].tolist())]
    return Correction(
        exp(values[_PREFILL]),
        tuple(weights),
        tuple(exp(values[_ROWS]) * weight for weight in weights),
        exp(values[_ATTENTION]),
        *values[_ATTENTION + 1 :].tolist(),
    )


def _robust(residuals: FloatArray) -> FloatArray:
    """Residuals whose squares are those of SciPy's ``soft_l1``; the priors' are left as they are."""
    inside = np.sqrt(1.0 + (residuals / _ROBUST) ** 2)
    return np.sign(residuals) * _ROBUST * np.sqrt(2.0 * (inside - 1.0))


def _check_limits(calibration: Calibration) -> None:
    for parameter, value in zip(PARAMETERS, calibration.values, strict=True):
        if parameter.factor and max(value, 1.0 / value) > 0.98 * _MAX_FACTOR:
            raise InvalidValueError(
                f"factor on {parameter.name}",
                round(value, 2),
                f"1/{_MAX_FACTOR:g} to {_MAX_FACTOR:g}",
                "The figures are not those of this GPU and model: is it another --system or --model, "
                "several GPUs, or another --tier?",
            )
