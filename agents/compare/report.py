"""A comparison as text and files: Markdown, JSON, CSV, PNG."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from agents.compare.compare import CONFIDENCE, AgentSummary, Comparison, Mean
from inferencegym.errors import InferenceGymError

__all__ = [
    "header_of",
    "notes_of",
    "require_matplotlib",
    "row_of",
    "rows_of",
    "seeds_text",
    "to_csv",
    "to_json",
    "to_markdown",
    "write_png",
]


def seeds_text(seeds: tuple[int, ...]) -> str:
    """``100-119`` for a run of seeds, else a list."""
    if len(seeds) > 2 and all(b == a + 1 for a, b in pairwise(seeds)):
        return f"{seeds[0]}-{seeds[-1]}"
    return ", ".join(map(str, seeds))


def component_names(rows: list[AgentSummary]) -> list[str]:
    """Parts of the grade that tell rows apart and are no figures: not ``completed`` when all are whole."""
    figures = {name for row in rows for name in row.figures}
    names = dict.fromkeys(name for row in rows for name in row.components if name not in figures)
    return [n for n in names if n != "completed" or any(row.components.get(n) != 1.0 for row in rows)]


def figure_names(rows: list[AgentSummary]) -> list[str]:
    """Figures that any row has; an agent may report some that no other has."""
    return list(dict.fromkeys(name for row in rows for name in row.figures))


def notes_of(comparison: Comparison) -> list[str]:
    """What agents reported that a reader of their scores must know, a line each."""
    return [
        f"{row.agent} on {row.task}, {count} episode{'s' * (count != 1)}: {note}"
        for row in comparison.summaries
        for note, count in row.notes.items()
    ]


def header_of(comparison: Comparison, rows: list[AgentSummary]) -> list[str]:
    """Column titles of a task's table."""
    against = [f"− {comparison.baseline}"] if comparison.baseline is not None else []
    parts = [name.replace("_", " ") for name in component_names(rows)]
    figures = [name.replace("_", " ") for name in figure_names(rows)]
    return ["agent", "score", *against, "episode reward", *parts, *figures]


def row_of(comparison: Comparison, rows: list[AgentSummary], row: AgentSummary) -> list[str]:
    """Cells of an agent in a task's table."""
    against = [_mean(row.difference, 3, sign=True)] if comparison.baseline is not None else []
    parts = [f"{row.components[n]:.3f}" if n in row.components else "" for n in component_names(rows)]
    means = (row.figures.get(name) for name in figure_names(rows))
    figures = ["" if mean is None else _mean(mean, _digits(mean)) for mean in means]
    return [
        row.agent,
        _mean(row.score, 3),
        *against,
        _mean(row.reward, _digits(row.reward)),
        *parts,
        *figures,
    ]


def _digits(mean: Mean) -> int:
    """Decimals that show three figures or so: 0 for 1,234, 1 for 12.3, 3 for 0.123."""
    return next((digits for limit, digits in ((1000, 0), (10, 1), (1, 2)) if abs(mean.value) >= limit), 3)


def rows_of(comparison: Comparison, task: str) -> list[AgentSummary]:
    """Rows of one task."""
    return [row for row in comparison.summaries if row.task == task]


def _mean(mean: Mean | None, digits: int, sign: bool = False) -> str:
    if mean is None:
        return ""
    value = f"{mean.value:{'+' if sign else ''}.{digits}f}".replace("-", "−")
    return value if mean.half_width is None else f"{value} ± {mean.half_width:.{digits}f}"


def to_markdown(comparison: Comparison) -> str:
    """A table for each task, under a line that says how it was made."""
    count = len(comparison.seeds)
    lines = [
        f"{comparison.env}, {count} episode{'s' * (count != 1)} each (seeds {seeds_text(comparison.seeds)}); "
        "mean ± half of its 95 % interval (Student's t)"
        + (f"; differences to {comparison.baseline} paired by seed." if comparison.baseline else "."),
    ]
    for task in comparison.tasks:
        rows = rows_of(comparison, task)
        header = header_of(comparison, rows)
        lines += ["", f"**{task}**", "", _line(header), _line(["---", *["---:"] * (len(header) - 1)])]
        lines += [
            _line([f"`{cells[0]}`", *cells[1:]]) for cells in (row_of(comparison, rows, r) for r in rows)
        ]
    notes = [f"- {note}" for note in notes_of(comparison)]
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def to_json(comparison: Comparison) -> str:
    """Everything: summaries, and each episode."""
    document: dict[str, Any] = asdict(comparison)
    document["confidence"] = CONFIDENCE
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def to_csv(comparison: Comparison) -> str:
    """A line for each episode; components that a task does not have are left empty."""
    names = list(dict.fromkeys(name for episode in comparison.episodes for name in episode.components))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    figures = list(dict.fromkeys(name for episode in comparison.episodes for name in episode.figures))
    note = ["note"] if any(episode.note for episode in comparison.episodes) else []
    writer.writerow(["env", "task", "agent", "seed", "steps", "score", "reward", *names, *figures, *note])
    for episode in comparison.episodes:
        parts: list[float | str] = [episode.components.get(name, "") for name in names]
        parts += [episode.figures.get(name, "") for name in figures]
        parts += [episode.note for _ in note]
        head = [comparison.env, episode.task, episode.agent, episode.seed, episode.steps]
        writer.writerow([*head, episode.score, episode.reward, *parts])
    return text.getvalue()


def require_matplotlib() -> Any:
    """The figure class. Raises InferenceGymError that names the extra."""
    try:
        return import_module("matplotlib.figure").Figure
    except ImportError:
        raise InferenceGymError(
            "A PNG needs matplotlib, which is not installed.",
            "Install it with: pip install 'inferencegym[demo]'",
        ) from None


def write_png(comparison: Comparison, path: Path) -> None:
    """Scores as bars with their intervals, a panel for each task."""
    figure_class = require_matplotlib()
    tasks = comparison.tasks
    agents = len({row.agent for row in comparison.summaries})
    figure: Any = figure_class(
        figsize=(1.5 + max(2.5, 0.55 * agents) * len(tasks), 4.0), layout="constrained"
    )
    panels = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
    for panel, task in zip(panels, tasks, strict=True):
        rows = rows_of(comparison, task)
        names = [row.agent for row in rows]
        colors = ["0.6" if name == comparison.baseline else "C0" for name in names]
        widths = [row.score.half_width or 0.0 for row in rows]
        panel.bar(names, [row.score.value for row in rows], yerr=widths, color=colors, capsize=3)
        panel.set_title(task)
        panel.tick_params(axis="x", labelrotation=60)
        panel.set_ylim(0.0, 1.05)
        panel.grid(axis="y", alpha=0.3)
    panels[0].set_ylabel("score")
    figure.suptitle(f"{comparison.env}: mean score, 95 % interval, seeds {seeds_text(comparison.seeds)}")
    figure.savefig(path, format="png", dpi=120)
