"""The heap in arrays against the heap in lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.kernels.compiled import compiled
from simulator.serving import engine as lists
from simulator.serving import vector_heap
from simulator.serving.vector_heap import HEAP_SIZE, STACK_LENGTH, TAGS_SIZE

LEFT = -2
heap_first = compiled(vector_heap.heap_first)
heap_pop = compiled(vector_heap.heap_pop)
heap_push = compiled(vector_heap.heap_push)
heap_take_latest = compiled(vector_heap.heap_take_latest)


class Both:
    """Two heaps that are given the same to do."""

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, int]] = []
        self.stack: list[tuple[int, int]] = []
        self.keys = np.zeros(HEAP_SIZE)
        self.tags = np.zeros(TAGS_SIZE, dtype=np.int64)
        self.order = np.full(4096, -1, dtype=np.int32)
        self.size = 0
        self.admitted = 0

    def push(self, key: float, item: int) -> None:
        self.order[item] = self.admitted
        lists._heap_push(self.heap, self.stack, self.size, key, self.admitted, item)
        heap_push(self.keys, self.tags, self.size, key, self.admitted, item)
        self.admitted += 1
        self.size += 1

    def pop(self) -> int:
        order = self.order.tolist()
        assert heap_first(self.keys, self.order) == lists._heap_first(self.heap, order)
        expected = lists._heap_pop(self.heap, self.stack, self.size, order)
        return self._removed(heap_pop(self.keys, self.tags, self.size, self.order), expected)

    def take_latest(self) -> int:
        expected = lists._heap_take_latest(self.heap, self.stack, self.size, self.order.tolist())
        return self._removed(heap_take_latest(self.keys, self.tags, self.size, self.order), expected)

    def _removed(self, item: int, expected: int) -> int:
        assert item == expected
        self.order[item] = LEFT
        self.size -= 1
        return item


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["push", "push", "pop", "latest"]), st.integers(0, 6)), max_size=300
)


@given(OPERATIONS)
@settings(deadline=None, max_examples=60)
def test_both_give_the_same_sequences_ties_included(operations: list[tuple[str, int]]) -> None:
    both, free = Both(), list(range(400))
    for what, key in operations:
        if what == "push":
            both.push(float(key), free.pop())
        elif both.size:
            free.append(both.pop() if what == "pop" else both.take_latest())
    while both.size:
        both.pop()


def test_a_full_heap_is_served_for_ever() -> None:
    both, rng, free = Both(), np.random.default_rng(0), list(range(600))
    for _ in range(20):
        while both.size < 512:
            both.push(float(rng.integers(100)), free.pop(0))
        removals = rng.random(int(rng.integers(1, 512)))
        free += [both.pop() if draw < 0.9 else both.take_latest() for draw in removals]
        assert both.tags[STACK_LENGTH] <= STACK_LENGTH - HEAP_SIZE
