"""Carbon intensity of electricity by region and hour, g CO₂/kWh, with a forecast that errs.

Means of 2024 by region: Google Cloud, "Carbon free energy for Google Cloud regions" (grid carbon
intensity). Hourly shapes: ENTSO-E data of 2020 as published with "Let's wait awhile" (arXiv 2110.13234):
Britain (178 → 255) has its low at night, Germany (275 → 350) at noon, when the sun shines. How far other
regions swing is our assumption; published daily swings are 1.2 to 1.4 from low to high.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from inferencegym.models.routing import Region

__all__ = ["GRIDS", "HORIZON_H", "WAIT_MAX_H", "Grid", "draw_carbon", "draw_forecast"]

FloatArray = npt.NDArray[np.float64]

WAIT_MAX_H = 8
HORIZON_H = 24 + WAIT_MAX_H + 4
"""Hours of a stream, of its longest wait, and of what may run late."""

# fmt: off
BRITAIN = np.array([
    183, 182, 179, 178, 179, 188, 207, 222, 225, 223, 218, 217,
    217, 218, 222, 229, 242, 252, 255, 252, 243, 228, 206, 188,
], dtype=np.float64)
GERMANY = np.array([
    308, 305, 306, 313, 323, 329, 326, 314, 299, 287, 279, 275,
    276, 284, 297, 315, 333, 346, 350, 346, 340, 334, 323, 314,
], dtype=np.float64)
# fmt: on
_SHAPES = {"night": BRITAIN / BRITAIN.mean() - 1.0, "noon": GERMANY / GERMANY.mean() - 1.0}

DAY_SIGMA = 0.12
"""Spread of whole days around the mean (weather), log scale; our assumption."""
HOUR_SIGMA, HOUR_MEMORY = 0.04, 0.8
"""Hour-to-hour noise around the daily shape, an autoregressive process: so wide that waiting up to 2 and 8
hours saves as much as the study found (3 to 5 and 9 to 14 %)."""
FORECAST_SIGMA, FORECAST_SIGMA_MAX = 0.02, 0.06
"""Relative error of a forecast one hour ahead, growing with the square root of the lead. Day-ahead
forecasts of carbon intensity report mean errors of 3 to 8 % (CarbonCast, BuildSys 2022)."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Mean intensity, the daily shape ("night" or "noon" is when it is low) and how strongly it swings."""

    mean_g_per_kwh: float
    shape: str
    swing: float

    def hourly(self) -> FloatArray:
        """Usual intensity at local hours 0 to 23."""
        return self.mean_g_per_kwh * (1.0 + self.swing * _SHAPES[self.shape])


GRIDS: dict[Region, Grid] = {
    "Stockholm": Grid(3.0, "night", 0.5),
    "Montreal": Grid(6.0, "night", 0.5),
    "Paris": Grid(16.0, "night", 0.4),
    "Oregon": Grid(79.0, "noon", 1.0),
    "London": Grid(106.0, "night", 1.0),
    "Frankfurt": Grid(276.0, "noon", 1.0),
    "N. Virginia": Grid(323.0, "night", 0.6),
    "Iowa": Grid(413.0, "night", 0.6),
    "Johannesburg": Grid(657.0, "noon", 0.5),
    "Mumbai": Grid(679.0, "noon", 0.6),
}


def draw_carbon(grid: Grid, start_hour: int, rng: np.random.Generator) -> FloatArray:
    """Intensity of each hour from the start of a stream, shape (HORIZON_H,)."""
    usual = grid.hourly()[(start_hour + np.arange(HORIZON_H)) % 24]
    noise = np.empty(HORIZON_H)
    level = 0.0
    for hour, shock in enumerate(rng.normal(0.0, HOUR_SIGMA, HORIZON_H)):
        level = HOUR_MEMORY * level + float(shock)
        noise[hour] = level
    return usual * np.exp(rng.normal(0.0, DAY_SIGMA) + noise)


def draw_forecast(carbon: FloatArray, rng: np.random.Generator) -> FloatArray:
    """What is forecast at hour h for hour h + lead, shape (HORIZON_H - WAIT_MAX_H, WAIT_MAX_H + 1)."""
    hours = HORIZON_H - WAIT_MAX_H
    leads = np.arange(WAIT_MAX_H + 1)
    sigma: Any = np.minimum(FORECAST_SIGMA * np.sqrt(leads), FORECAST_SIGMA_MAX)
    errors = rng.normal(0.0, 1.0, (hours, WAIT_MAX_H + 1)) * sigma
    return carbon[np.arange(hours)[:, None] + leads] * np.maximum(0.0, 1.0 + errors)
