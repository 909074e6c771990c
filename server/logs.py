"""Structured log: one JSON line per event on standard error, from this server and from uvicorn."""

from __future__ import annotations

import asyncio
import atexit
import logging
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, BinaryIO

import orjson
import structlog

__all__ = ["LineWriter", "configure_logging"]

FLUSH_AFTER_S = 0.25
FLUSH_AT_LINES = 200

_STAMP = structlog.processors.TimeStamper(fmt="iso", utc=True)


def _line(_logger: Any, level: str, event: MutableMapping[str, Any]) -> bytes:
    """One event as JSON. All in one step, since the request log runs it for every request."""
    if "exc_info" in event:
        event = structlog.processors.format_exc_info(None, level, event)
    event["level"] = level
    event["timestamp"] = datetime.now(UTC)
    return orjson.dumps(event, default=str, option=orjson.OPT_UTC_Z)


def _json(event: Any, **options: Any) -> str:
    return orjson.dumps(event, default=options.get("default", str)).decode()


class LineWriter:
    """structlog's logger at the end of the chain: writes lines, those below warning in batches.

    On an event loop, lines wait up to ``FLUSH_AFTER_S``: one write for each request would cost as much as
    a fifth of a step. Warnings and errors, and everything off the loop, are written at once.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lines: list[bytes] = []
        self._flushed_by: asyncio.AbstractEventLoop | None = None
        atexit.register(self.flush)

    def info(self, line: bytes) -> None:
        """Write soon."""
        self._lines.append(line)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
            return
        if loop is not self._flushed_by:
            self._flushed_by = loop
            loop.call_later(FLUSH_AFTER_S, self._end_wait)
        elif len(self._lines) >= FLUSH_AT_LINES:
            self.flush()

    def error(self, line: bytes) -> None:
        """Write now, after what waits."""
        self._lines.append(line)
        self.flush()

    debug = msg = info
    warning = critical = fatal = exception = error

    def _end_wait(self) -> None:
        self._flushed_by = None
        self.flush()

    def flush(self) -> None:
        """Write what waits."""
        lines, self._lines = self._lines, []
        if lines and not self._file.closed:
            self._file.write(b"\n".join([*lines, b""]))
            self._file.flush()


def configure_logging(level: str) -> None:
    """Send everything from ``level`` up to standard error, one JSON object per line."""
    number = logging.getLevelNamesMapping()[level]
    writer = LineWriter(sys.stderr.buffer)
    structlog.configure(
        processors=[_line],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: writer,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(serializer=_json),
            ],
            foreign_pre_chain=[structlog.processors.add_log_level, _STAMP],
        )
    )
    uvicorn_log = logging.getLogger("uvicorn")
    uvicorn_log.handlers, uvicorn_log.propagate = [handler], False
    uvicorn_log.setLevel(number)
