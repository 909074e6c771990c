"""Running sequences of one engine in flat arrays: the lists of ``serving_engine`` for compiled code.

``keys[:size]`` is a binary heap of finishing clocks. ``tags`` holds, for each, admission order and request
id in one number; behind the heap's part come the stack of admissions (tags, newest last) and its length.
Tags break ties as the tuples ``(clock, order, id)`` do. A stack entry whose order is no longer its request's
own is stale and skipped; the heap itself has no stale entries.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "HEAP_SIZE",
    "STACK_LENGTH",
    "TAGS_SIZE",
    "heap_first",
    "heap_pop",
    "heap_push",
    "heap_take_latest",
]

HEAP_SIZE = 520
"""More than sequences can run: 512."""

_STACK = HEAP_SIZE
_STACK_FULL = 1024
"""Length of the stack at which stale entries are thrown out. At most 512 entries are not stale, and at most
512 can be pushed between two removals."""

STACK_LENGTH = _STACK + 1600
TAGS_SIZE = STACK_LENGTH + 1

_ID_BITS = 32
_ID_MASK = 2**_ID_BITS - 1


def _sift_up(keys: Any, tags: Any, hole: int, key: float, tag: int) -> None:
    """Put an entry in at ``hole`` or above it."""
    while hole > 0:
        parent = (hole - 1) >> 1
        if keys[parent] < key or (keys[parent] == key and tags[parent] < tag):
            break
        keys[hole] = keys[parent]
        tags[hole] = tags[parent]
        hole = parent
    keys[hole] = key
    tags[hole] = tag


def _sift_down(keys: Any, tags: Any, size: int, hole: int, key: float, tag: int) -> None:
    """Put an entry in at ``hole`` or below it."""
    child = 2 * hole + 1
    while child < size:
        right = child + 1
        if right < size and (
            keys[right] < keys[child] or (keys[right] == keys[child] and tags[right] < tags[child])
        ):
            child = right
        if key < keys[child] or (key == keys[child] and tag < tags[child]):
            break
        keys[hole] = keys[child]
        tags[hole] = tags[child]
        hole = child
        child = 2 * hole + 1
    keys[hole] = key
    tags[hole] = tag


def heap_push(keys: Any, tags: Any, size: int, key: float, order: int, item: int) -> None:
    """Add a sequence. It is also the latest admitted."""
    tag = (order << _ID_BITS) | item
    _sift_up(keys, tags, size, key, tag)
    length = tags[STACK_LENGTH]
    tags[_STACK + length] = tag
    tags[STACK_LENGTH] = length + 1


def heap_first(keys: Any, order: Any) -> float:
    """Clock at which the next sequence finishes; only for a heap that is not empty."""
    return keys[0]


def heap_pop(keys: Any, tags: Any, size: int, order: Any) -> int:
    """Remove and return the sequence that finishes next."""
    item = tags[0] & _ID_MASK
    last = size - 1
    if last > 0:
        _sift_down(keys, tags, last, 0, keys[last], tags[last])
    if tags[STACK_LENGTH] > _STACK_FULL:
        _drop_stale(tags, order)
    return item


def heap_take_latest(keys: Any, tags: Any, size: int, order: Any) -> int:
    """Remove and return the sequence that was admitted last."""
    length = tags[STACK_LENGTH]
    while True:
        length -= 1
        tag = tags[_STACK + length]
        if order[tag & _ID_MASK] == tag >> _ID_BITS:
            break
    tags[STACK_LENGTH] = length
    _remove(keys, tags, size, tag)
    return tag & _ID_MASK


def _remove(keys: Any, tags: Any, size: int, tag: int) -> None:
    """Take one entry out of the heap. The latest admitted finishes late: it is looked for from the end."""
    last = size - 1
    at = last
    while tags[at] != tag:
        at -= 1
    if at < last:
        key, moved = keys[last], tags[last]
        parent = (at - 1) >> 1
        if at > 0 and (key < keys[parent] or (key == keys[parent] and moved < tags[parent])):
            _sift_up(keys, tags, at, key, moved)
        else:
            _sift_down(keys, tags, last, at, key, moved)


def _drop_stale(tags: Any, order: Any) -> None:
    kept = 0
    for index in range(tags[STACK_LENGTH]):
        tag = tags[_STACK + index]
        if order[tag & _ID_MASK] == tag >> _ID_BITS:
            tags[_STACK + kept] = tag
            kept += 1
    tags[STACK_LENGTH] = kept
