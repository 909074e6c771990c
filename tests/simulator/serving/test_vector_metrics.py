"""Order statistics in compiled code."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.kernels.compiled import compiled
from simulator.serving import engine as serving_engine
from simulator.serving import kernel, vector_metrics

VALUES = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=200)
percentile = compiled(vector_metrics.percentile)
sort = compiled(vector_metrics.sort)
waiting_id = compiled(vector_metrics.waiting_id)


@given(VALUES)
@settings(deadline=None)
def test_sort_and_percentiles(values: list[float]) -> None:
    array = np.asarray([*values, -1.0])  # what lies behind the end is left alone
    sort(array, len(values))
    assert array.tolist() == [*sorted(values), -1.0]
    for share in (0.0, 0.5, 0.99, 1.0):
        expected = serving_engine._percentile(sorted(values), share)
        assert percentile(array, len(values), share) == expected


@given(st.lists(st.integers(0, 2), min_size=1, max_size=120), st.integers(0, 5))
@settings(deadline=None)
def test_rank_in_the_union_of_the_queues(lanes: list[int], gone: int) -> None:
    ids = np.zeros((5, 200), dtype=np.int32)
    ints = np.zeros(kernel.INT_STATE, dtype=np.int64)
    for item, lane in enumerate(lanes):
        ids[lane, ints[kernel.TAIL + lane]] = item
        ints[kernel.TAIL + lane] += 1
    for lane in range(3):
        ints[kernel.HEAD + lane] = min(gone, ints[kernel.TAIL + lane])
    waiting = sorted(
        int(item)
        for lane in range(3)
        for item in ids[lane, ints[kernel.HEAD + lane] : ints[kernel.TAIL + lane]]
    )
    assert [waiting_id(ids, ints, rank) for rank in range(len(waiting))] == waiting
