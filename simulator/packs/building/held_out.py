"""Errors at points that no pack holds: ``python -m simulator.packs.building.held_out`` (extra ``traces``).

The pack's grid has nine batch sizes and eight lengths. Between them the simulators interpolate; the library
the pack was built from can be asked there too. Decode steps and prompts as the fast simulator reads them
(:class:`simulator.packs.trace_table.TraceTable`) and as the reference does
(:class:`simulator.serving.iteration_time.IterationTimes`), and iterations of decode and prompt together: one
after the other, and in one pass.

``--write`` keeps the summary in ``held_out.json``, which the fidelity report shows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from inferencegym.errors import InferenceGymError, TracePackError
from inferencegym.options import OptionParser
from simulator.kernels.sums import ordered_sum
from simulator.packs.schema import TIER_NAMES
from simulator.packs.trace_table import TraceTable, load_trace_table
from simulator.serving.iteration_time import IterationTables, IterationTimes, iteration_ms

__all__ = ["HELD_OUT_PATH", "HeldOut", "load_held_out", "main", "measure"]

HELD_OUT_PATH = Path(__file__).parents[2] / "data" / "held_out.json"

# None of these is on the grid.
_BATCHES = (
    2,
    3,
    6,
    12,
    20,
    24,
    40,
    48,
    56,
    80,
    96,
    112,
    144,
    160,
    176,
    192,
    208,
    224,
    240,
    300,
    350,
    384,
    448,
)
_CONTEXTS = (230, 448, 900, 1500, 3000, 6000)
_PROMPTS = (80, 96, 112, 144, 160, 192, 300, 384, 600, 768, 900, 1300, 1536, 1800, 3000, 5793, 7000)
_MIXED_PROMPTS = (72, 96, 150, 300, 400, 700, 1100, 1500, 1900)
_MIXED_BATCHES = (6, 20, 48, 80, 100, 150, 200, 240)
_MIXED_CONTEXTS = (300, 700, 1500, 4000)

_POOL_TOKENS = 150_000
"""Cached tokens up to which a batch is asked for: what the card holds."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Errors of one way of reading the pack at the held-out points of one tier."""

    quantity: str
    read_by: str
    tier: str
    points: int
    mean: float
    """Mean of the absolute relative errors."""
    p95: float
    largest: float
    bias: float
    """Mean of the signed errors; positive is too slow."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """The ways to read a pack, ms."""

    table: TraceTable
    tier: int
    tables: IterationTables

    def fast_decode(self, sequences: int, context: int) -> float:
        rows = self.table.step_rows_s[0][self.tier]
        bucket, weight = self.table.context_bucket[context], self.table.context_weight[context]
        low, high = rows[bucket][sequences], rows[bucket + 1][sequences]
        return 1000.0 * (low + weight * (high - low))

    def decode(self, sequences: int, context: int) -> float:
        return iteration_ms(self.tables, sequences, float(context), sequences, 0)

    def fast_prompt(self, tokens: int) -> float:
        return 1000.0 * self.table.prefill_rows_s[self.tier][tokens]

    def prompt(self, tokens: int) -> float:
        chunk = self.table.metadata.prefill_chunk_tokens
        starts = range(0, tokens, chunk)
        layers = ordered_sum(iteration_ms(self.tables, 0, 0.0, 0, min(chunk, tokens - at)) for at in starts)
        return layers + float(self.tables.chunk_attention_ms[tokens])

    def apart(self, sequences: int, context: int, tokens: int) -> float:
        return self.fast_decode(sequences, context) + self.fast_prompt(tokens)

    def one_pass(self, sequences: int, context: int, tokens: int) -> float:
        time_ms = iteration_ms(self.tables, sequences, float(context), sequences, tokens)
        return time_ms + float(self.tables.chunk_attention_ms[tokens])


def measure(table: TraceTable) -> list[HeldOut]:
    """All errors, tier by tier. Raises ``TracePackError`` when the library is absent."""
    times = IterationTimes(table)
    found: list[HeldOut] = []
    for tier, name in enumerate(TIER_NAMES):
        reader = _Reader(table, tier, times.tables(0, tier))
        for quantity, points, library, readings in _quantities(_library(table, tier), reader):
            truth = np.asarray([library(*point) for point in points])
            for read_by, read in readings.items():
                errors = np.asarray([read(*point) for point in points]) / truth - 1.0
                found.append(_summary(quantity, read_by, name, errors))
    return found


def _library(table: TraceTable, tier: int) -> Any:
    pack = table.metadata
    try:
        handle = import_module("aiconfigurator_core.sdk").EngineHandle
    except ImportError as error:
        raise TracePackError(
            "the held-out points are the library's, which is not installed.", "Install the extra 'traces'."
        ) from error
    return handle.compile(
        pack.model,
        pack.gpu,
        pack.engine,
        backend_version=pack.engine_version,
        gemm_quant_mode=pack.tier_kernels[tier],
    )


_Quantity = tuple[str, list[tuple[int, ...]], Callable[..., float], dict[str, Callable[..., float]]]


def _quantities(library: Any, reader: _Reader) -> Iterator[_Quantity]:
    """Name, points, the library's answer and the readings of the pack."""
    decodes = [(n, context) for n in _BATCHES for context in _CONTEXTS if n * context <= _POOL_TOKENS]
    yield (
        "decode step",
        decodes,
        library.predict_decode_latency,
        {"fast": reader.fast_decode, "reference": reader.decode},
    )

    def prompt_ms(tokens: int) -> float:
        return library.predict_prefill_latency(1, tokens)

    prompts = [(tokens,) for tokens in _PROMPTS]
    yield "prompt", prompts, prompt_ms, {"fast": reader.fast_prompt, "reference": reader.prompt}

    def mixed_ms(sequences: int, context: int, tokens: int) -> float:
        # The library puts a decoding sequence at input + output / 2 tokens.
        return library.mixed_step_latency(tokens, sequences, tokens, 2 * (context - tokens))

    mixed = list(_mixed_points(reader.table.metadata.prefill_chunk_tokens))
    yield "mixed iteration", mixed, mixed_ms, {"fast": reader.apart, "reference": reader.one_pass}


