"""Files of pricing policies: evolved parameters with their provenance, and the best constant prices.

The committed ones lie in ``agents/data/market``: ``ga_best_params_SCENARIO.json`` (made by ``inferencegym
market train-ga``) and ``static_prices.json`` (made by ``inferencegym market sweep``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from agents.market.policies import PriceParameters
from inferencegym.errors import InferenceGymError, InvalidValueError
from simulator.market.config import MarketSetup, load_market, micro

__all__ = [
    "DATA_FOLDER",
    "PATTERN",
    "load_parameters",
    "newest_parameters",
    "parameters_path",
    "read_document",
    "read_parameters",
    "static_price",
]

DATA_FOLDER = Path(__file__).parents[1] / "data" / "market"
PATTERN = "ga_best_params*.json"
STATIC_PRICES = DATA_FOLDER / "static_prices.json"


def parameters_path(scenario: str, folder: Path = DATA_FOLDER) -> Path:
    """Where the parameters of a scenario are kept."""
    return folder / f"ga_best_params_{scenario}.json"


def load_parameters(scenario: str) -> PriceParameters:
    """The committed parameters of a shipped scenario. Raises InferenceGymError when it has none."""
    path = parameters_path(scenario)
    if not path.exists():
        raise InferenceGymError(
            f"Scenario {scenario} has no evolved policy.",
            f"Make one: inferencegym market train-ga --scenario {scenario} --output {path.name}.",
        )
    return read_parameters(path, load_market().setup(scenario))[0]


def read_parameters(path: Path, setup: MarketSetup) -> tuple[PriceParameters, dict[str, Any]]:
    """Parameters from a file of ``train-ga`` (or ``{"parameters": {...}}``), and the whole document.

    Raises:
        InvalidValueError: not such a file, or a parameter outside its bounds.
    """
    document = read_document(path)
    values: Any = document.get("parameters")
    if not isinstance(values, dict):
        raise InvalidValueError(f"{path.name}: parameters", values, "an object of the five parameters")
    return PriceParameters.checked(cast("dict[str, Any]", values), setup), document


def read_document(path: Path) -> dict[str, Any]:
    """The JSON object of a file. Raises InvalidValueError."""
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidValueError(path.name, str(path), "a readable JSON file", str(error)) from None
    if not isinstance(document, dict):
        raise InvalidValueError(path.name, cast("object", document), "a JSON object")
    return cast("dict[str, Any]", document)


def newest_parameters(folder: Path, scenario: str | None = None) -> Path | None:
    """The newest ``ga_best_params*.json`` of a folder (of one scenario, if named); None without any."""
    found: list[tuple[float, str, Path]] = []
    for path in folder.glob(PATTERN):
        if scenario is not None and _scenario_of(path) != scenario:
            continue
        found.append((path.stat().st_mtime, path.name, path))
    return max(found)[2] if found else None


def _scenario_of(path: Path) -> str | None:
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", document).get("scenario") if isinstance(document, dict) else None


def static_price(scenario: str) -> int:
    """The best constant price of a shipped scenario, micro-USD per GPU-hour."""
    return micro(json.loads(STATIC_PRICES.read_text())["prices"][scenario])
