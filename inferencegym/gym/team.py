"""A few threads that share one loop: machine code without the interpreter lock runs in them side by side."""

from __future__ import annotations

import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

from inferencegym.errors import InferenceGymError

__all__ = ["THREADS_MAX", "Team", "available_cores"]

THREADS_MAX = 256
"""More threads than cores only wait for each other; no machine that this is meant for has more."""

Part = Callable[[int, int], None]

_SMALLEST_PART = 16
"""Rows below which handing over to a thread costs more than it saves."""


def available_cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class Team:
    """``size`` threads, the caller's included. They end with :meth:`close` or the process.

    Raises:
        InferenceGymError: the system gives no more threads; those that were started have ended.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._pid = os.getpid()
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self._tasks: list[SimpleQueue[tuple[Part, int, int] | None]] = []
        self.threads: list[Thread] = []
        for _ in range(size - 1):
            tasks: SimpleQueue[tuple[Part, int, int] | None] = SimpleQueue()
            self._tasks.append(tasks)
            thread = Thread(target=self._work, args=(tasks,), daemon=True)
            try:
                thread.start()
            except RuntimeError:
                started = len(self.threads)
                self.close()
                raise InferenceGymError(
                    f"threads: only {started} of {size - 1} more threads could be started.", "Ask for fewer."
                ) from None
            self.threads.append(thread)

    def spread(self, function: Part, count: int) -> None:
        """Call ``function(low, high)`` for ranges that cover ``range(count)``, one a thread. Returns when all
        are done; raises what one of them raised."""
        parts = min(len(self._tasks) + 1, max(1, count // _SMALLEST_PART))
        if os.getpid() != self._pid:
            parts = 1  # threads do not survive a fork
        edges = [count * part // parts for part in range(parts + 1)]
        for part in range(1, parts):
            self._tasks[part - 1].put((function, edges[part], edges[part + 1]))
        failure: BaseException | None = None
        try:
            function(edges[0], edges[1])
        finally:
            for _ in range(1, parts):
                failure = self._done.get() or failure
        if failure is not None:
            raise failure

    def close(self) -> None:
        """End the threads; what is spread from now on runs in the caller's."""
        for tasks in self._tasks:
            tasks.put(None)
        self._tasks.clear()
        if os.getpid() == self._pid:
            for thread in self.threads:
                thread.join()

    def _work(self, tasks: SimpleQueue[tuple[Part, int, int] | None]) -> None:
        while (task := tasks.get()) is not None:
            function, low, high = task
            try:
                function(low, high)
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                self._done.put(error)
            else:
                self._done.put(None)
