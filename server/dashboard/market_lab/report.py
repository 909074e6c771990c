"""What the Market lab says of a training: its progress, and how the trained policy stands."""

from __future__ import annotations

from server.dashboard.market_lab.retrain import COMPILED, Progress
from server.dashboard.market_lab.retrain_order import Order, Standing, Trained
from server.dashboard.market_lab.tables import table
from server.dashboard.wording import fixed, signed

__all__ = ["ENGINE", "bar", "report", "verdict"]

ENGINE = (
    "It runs on compiled code and takes some 10 seconds at the proposed size; the first training after an "
    "installation compiles for some 15 seconds more."
    if COMPILED
    else "This server has no numba (extra `gym`): it runs in plain Python, some 20 times slower, so that the "
    "proposed size is smaller and takes some 10 seconds."
)


def bar(progress: Progress) -> str:
    """How far a training has come, or who is before it."""
    if progress.ahead == 1:
        return _status("Another visitor is training; yours is next.")
    if progress.ahead:
        return _status(f"{progress.ahead} trainings of other visitors come before yours.")
    if progress.best is None:
        text = "Starting: the first generation is being played"
    elif progress.generation == progress.generations:
        text = f"All {progress.generations} generations done; measuring on held-out seeds"
    else:
        text = f"Generation {progress.generation} of {progress.generations}"
    best = "" if progress.best is None else f" Best sum of rewards so far: {fixed(progress.best, 2)}."
    return (
        f"<div class='ig-lab-progress'>{text}.{best}<progress aria-label='Generations trained' "
        f"max='{progress.generations}' value='{progress.generation}'></progress></div>"
    )


def report(order: Order, trained: Trained) -> str:
    """The trained policy against others on held-out seeds."""
    head = [
        f"On {trained.held_out_seeds} held-out seeds",
        "Sum of rewards",
        "Retrained minus it, paired",
        "Markets that died",
    ]
    first, *others = trained.standings
    rows = [_row(first, ""), *(_row(one, _interval(one.behind, sign=True)) for one in others)]
    note = (
        f"{order.scenario}, {order.gpus} GPUs, {order.arrival_rate:g} jobs/h, {order.hours} h; "
        f"{order.generations} generations of {order.population} on {order.seeds} training seeds (best there: "
        f"{fixed(trained.fitness, 2)}). ± is half of a 95 % interval."
    )
    sentences = " ".join(verdict(one) for one in others)
    return (
        f"<h3 class='ig-lab-title'>Your retrained policy</h3><p role='status'>{sentences}</p>"
        f"{table(head, rows)}<p class='ig-lab-note'>{note}</p>"
    )


def _row(one: Standing, gap: str) -> list[str]:
    return [one.policy, _interval(one.reward), gap, f"{one.death_rate:.0%}"]


def verdict(other: Standing) -> str:
    """Better, worse, or not to be told apart by these seeds."""
    gap, half = other.behind
    if gap == half == 0:
        return f"In every one of these episodes it does as well as {other.policy}."
    if abs(gap) <= half:
        return f"Not told apart from {other.policy} by these seeds ({_interval(other.behind, sign=True)})."
    return f"{'Better' if gap > 0 else 'Worse'} than {other.policy} by {_interval((abs(gap), half))}."


def _status(text: str) -> str:
    return f"<p class='ig-lab-status' role='status'>{text}</p>"


def _interval(values: tuple[float, float], sign: bool = False) -> str:
    value, half = values
    # No line break beside the sign.
    return f"{signed(value, 2) if sign else fixed(value, 2)}\u00a0±\u00a0{half:.2f}"
