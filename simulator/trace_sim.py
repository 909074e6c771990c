"""The name by which documents know :mod:`simulator.packs.trace_sim`; nothing else imports this."""

from simulator.packs.trace_sim import TraceSimulator, shared_simulator

__all__ = ["TraceSimulator", "shared_simulator"]
