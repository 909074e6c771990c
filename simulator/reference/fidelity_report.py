"""The fidelity report: ``make fidelity`` (``python -m simulator.reference.fidelity_report --help``).

Runs the settings of :mod:`simulator.reference.fidelity` at every load, and puts the tables into
``docs/physics/fidelity.md`` (between its markers) and the curves into ``docs/``. ``--full`` prints every
point, ``--speed`` how fast both simulators run here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from inferencegym.errors import InvalidValueError
from inferencegym.extras import extra_hint, missing
from inferencegym.models.serving import EngineTiming
from inferencegym.options import OptionParser
from simulator.packs.building.compare_measured import compare as compare_measured
from simulator.packs.building.compare_measured import load_measured, summarize
from simulator.packs.building.held_out import load_held_out
from simulator.packs.io import DEFAULT_PACK_PATH, read_pack
from simulator.packs.trace_table import TraceTable, load_trace_table
from simulator.reference.engine import ReferenceEngine
from simulator.reference.fidelity import (
    BARS,
    LOADS,
    NEAR_SATURATION,
    SETTINGS,
    Point,
    Setting,
    explain,
    measure,
    run_setting,
    worst_below_saturation,
)
from simulator.serving.engine import EngineModel, ServingEngine
from simulator.serving.timing import ENGINE_TIMINGS
from simulator.serving.traffic.workload import EpisodeTraffic

__all__ = [
    "BEGIN",
    "END",
    "REPORT_PATH",
    "error_row",
    "explanation_row",
    "held_out_rows",
    "main",
    "measured_rows",
    "replace_section",
]

_ROOT = Path(__file__).resolve().parents[2]
REPORT_PATH = _ROOT / "docs" / "physics" / "fidelity.md"
IMAGES = _ROOT / "docs"

BEGIN, END = "<!-- make fidelity: begin -->", "<!-- make fidelity: end -->"

_EXPLAINED_LOAD = 0.7

_DRAWN = (
    "chat, batch 200",
    "short prompts (task 1), batch 230",
    "mixed prompts (task 2), batch 128",
    "mixed prompts, 2 drafts, batch 64",
    "documents (task 3), batch 128",
    "documents, disaggregated",
    "chat, disaggregated, batch 200",
    "chat, tight KV, batch 200",
)
"""Settings in the picture of the loads."""

_SPEED_AT = ((SETTINGS[0], 15.0), (SETTINGS[3], 6.8), (SETTINGS[7], 2.7))
"""Settings and requests/s, at 80 % of capacity."""

_SPEED_S = 240
"""Seconds of traffic, after a minute of warm-up, that speed is measured over."""

Results = dict[Setting, dict[EngineTiming, list[Point]]]

_READ_BY = {"fast": "additive", "reference": "mixed_batch, reference"}
"""Who reads the pack as a row of the held-out points does."""


def measured_rows() -> list[str]:
    """Error of the pack against published runs, one row a framework."""
    summaries = summarize(compare_measured(read_pack(DEFAULT_PACK_PATH), load_measured()))
    return [
        f"| {framework} | {one.runs} | {one.median_absolute:.1%} | {one.max_absolute:.1%} "
        f"| {one.mean_signed:+.1%} |"
        for framework, one in summaries.items()
    ]


def held_out_rows() -> list[str]:
    """Error at points that the pack does not hold, one row a quantity and reading, tiers side by side."""
    found: dict[tuple[str, str], list[str]] = {}
    points: dict[tuple[str, str], int] = {}
    for one in load_held_out():
        key = (one.quantity, one.read_by)
        found.setdefault(key, []).append(f"{one.mean:.1%} / {one.p95:.1%} / {one.largest:.1%}")
        points[key] = one.points
    return [
        f"| {key[0]} | {_READ_BY[key[1]]} | {points[key]} | {' | '.join(cells)} |"
        for key, cells in found.items()
    ]


def error_row(setting: Setting, points: Sequence[Point]) -> str:
    """Largest errors below saturation and those close to it, then those of a flooded engine."""
    close = next(point for point in points if point.load == NEAR_SATURATION)
    flooded = points[-1]
    cells = [f"{flooded.rate_rps / flooded.load:.1f}"]
    for name, bar in BARS.items():
        below, near = _marked(worst_below_saturation(points, name), bar), _marked(close.error(name), bar)
        cells.append(f"{below} · {near}")
    below, near = worst_below_saturation(points, "kv_occupancy"), close.error("kv_occupancy")
    cells.append(f"{100 * below:+.1f} · {100 * near:+.1f}")
    cells += [_percent(flooded.error(name)) for name in ("tokens_per_s", "tpot_ms")]
    return f"| {setting.name} | {' | '.join(cells)} |"


def explanation_row(
    table: TraceTable, setting: Setting, results: Mapping[EngineTiming, Sequence[Point]]
) -> str:
    """TTFT and TPOT at one load: additive, reference with the additive times, mixed batches, reference."""
    additive, mixed = (
        next(point for point in results[timing] if point.load == _EXPLAINED_LOAD) for timing in ENGINE_TIMINGS
    )
    between = explain(table, setting, additive)
    cells = [
        f"{getattr(figures, name):.1f}"
        for name in ("ttft_p50_ms", "tpot_ms")
        for figures in (additive.fast, between, mixed.fast, mixed.reference)
    ]
    return f"| {setting.name} | {' | '.join(cells)} |"


def replace_section(text: str, section: str) -> str:
    """Put a section between the markers. Raises InvalidValueError when they are missing."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise InvalidValueError("report", REPORT_PATH.name, f"a file with one {BEGIN} and one {END}")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{section}\n\n{END}{rest.split(END)[1]}"


