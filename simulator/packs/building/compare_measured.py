"""Hold the trace pack to published latencies: ``python -m simulator.packs.building.compare_measured``.

The published figures are whole offline batches of Meta-Llama-3-8B, FP16, on an A100 with 40 GB
(``measured_a100_40gb_llama3_8b.csv``). The pack's kernels ran on the 80 GB card, so its decode time is
scaled by the ratio of the two memory bandwidths; prefill is bound by arithmetic, which the cards have in
common. Nothing is fitted. Needs the pack alone.
"""

from __future__ import annotations

import csv
import sys
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path

import numpy as np

from inferencegym.errors import InferenceGymError, TracePackError
from inferencegym.options import OptionParser
from simulator.kernels.sums import ordered_sum
from simulator.packs.building.kernel_sources import FloatArray
from simulator.packs.building.roofline_kernels import GPUS
from simulator.packs.io import DEFAULT_PACK_PATH, TracePack, read_pack
from simulator.packs.schema import BATCH_SIZES, PROMPT_LENGTHS_TOKENS, SPEC_LENGTHS

__all__ = [
    "DECODE_SCALE",
    "MEASURED_PATH",
    "Comparison",
    "ErrorSummary",
    "MeasuredBatch",
    "OfflineBatchModel",
    "compare",
    "error_summary",
    "load_measured",
    "main",
    "summarize",
]

MEASURED_PATH = Path(__file__).parents[2] / "data" / "measured_a100_40gb_llama3_8b.csv"

DECODE_SCALE = GPUS["a100_sxm"].memory_tb_per_s / GPUS["a100_sxm_40gb"].memory_tb_per_s
"""Decode is bound by memory bandwidth: 2.039 TB/s where kernels were timed, 1.555 on the measured card."""

_FP16 = 0
_NO_DRAFTS = SPEC_LENGTHS.index(0)


@dataclass(frozen=True, slots=True)
class MeasuredBatch:
    """One published run: ``batch_size`` sequences of ``io_tokens`` prompt and as many output tokens."""

    framework: str
    io_tokens: int
    batch_size: int
    latency_s: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A published run beside the pack's prediction of it."""

    measured: MeasuredBatch
    predicted_s: float
    waves: tuple[int, ...]
    """Sequences that ran together, wave by wave."""

    @property
    def error(self) -> float:
        """Relative error of the prediction; positive is too slow."""
        return self.predicted_s / self.measured.latency_s - 1.0


@dataclass(frozen=True, slots=True)
class ErrorSummary:
    """Relative errors of predictions; a positive mean is too slow."""

    runs: int
    median_absolute: float
    max_absolute: float
    mean_signed: float


class OfflineBatchModel:
    """Latency of an offline batch from a pack's step and prefill times.

    Lengths are in tokens; where no output length is given it is that of the prompt, as in the published runs.

    Arguments:
        pack: the trace pack.
        decode_scale: factor on decode time, for a card with another memory bandwidth.
        pool_tokens: KV pool; None is the pack's own for the tier.
        tier: index of the quantisation tier.
    """

    def __init__(
        self,
        pack: TracePack,
        decode_scale: float = 1.0,
        pool_tokens: float | None = None,
        tier: int = _FP16,
    ) -> None:
        metadata = pack.metadata
        self._step_ms: FloatArray = pack.step_ms[:, _NO_DRAFTS, tier]
        self._prefill_ms: FloatArray = pack.prefill_ms[tier]
        self._lengths: FloatArray = np.asarray(PROMPT_LENGTHS_TOKENS, dtype=np.float64)
        self._contexts = self._lengths + metadata.reference_output_tokens / 2
        self._chunk_tokens = metadata.prefill_chunk_tokens
        self._decode_scale = decode_scale
        self._pool_tokens = metadata.kv_pool_tokens[tier] if pool_tokens is None else pool_tokens

    def waves(self, batch: int, prompt: int, output: int | None = None) -> tuple[int, ...]:
        """Sequences per wave: as many as the KV pool holds at their full length, then the rest."""
        length = prompt + (output or prompt)
        room = int(min(batch, self._pool_tokens / length))
        if room < 1:
            raise TracePackError(f"a KV pool of {self._pool_tokens:g} tokens cannot hold {length}.")
        full, rest = divmod(batch, room)
        return (room,) * full + ((rest,) if rest else ())

    def latency_s(self, batch: int, prompt: int, output: int | None = None) -> float:
        """Time from the start of the first wave to the last token of the last."""
        return ordered_sum(
            self._prefill_s(size, prompt) + self._decode_s(size, prompt, output or prompt)
            for size in self.waves(batch, prompt, output)
        )

    def _prefill_s(self, sequences: int, tokens: int) -> float:
        """Prompts are packed into chunks; a prompt longer than a chunk is taken whole."""
        total = sequences * tokens
        chunk = max(tokens, min(self._chunk_tokens, total))
        chunk_ms = float(np.interp(chunk, self._lengths, self._prefill_ms))
        return chunk_ms * total / chunk / 1e3

    def _decode_s(self, sequences: int, prompt: int, output: int) -> float:
        """One step per output token but the first, which prefill yields; the context grows with each.

        Linear in context, as attention over the cache is; linear in log2(batch), as the simulator reads it.
        """
        contexts = np.arange(prompt + 1, prompt + output, dtype=np.float64)
        at_batch = self._step_at(sequences)
        return float(np.sum(np.interp(contexts, self._contexts, at_batch))) * self._decode_scale / 1e3

    def _step_at(self, sequences: int) -> FloatArray:
        """Step time at a batch between the grid's, one value per context node."""
        right = min(max(bisect_left(BATCH_SIZES, sequences), 1), len(BATCH_SIZES) - 1)
        below, above = BATCH_SIZES[right - 1], BATCH_SIZES[right]
        weight = log2(sequences / below) / log2(above / below)
        return (1.0 - weight) * self._step_ms[right - 1] + weight * self._step_ms[right]


