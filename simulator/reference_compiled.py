"""The kernel of the reference engine in machine code (numba, extra ``gym``). The first call compiles."""

from __future__ import annotations

from typing import Any

from simulator import reference_kernel as kernel
from simulator.compiled import compiled
from simulator.iteration_time import iteration_ms

__all__ = ["serve_iterations"]

_blocks_for = compiled(kernel.blocks_for)
_preempt = compiled(kernel.preempt)
_take_chunk = compiled(kernel.take_chunk)
_admit_next = compiled(kernel.admit_next, first_lane=compiled(kernel.first_lane), blocks_for=_blocks_for)
_schedule_chunks = compiled(kernel.schedule_chunks, take_chunk=_take_chunk, admit_next=_admit_next)
_schedule_decodes = compiled(
    kernel.schedule_decodes,
    blocks_for=_blocks_for,
    make_room=compiled(kernel.make_room, preempt=_preempt),
    draw_tokens=compiled(kernel.draw_tokens),
)
_iteration_time = compiled(iteration_ms)
serve_iterations: Any = compiled(
    kernel.serve_iterations,
    keep=True,
    take_arrivals=compiled(kernel.take_arrivals),
    next_event=compiled(kernel.next_event),
    finish_iteration=compiled(kernel.finish_iteration, end_chunk=compiled(kernel.end_chunk)),
    start_engine=compiled(
        kernel.start_engine,
        schedule_decodes=_schedule_decodes,
        schedule_chunks=_schedule_chunks,
        iteration_ms=_iteration_time,
    ),
    start_prefill_gpu=compiled(
        kernel.start_prefill_gpu, schedule_chunks=_schedule_chunks, iteration_ms=_iteration_time
    ),
)
