"""A prompt in mixed batches: what its prefill takes when its rows share forward passes with other rows."""

from __future__ import annotations

from typing import Any

__all__ = ["mixed_prefill"]


def mixed_prefill(
    size: float,
    alone_s: float,
    follower: float,
    pass_tokens: float,
    decode_rows: int,
    in_flight_s: float,
    step_s: float,
    chunk_tokens: float,
    prefill_row: Any,
    pass_row: Any,
) -> tuple[float, float, float]:
    """Time that a prompt takes on the prefill server, and what its first token waits for beyond it.

    Plain arithmetic over flat sequences, so that it can be compiled.

    Args:
        size: tokens of the prompt.
        alone_s: its prefill with nothing else in its passes, s.
        follower: tokens of the next prompt in line; 0 for none that could be admitted with it.
        pass_tokens: prompt tokens that the pass before it still has room beside; 0 for none.
        decode_rows: token rows of the sequences that decode on the same GPU.
        in_flight_s: rest of the iteration in which the prompt before it ended, s.
        step_s: decode step of these sequences, s.
        chunk_tokens: token rows of a pass.
        prefill_row: prefill of one prompt by its tokens, s.
        pass_row: one forward pass without attention by its token rows, s.

    Returns:
        Seconds on the prefill server without decode steps, seconds that the first token comes after that,
        and prompt tokens of the last pass that others may still join (0 for none).
    """
    work_s = alone_s
    residual_s = 0.0
    if pass_tokens + size > chunk_tokens:
        pass_tokens = 0.0
    if pass_tokens > 0.0 and decode_rows == 0:
        # It shares the pass of the prompt before it.
        work_s = prefill_row[int(pass_tokens + size)] - prefill_row[int(pass_tokens)]
    pass_tokens += size
    if pass_tokens < chunk_tokens and follower > 0.0:
        # The next in line fills up the pass, and its tokens take their time too.
        filled = int(min(pass_tokens + follower, chunk_tokens))
        residual_s = prefill_row[filled] - prefill_row[int(pass_tokens)]
    else:
        pass_tokens = 0.0
    if decode_rows > 0:
        residual_s += in_flight_s
        # One forward pass for its rows and those of the decodes: the weights are read once.
        share = size / chunk_tokens
        chunk = int(min(size, chunk_tokens))
        apart = pass_row[chunk] + pass_row[decode_rows]
        work_s -= max(1.0, share) * (apart - pass_row[chunk + decode_rows])
        if share < 1.0:
            # Its first token comes with the others' at the end of the iteration.
            residual_s += (1.0 - share) * step_s
    return work_s, residual_s, pass_tokens
