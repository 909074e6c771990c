"""The name by which documents know :mod:`simulator.serving.traffic.replay`; nothing else imports this."""

from simulator.serving.traffic.replay import ReplayWorkload, read_trace

__all__ = ["ReplayWorkload", "read_trace"]
