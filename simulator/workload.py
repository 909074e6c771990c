"""The name by which documents know :mod:`simulator.serving.traffic.workload`; nothing else imports this."""

from simulator.serving.traffic.workload import WorkloadGenerator

__all__ = ["WorkloadGenerator"]
