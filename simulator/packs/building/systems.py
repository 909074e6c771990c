"""GPUs that a pack can be built for without saying more: memory, price and links of each."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from inferencegym.errors import InvalidValueError
from inferencegym.models.serving import MEMORY_GB_MAX

__all__ = ["SYSTEMS", "System", "system_named"]


@dataclass(frozen=True, slots=True)
class System:
    """What a pack needs to know about a GPU besides its timings.

    ``memory_gib`` is what the serving process is given on one GPU: at most 80, the bound of the observation
    ``gpu_memory_used_gb``. ``cents_per_gpu_hour`` is a US list price. Links are 10**9 bytes/s.
    """

    memory_gib: float
    cents_per_gpu_hour: float
    kv_link_gb_per_s: float
    weight_load_gb_per_s: float


_HDR, _NDR = 25.0, 50.0
"""One InfiniBand port a GPU, GB/s: 200 Gb/s (DGX A100) and 400 Gb/s (DGX H100 and later)."""

_PCIE4, _PCIE5 = 25.0, 50.0
"""Host to GPU over 16 lanes in practice, GB/s; wire rates are 31.5 and 63."""

SYSTEMS = {
    # Google Cloud, on demand, us-central1, A100 with 40 GB: 2.93 USD.
    "a100_sxm": System(40.0, 293.0, _HDR, _PCIE4),
    # Amazon EC2 Capacity Blocks for ML, effective hourly rate of an accelerator, end of 2024.
    "h100_sxm": System(80.0, 491.6, _NDR, _PCIE5),
    "h200_sxm": System(80.0, 540.8, _NDR, _PCIE5),
    # Middle of what marketplaces ask: 4.70 and 0.60 USD.
    "b200_sxm": System(80.0, 470.0, _NDR, _PCIE5),
    "l40s": System(48.0, 60.0, _HDR, _PCIE4),
}
"""By aiconfigurator-core's names. Of the H200 (141 GB) and the B200 (180 GB) the process gets 80 GiB."""


def system_named(
    name: str, memory_gib: float | None = None, cents_per_gpu_hour: float | None = None
) -> System:
    """A system with what is given replaced.

    Raises:
        InvalidValueError: memory above 80 GiB, no price, or a system without defaults of which not all is
            given.
    """
    if memory_gib is not None and not 1.0 <= memory_gib <= MEMORY_GB_MAX:
        raise InvalidValueError(
            "memory_gib", memory_gib, f"1 to {MEMORY_GB_MAX:g}, the bound of the observed memory"
        )
    if cents_per_gpu_hour is not None and not 0.0 < cents_per_gpu_hour < inf:
        raise InvalidValueError("cents_per_gpu_hour", cents_per_gpu_hour, "a number above 0")
    known = SYSTEMS.get(name)
    if known is None and (memory_gib is None or cents_per_gpu_hour is None):
        raise InvalidValueError(
            "system",
            name,
            f"one of {', '.join(SYSTEMS)}, or any other of the library together with memory-gib and "
            "cents-per-gpu-hour",
        )
    base = known or System(0.0, 0.0, _NDR, _PCIE5)
    return System(
        base.memory_gib if memory_gib is None else memory_gib,
        base.cents_per_gpu_hour if cents_per_gpu_hour is None else cents_per_gpu_hour,
        base.kv_link_gb_per_s,
        base.weight_load_gb_per_s,
    )
