"""Charts and tiles of a view's panels, over the runs of one side or two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from server.dashboard.scene import Chart, Limit, Line, Tile
from server.dashboard.views.view import Panel, Signal

__all__ = ["Columns", "chart_of", "tile_of"]


class Columns(Protocol):
    """A side's run, signal by signal."""

    def values(self, signal: Signal) -> list[float | None]:
        """What is drawn of a signal, one value a step."""
        ...


def chart_of(
    panel: Panel, sides: Sequence[Columns], names: Sequence[str], limits: Mapping[str, float]
) -> Chart:
    """The panel's signals of each side, with labelled horizontal lines."""
    lines = [
        Line(_legend(panel, names, number, signal), side.values(signal), number, signal.dashed)
        for number, side in enumerate(sides[:1] if panel.shared else sides)
        for signal in panel.signals
    ]
    return Chart(panel.title, panel.unit, lines, [Limit(*one) for one in limits.items()], panel.log)


def _legend(panel: Panel, names: Sequence[str], side: int, signal: Signal) -> str:
    if panel.shared:
        return signal.name
    return names[side] if len(panel.signals) == 1 else f"{names[side]}, {signal.name}"


def tile_of(panel: Panel, sides: Sequence[Columns]) -> Tile:
    """The panel's first signal of each side."""
    signal = panel.signals[0]
    label = panel.title if len(panel.signals) == 1 else f"{panel.title}, {signal.name}"
    return Tile(label, panel.unit, panel.digits, [side.values(signal) for side in sides], panel.better)
