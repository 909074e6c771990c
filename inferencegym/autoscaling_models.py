"""The name by which documents know :mod:`inferencegym.models.autoscaling`; nothing else imports this."""

from inferencegym.models.autoscaling import AutoscalingAction, AutoscalingObservation

__all__ = ["AutoscalingAction", "AutoscalingObservation"]
