"""The kernel of the reference engine in machine code (numba, extra ``gym``). The first call compiles."""

from __future__ import annotations

from typing import Any

from simulator import reference_kernel
from simulator.compiled import compiled

__all__ = ["serve_iterations"]

serve_iterations: Any = compiled(reference_kernel.serve_iterations, keep=True)