def _section(table: TraceTable, results: Results) -> str:
    lines = [
        "## Pack against published latencies",
        "",
        "Whole offline batches, nothing fitted; run by run [there](packs.md#against-published-latencies).",
        "",
        "| framework | runs | median error | largest | mean |",
        "|---|--:|--:|--:|--:|",
        *measured_rows(),
        "",
        "![Predicted over measured latency of the published runs](../fidelity_measured.png)",
        "",
        "## Between the points of the pack",
        "",
        "Against the kernel library where the pack holds nothing: mean / 95th percentile / largest error.",
        "",
        "| quantity | as read by | points | FP16 | INT8 | INT4 |",
        "|---|---|--:|--:|--:|--:|",
        *held_out_rows(),
        "",
        "## Fast simulator against the reference",
        "",
        _ERRORS_SHOWN,
        "",
        *(line for timing in ENGINE_TIMINGS for line in _error_table(timing, results)),
        "![TPOT and TTFT of both simulators over load](../fidelity_loads.png)",
        "",
        _EXPLANATION_SHOWN,
        "",
        _EXPLANATION_HEADER,
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(explanation_row(table, setting, found) for setting, found in results.items()),
    ]
    return "\n".join(lines)


def _error_table(timing: EngineTiming, results: Results) -> list[str]:
    return [
        f"`{timing}`:",
        "",
        _ERROR_HEADER,
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(error_row(setting, found[timing]) for setting, found in results.items()),
        "",
    ]


_SHORT = {"ttft_p50_ms": "TTFT p50", "ttft_p99_ms": "TTFT p99", "tpot_ms": "TPOT", "tokens_per_s": "tokens/s"}

_ERRORS_SHOWN = (
    f"Largest error from {LOADS[0]:.0%} to {max(load for load in LOADS if load < NEAR_SATURATION):.0%} "
    f"of capacity · error at {NEAR_SATURATION:.0%}. **Bold** is beyond "
    f"{', '.join(f'{_SHORT[name]} {bar:.0%}' for name, bar in BARS.items())}. "
    f"Occupancy in points of the pool. The last two columns are a flooded engine, at {LOADS[-1]:.0%}."
)

_ERROR_HEADER = (
    "| setting | capacity, requests/s | TTFT p50 | TTFT p99 | TPOT | tokens/s | occupancy "
    "| tokens/s, flooded | TPOT, flooded |"
)

_EXPLANATION_SHOWN = (
    f"At {_EXPLAINED_LOAD:.0%} of capacity, ms. *Additive times* is the reference with the additive engine's "
    "step and prefill times: left of it is what the scheduler makes out, right of it what the times do."
)