def load_measured(path: Path = MEASURED_PATH) -> list[MeasuredBatch]:
    """The published runs; lines that start with ``#`` are comments."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [
        MeasuredBatch(
            framework=row["framework"],
            io_tokens=int(row["io_len_tokens"]),
            batch_size=int(row["batch_size"]),
            latency_s=float(row["latency_s"]),
        )
        for row in csv.DictReader(lines)
    ]


def compare(pack: TracePack, runs: Iterable[MeasuredBatch]) -> list[Comparison]:
    """Predict every published run from the pack."""
    model = OfflineBatchModel(pack, DECODE_SCALE)
    return [
        Comparison(
            measured=run,
            predicted_s=model.latency_s(run.batch_size, run.io_tokens),
            waves=model.waves(run.batch_size, run.io_tokens),
        )
        for run in runs
    ]


def summarize(rows: Iterable[Comparison]) -> dict[str, ErrorSummary]:
    """Errors by framework."""
    by_framework: dict[str, list[float]] = {}
    for row in rows:
        by_framework.setdefault(row.measured.framework, []).append(row.error)
    return {framework: error_summary(errors) for framework, errors in by_framework.items()}


def error_summary(errors: Sequence[float] | FloatArray) -> ErrorSummary:
    """Median and largest absolute error, and the mean with its sign. Needs one error at least."""
    return ErrorSummary(
        runs=len(errors),
        median_absolute=float(np.median(np.abs(errors))),
        max_absolute=float(np.max(np.abs(errors))),
        mean_signed=float(np.mean(errors)),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: prints the comparison as Markdown; returns 0, or 2 when the pack cannot be read."""
    parser = OptionParser(prog="python -m simulator.packs.building.compare_measured", description=__doc__)
    parser.add_argument("--pack", type=Path, default=DEFAULT_PACK_PATH)
    try:
        pack = read_pack(parser.parse_args(argv).pack)
    except InferenceGymError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    rows = compare(pack, load_measured())
    sys.stdout.write("\n".join([*_table(rows), "", *_summary(rows), "", *_wave_check(pack)]) + "\n")
    return 0


def _table(rows: list[Comparison]) -> list[str]:
    lines = [
        "| framework | in = out tokens | batch | measured s | predicted s | error | waves |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for row in rows:
        run = row.measured
        lines.append(
            f"| {run.framework} | {run.io_tokens} | {run.batch_size} | {run.latency_s:.2f} "
            f"| {row.predicted_s:.2f} | {row.error:+.1%} | {' + '.join(map(str, row.waves))} |"
        )
    return lines


def _summary(rows: list[Comparison]) -> list[str]:
    return [
        f"{framework}: {summary.runs} runs, median absolute error {summary.median_absolute:.1%}, "
        f"largest {summary.max_absolute:.1%}, mean {summary.mean_signed:+.1%}"
        for framework, summary in summarize(rows).items()
    ]


def _wave_check(pack: TracePack) -> list[str]:
    """How much longer 64 sequences of 2048 + 2048 tokens take than 32: the KV pool holds only 37."""
    measured = {
        (run.framework, run.batch_size): run.latency_s for run in load_measured() if run.io_tokens == 2048
    }
    frameworks = sorted({framework for framework, _ in measured})
    pooled = OfflineBatchModel(pack, DECODE_SCALE)
    unlimited = OfflineBatchModel(pack, DECODE_SCALE, pool_tokens=float("inf"))
    shown = [f"{name} {measured[name, 64] / measured[name, 32]:.2f}" for name in frameworks]
    shown += [
        f"{label} {model.latency_s(64, 2048) / model.latency_s(32, 2048):.2f}"
        for label, model in (("predicted", pooled), ("predicted without a KV limit", unlimited))
    ]
    return [f"Latency of 64 x (2048 + 2048) over 32 x (2048 + 2048): {', '.join(shown)}"]


if __name__ == "__main__":
    sys.exit(main())
