"""The name by which documents know :mod:`simulator.serving.traffic.config`; nothing else imports this."""

from simulator.serving.traffic.config import get_workload

__all__ = ["get_workload"]