_EXPLANATION_HEADER = (
    "| setting | TTFT p50 additive | additive times | mixed_batch | reference "
    "| TPOT additive | additive times | mixed_batch | reference |"
)


def _marked(error: float, bar: float) -> str:
    text = _percent(error)
    return f"**{text}**" if abs(error) > bar else text


def _percent(error: float) -> str:
    """Signed percent; a queue that only one of the two has makes errors of any size."""
    return f"{error:+.1%}" if abs(error) < 10.0 else f"× {error + 1.0:.0f}"


def _full(results: Results) -> str:
    lines: list[str] = []
    for setting, timing, points in (
        (setting, timing, points) for setting, found in results.items() for timing, points in found.items()
    ):
        lines += [
            f"\n{setting.name}, {timing}",
            "load  TTFT p50        TTFT p99         TPOT          tokens/s      occupancy",
        ]
        for point in points:
            cells = [
                f"{getattr(point.fast, name):.{digits}f}/{getattr(point.reference, name):.{digits}f}"
                for name, digits in (
                    ("ttft_p50_ms", 0),
                    ("ttft_p99_ms", 0),
                    ("tpot_ms", 2),
                    ("tokens_per_s", 0),
                    ("kv_occupancy", 3),
                )
            ]
            lines.append(f"{point.load:4.0%}  {'  '.join(f'{cell:15}' for cell in cells)}")
    return "\n".join(lines)


def _speed(table: TraceTable) -> str:
    """Simulated seconds a second of this machine, at 80 % of capacity."""

    def plain(model: EngineModel, traffic: EpisodeTraffic) -> ReferenceEngine:
        return ReferenceEngine(model, traffic, machine_code=False)

    makers: dict[str, tuple[Callable[[EngineModel, EpisodeTraffic], ServingEngine], EngineTiming]] = {
        "additive": (ServingEngine, "additive"),
        "mixed_batch": (ServingEngine, "mixed_batch"),
        "reference": (ReferenceEngine, "additive"),
        "reference without numba": (plain, "additive"),
    }
    lines: list[str] = []
    for setting, rate in _SPEED_AT:
        for name, (make, timing) in makers.items():
            measure(make, table, setting.at(rate), setting.knobs, 1, timing=timing)  # compiles, fills tables
            begin = time.perf_counter()
            measure(make, table, setting.at(rate), setting.knobs, 240, timing=timing)
            lines.append(
                f"{setting.name:32} {name:24} {300 / (time.perf_counter() - begin):8.0f} x real time"
            )
    return "\n".join(lines)


def _require_plots() -> None:
    try:
        import_module("matplotlib.figure")
    except ModuleNotFoundError as error:
        raise missing("Drawing", error, f"{extra_hint('demo')} Or say --no-write.", "__main__") from None


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns 0."""
    parser = OptionParser(prog="python -m simulator.reference.fidelity_report", description=__doc__)
    parser.add_argument("--full", action="store_true", help="print every setting at every load")
    parser.add_argument("--speed", action="store_true", help="only measure how fast the simulators run")
    parser.add_argument("--no-write", action="store_true", help="leave docs/ alone")
    args = parser.parse_args(argv)
    table = load_trace_table()
    if args.speed:
        sys.stdout.write(_speed(table) + "\n")
        return 0
    if not args.no_write:
        _require_plots()  # now rather than after the measurements
    results = {setting: run_setting(table, setting) for setting in SETTINGS}
    section = _section(table, results)
    sys.stdout.write(section + "\n")
    if args.full:
        sys.stdout.write(_full(results) + "\n")
    if not args.no_write:
        from simulator.reference.fidelity_plots import plot_loads, plot_measured

        REPORT_PATH.write_text(replace_section(REPORT_PATH.read_text(), section))
        IMAGES.mkdir(exist_ok=True)
        drawn = [found for setting, found in results.items() if setting.name in _DRAWN]
        plot_loads(IMAGES / "fidelity_loads.png", drawn)
        plot_measured(
            IMAGES / "fidelity_measured.png", compare_measured(read_pack(DEFAULT_PACK_PATH), load_measured())
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
