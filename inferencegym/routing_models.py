"""The name by which documents know :mod:`inferencegym.models.routing`; nothing else imports this."""

from inferencegym.models.routing import RoutingAction, RoutingObservation

__all__ = ["RoutingAction", "RoutingObservation"]
