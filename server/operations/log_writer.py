"""Writes lines from a thread of its own, so that nobody who logs ever waits for who reads.

A pipe that its reader has forgotten takes 64 KiB and then blocks the writer for good; a full disk raises at
every write. Here only the thread meets either. Lines that cannot be kept are dropped and counted.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from io import UnsupportedOperation
from typing import BinaryIO

__all__ = ["LineWriter"]

FLUSH_AFTER_S = 0.25
"""Lines below warning wait so long for each other: a write for each would cost a fifth of a step."""

MAX_WAITING_BYTES = 4 * 1024 * 1024
"""Lines kept for a reader that is slow: some 20,000 requests. What comes after them is dropped."""

EXIT_WAIT_S = 2.0
"""Longest wait at the end of the process for what has not been written."""


class LineWriter:
    """structlog's logger at the end of the chain: takes lines at once, writes them in batches.

    Lines keep their order. Warnings and errors wake the thread, with all that waits before them.

    Args:
        file: where to; one with a file descriptor is written to without its buffer.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._dropped = 0
        self._lock = threading.Lock()
        self._any = threading.Event()
        self._urgent = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None

    @property
    def dropped(self) -> int:
        """Lines that were not written: there was no room for them, or writing them failed."""
        return self._dropped

    def info(self, line: bytes) -> None:
        """Write soon."""
        self._take(line)

    def error(self, line: bytes) -> None:
        """Write as soon as can be, after what waits."""
        self._take(line)
        self._urgent.set()

    debug = msg = info
    warning = critical = fatal = exception = error

    def flush(self, wait_s: float = EXIT_WAIT_S) -> bool:
        """Wait for what was logged before, not longer than ``wait_s`` seconds; whether all is written."""
        self._urgent.set()
        return self._idle.wait(wait_s)

    def _take(self, line: bytes) -> None:
        with self._lock:
            if self._waiting_bytes + len(line) > MAX_WAITING_BYTES:
                self._dropped += 1
                return
            self._waiting.append(line)
            self._waiting_bytes += len(line) + 1
            if self._any.is_set():
                return
            if self._thread is None and not self._start():
                return
            self._idle.clear()
            self._any.set()

    def _start(self) -> bool:
        # A daemon: a write that never returns must not keep the process from ending.
        thread = threading.Thread(target=self._run, name="log", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads here and now; the next line tries again
            return False
        self._thread = thread
        atexit.register(self.flush)
        return True

    def _run(self) -> None:
        while True:
            self._any.wait()
            self._urgent.wait(FLUSH_AFTER_S)
            self._urgent.clear()
            with self._lock:
                lines = list(self._waiting)
                self._waiting.clear()
            self._write(lines)
            with self._lock:
                # They count as waiting until they are written: a stuck reader gets no second helping.
                self._waiting_bytes -= sum(map(len, lines)) + len(lines)
                if not self._waiting:
                    self._any.clear()
                    self._idle.set()

    def _write(self, lines: list[bytes]) -> None:
        try:
            self._write_out(b"\n".join([*lines, b""]))
        except (OSError, ValueError):  # a full disk, a reader that is gone, a file that was closed
            with self._lock:
                self._dropped += len(lines)

    def _write_out(self, data: bytes) -> None:
        try:
            number = self._file.fileno()
        except UnsupportedOperation:
            self._file.write(data)
            self._file.flush()
            return
        # Not through the file's buffer: its lock would be held by a write that is stuck, and Python's own
        # flush at the end of the process would wait for it.
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(number, rest) :]
            except BlockingIOError:  # whoever started this process made the pipe non-blocking
                time.sleep(FLUSH_AFTER_S)