def _mixed_points(chunk: int) -> Iterator[tuple[int, ...]]:
    """Sequences, context, prompt tokens, within the budget of an iteration."""
    for tokens in _MIXED_PROMPTS:
        for sequences in _MIXED_BATCHES:
            for context in _MIXED_CONTEXTS:
                if tokens + sequences <= chunk and sequences * context <= _POOL_TOKENS and context > tokens:
                    yield sequences, context, tokens


def _summary(quantity: str, read_by: str, tier: str, errors: Any) -> HeldOut:
    size = np.abs(errors)
    mean, p95, largest, bias = (
        round(float(value), 5) for value in (size.mean(), np.quantile(size, 0.95), size.max(), errors.mean())
    )
    return HeldOut(quantity, read_by, tier, len(errors), mean, p95, largest, bias)


def load_held_out(path: Path = HELD_OUT_PATH) -> list[HeldOut]:
    """The committed summary."""
    return [HeldOut(**row) for row in json.loads(path.read_text())]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: prints the errors; returns 0, or 2 when the library is absent."""
    parser = OptionParser(prog="python -m simulator.packs.building.held_out", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"keep the summary in {HELD_OUT_PATH.name}")
    args = parser.parse_args(argv)
    try:
        found = measure(load_trace_table())
    except InferenceGymError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    for one in found:
        sys.stdout.write(
            f"{one.quantity:16} {one.read_by:10} {one.tier:5} {one.points:4} points  mean {one.mean:6.1%}  "
            f"95 % {one.p95:6.1%}  largest {one.largest:6.1%}  bias {one.bias:+6.1%}\n"
        )
    if args.write:
        rows = ",\n".join(json.dumps(asdict(one)) for one in found)
        HELD_OUT_PATH.write_text(f"[\n{rows}\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
