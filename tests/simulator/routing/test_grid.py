"""How far the grids swing and what waiting saves on each, as docs/environments/routing.md says it."""

from __future__ import annotations

import numpy as np
import pytest

from inferencegym.models.routing import REGIONS, Region
from simulator.routing.grid import GRIDS, draw_carbon

TOLD: dict[Region, tuple[float, float, float]] = {
    "London": (1.43, 0.041, 0.112),
    "Frankfurt": (1.27, 0.035, 0.093),
    "Oregon": (1.27, 0.035, 0.093),
    "Iowa": (1.24, 0.033, 0.085),
    "N. Virginia": (1.24, 0.033, 0.085),
    "Stockholm": (1.20, 0.031, 0.078),
    "Montreal": (1.20, 0.031, 0.078),
    "Paris": (1.15, 0.030, 0.073),
    "Mumbai": (1.15, 0.030, 0.074),
    "Johannesburg": (1.13, 0.029, 0.070),
}
"""Low to high of the usual day; best saving of waiting up to 2 and up to 8 hours, mean over all hours."""


def saving(region: Region, limit_h: int, days: int = 300) -> float:
    drawn = [draw_carbon(GRIDS[region], 0, np.random.default_rng(seed)) for seed in range(days)]
    return float(np.mean([1 - day[h : h + limit_h + 1].min() / day[h] for day in drawn for h in range(24)]))


@pytest.mark.parametrize("region", REGIONS)
def test_swings_and_savings_are_those_told(region: Region) -> None:
    swing, short, long = TOLD[region]
    usual = GRIDS[region].hourly()
    assert usual.max() / usual.min() == pytest.approx(swing, abs=0.006)
    assert saving(region, 2) == pytest.approx(short, abs=0.002)
    assert saving(region, 8) == pytest.approx(long, abs=0.003)
