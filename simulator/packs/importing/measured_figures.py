"""Predict measured figures from a trace pack, read as the simulators read it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, exp

import numpy as np

from inferencegym.errors import TracePackError
from simulator.packs.building.compare_measured import OfflineBatchModel
from simulator.packs.building.kernel_sources import FloatArray
from simulator.packs.importing.measurements import Measurement
from simulator.packs.io import TracePack
from simulator.packs.physics import prefill_stall_ms
from simulator.packs.schema import BATCH_SIZES, PROMPT_LENGTHS_TOKENS, SPEC_LENGTHS
from simulator.packs.trace_table import log2_weights

__all__ = ["QUANTITIES", "Figure", "PackPredictor", "figures_of"]

QUANTITIES = {"tpot_ms": "TPOT ms", "ttft_ms": "TTFT ms", "latency_s": "latency s"}
"""What can be measured, with its heading."""

_NO_DRAFTS = SPEC_LENGTHS.index(0)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number of an operating point; ``quantity`` is a key of ``QUANTITIES``."""

    point: Measurement
    quantity: str
    measured: float


def figures_of(points: Iterable[Measurement]) -> list[Figure]:
    """The measured numbers of all points."""
    named = [(point, name, getattr(point, name)) for point in points for name in QUANTITIES]
    return [Figure(point, name, float(value)) for point, name, value in named if value is not None]


class PackPredictor:
    """What a pack says about measured operating points.

    With ``n`` sequences in the eyes of one of them, ``n - 1`` others run. Prompt chunks and decode rows go
    through one forward, as in vLLM and TensorRT-LLM, so that a prefill beside decoding does not read the
    weights again: what it *adds* is prefill less the step of one sequence with next to no cache.

    - TPOT = step(n) + what the prefills of n - 1 others (half of them, of prompts sent together) add in the
      time of one output, where prefill shares the GPU.
    - TTFT = prefill where nothing else runs. Where others decode, which at a mean of ``n - 1`` has the
      probability 1 - exp(1 - n), it is half a step, the rest of the iteration in flight, a step for each
      chunk of the prompt, and what prefill adds.

    Times between the grid's nodes are linear in log2 batch and log2 length, as everywhere in the simulators.
    """

    def __init__(self, pack: TracePack) -> None:
        self._pack = pack
        self._step_ms: FloatArray = pack.step_ms[:, _NO_DRAFTS]
        self._prefill_ms: FloatArray = pack.prefill_ms
        self._offline: dict[int, OfflineBatchModel] = {}

    def predict(self, figure: Figure) -> float:
        """The figure in its own unit.

        Raises ``TracePackError`` when the pack's memory cannot hold the point.
        """
        point = figure.point
        if figure.quantity == "latency_s":
            return self._latency_s(point)
        prefill_ms = self._prefill(point.tier, point.prompt_tokens)
        step_ms = self._step(point.tier, point.batch, point.prompt_tokens + point.output_tokens / 2)
        weights_ms = float(self._step_ms[0, point.tier, 0])
        others = point.batch - 1.0
        if figure.quantity == "ttft_ms":
            steps = ceil(point.prompt_tokens / self._pack.metadata.prefill_chunk_tokens) + 0.5
            return prefill_ms + (steps * step_ms - weights_ms) * (1.0 - exp(-others))
        if not point.colocated:
            return step_ms
        prefills = others * point.prefills_seen
        return step_ms + prefill_stall_ms(prefills, prefill_ms - weights_ms, point.output_tokens - 1.0)

    def errors(self, figures: Iterable[Figure]) -> FloatArray:
        """Relative errors, positive where the pack is too slow."""
        return np.asarray([self.predict(figure) / figure.measured - 1.0 for figure in figures])

    def _step(self, tier: int, batch: float, context_tokens: float) -> float:
        length = context_tokens - self._pack.metadata.reference_output_tokens / 2
        row, up = log2_weights(np.asarray([batch]), BATCH_SIZES)
        column, along = log2_weights(np.asarray([length]), PROMPT_LENGTHS_TOKENS)
        i, j = int(row[0]), int(column[0])
        corners = self._step_ms[i : i + 2, tier, j : j + 2]
        return float(np.asarray([1.0 - up[0], up[0]]) @ corners @ np.asarray([1.0 - along[0], along[0]]))

    def _prefill(self, tier: int, prompt_tokens: float) -> float:
        column, along = log2_weights(np.asarray([prompt_tokens]), PROMPT_LENGTHS_TOKENS)
        left, right = self._prefill_ms[tier, int(column[0])], self._prefill_ms[tier, int(column[0]) + 1]
        return float(left + along[0] * (right - left))

    def _latency_s(self, point: Measurement) -> float:
        if point.tier not in self._offline:
            self._offline[point.tier] = OfflineBatchModel(self._pack, tier=point.tier)
        whole = round(point.batch), round(point.prompt_tokens), round(point.output_tokens)
        try:
            return self._offline[point.tier].latency_s(*whole)
        except TracePackError as error:
            raise TracePackError(f"{point.where}: {error.message}", "Is --memory-gib right?") from None
