"""The kernel of the reference engine in machine code (numba, extra ``gym``). The first call compiles."""

from __future__ import annotations

from typing import Any

from simulator.kernels.compiled import compiled
from simulator.reference import kernel as reference_kernel

__all__ = ["serve_iterations"]

serve_iterations: Any = compiled(reference_kernel.serve_iterations, keep=True)
