"""The name by which documents know :mod:`inferencegym.models.market`; nothing else imports this."""

from inferencegym.models.market import MarketObservation, PriceAction

__all__ = ["MarketObservation", "PriceAction"]
