"""Tables of the Market lab as HTML: averages and totals of a run, and parameters of policies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from agents.market.duel import EVENT_HOURS, Duel, Row, Summary
from agents.market.policies import PARAMETER_NAMES, PriceParameters, parameter_bounds
from server.dashboard.market_lab.run import Run
from server.dashboard.wording import fixed, signed
from simulator.market.config import MarketSetup
from simulator.market.kernel import SCALE

__all__ = ["averages", "parameters", "table"]


@dataclass(frozen=True, slots=True)
class _Average:
    """A mean over a run, and the hour's value that belongs to it."""

    title: str
    mean: str
    field: str
    digits: int
    scale: float = 1.0


_AVERAGES = (
    _Average("Price (USD per GPU-hour)", "mean_price", "price", 2),
    _Average("Queue (jobs)", "mean_queue_depth", "queue_depth", 1),
    _Average("Utilisation (% of GPUs)", "mean_utilization", "utilization", 1, 100.0),
    _Average("Expected wait (h)", "mean_expected_wait_h", "expected_wait_h", 2),
)

_TOTALS = (
    ("Revenue (USD)", "total_revenue", 0),
    ("Reward, summed", "total_reward", 2),
    ("Jobs taken over at the start", "jobs_taken_over", 0),
    ("Jobs that joined", "jobs_joined", 0),
    ("Jobs finished", "jobs_finished", 0),
    ("Active hours", "active_hours", 0),
)


def averages(run: Run, duel: Duel) -> str:
    """Averages, totals and death of both sides over their active hours, with differences."""
    sides, summaries = duel.sides, duel.summary()
    head = ["Over the active hours", *(side.name for side in sides), "Difference"]
    last = [
        side.rows[-1] if (died := summary.died_at_hour) is None else side.rows[died - 1]
        for side, summary in zip(sides, summaries, strict=True)
    ]
    rows = [_average_row(one, summaries, last) for one in _AVERAGES]
    rows += [
        _total_row(title, [getattr(one, name) for one in summaries], digits)
        for title, name, digits in _TOTALS
    ]
    rows.append(["Market", *(_fate(one, duel) for one in summaries), ""])
    left, right = (escape(side.name) for side in sides)
    note = (
        "Averages per hour; small: the last active hour, and how far it is from the average. "
        f"Difference: {left} minus {right}. {_pressed(run)}"
    )
    return f"{_title('Averages and totals')}{table(head, rows, 'ig-lab-duel')}{_note(note)}"


def _pressed(run: Run) -> str:
    if not run.presses:
        return "No surge and no shock was pressed."
    hours = [
        f"{press.kind} in hours {press.hour + 1} to {min(press.hour + EVENT_HOURS, run.hours)}"
        for press in run.presses
    ]
    return f"Pressed: {'; '.join(hours)}."


def _average_row(one: _Average, summaries: Sequence[Summary], last: Sequence[Row]) -> list[str]:
    means = [one.scale * getattr(summary, one.mean) for summary in summaries]
    ends = [one.scale * getattr(row, one.field) for row in last]
    cells = [_average(mean, end, one.digits) for mean, end in zip(means, ends, strict=True)]
    return [one.title, *cells, signed(means[0] - means[1], one.digits)]


def _average(mean: float, last: float, digits: int) -> str:
    gap = signed(last - mean, digits)
    return f"{fixed(mean, digits)}<small>last {fixed(last, digits)} ({gap})</small>"


def _total_row(title: str, totals: Sequence[float], digits: int) -> list[str]:
    return [title, *(fixed(total, digits) for total in totals), signed(totals[0] - totals[1], digits)]


def _fate(summary: Summary, duel: Duel) -> str:
    if summary.died_at_hour is not None:
        return f"<strong class='ig-lab-dead'>died at hour {summary.died_at_hour}</strong>"
    return f"lived all {duel.hour} hours"


_MEANINGS: dict[str, tuple[str, str, str]] = {
    "base_price": ("Base price", "USD per GPU-hour", "price with an empty queue at the utilisation target"),
    "queue_gain": ("Queue gain", "per waiting job per GPU", "relative rise of the price for a queue"),
    "utilization_gain": (
        "Utilisation gain",
        "per share of GPUs",
        "relative rise of the price above the utilisation target, fall below it",
    ),
    "utilization_target": ("Utilisation target", "of the GPUs", "share at which the base price holds"),
    "smoothing": ("Smoothing", "of the last price", "share of it that stays in the next price"),
}

_FORMULA = (
    "Next price = smoothing × last price + (1 − smoothing) × base price × (1 + queue gain × waiting jobs per "
    "GPU + utilisation gain × (utilisation − target)), held within the scenario’s bounds."
)


def parameters(setup: MarketSetup, sides: Iterable[tuple[str, PriceParameters]]) -> str:
    """Parameters of the policies that have some; "" without any."""
    found = list(sides)
    if not found:
        return ""
    natural = [values.natural() for _, values in found]
    bounds = dict(zip(PARAMETER_NAMES, parameter_bounds(setup), strict=True))
    rows = [
        [_meaning(name, *bounds[name]), *(f"{values[name]:.3f}" for values in natural)] for name in _MEANINGS
    ]
    head = ["Parameter", *(name for name, _ in found)]
    return f"{_title('Parameters of the genetic algorithm’s policies')}{table(head, rows)}{_note(_FORMULA)}"


def _meaning(name: str, low: int, high: int) -> str:
    title, unit, meaning = _MEANINGS[name]
    return f"{title}<small>{meaning}; {low / SCALE:g} to {high / SCALE:g} {unit}</small>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], name: str = "") -> str:
    """A table whose head is text and whose cells are HTML; the first column names the rows, ``name`` is a
    further CSS class."""
    top = "".join(f"<th scope='col'>{escape(title)}</th>" for title in head)
    body = "".join(
        f"<tr><th scope='row'>{first}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        for first, *cells in rows
    )
    return (
        f"<div class='ig-lab-scroll' tabindex='0' role='group' aria-label='{escape(head[0])}'>"
        f"<table class='ig-lab-table {name}'><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _title(text: str) -> str:
    return f"<h3 class='ig-lab-title'>{text}</h3>"


def _note(text: str) -> str:
    return f"<p class='ig-lab-note'>{text}</p>"
