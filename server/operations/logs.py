"""Structured log: one JSON line per event on standard error, from this server and from uvicorn."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any

import orjson
import structlog

from server.operations.log_writer import LineWriter

__all__ = ["configure_logging"]

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


class _Handler(logging.Handler):
    """Hands the records of Python's own logging to the writer."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        """Format and pass on; see logging.Handler."""
        try:
            line = self.format(record).encode("utf-8", "backslashreplace")
        except Exception:  # noqa: BLE001 (a record that cannot be formatted must not break who logged it)
            line = orjson.dumps({"event": "a log record could not be formatted", "logger": record.name})
        if record.levelno >= logging.WARNING:
            self._writer.error(line)
        else:
            self._writer.info(line)


def configure_logging(level: str) -> LineWriter:
    """Send everything from ``level`` up to standard error, one JSON object per line.

    Returns the writer of all lines, which knows how many it had to drop.
    """
    number = logging.getLevelNamesMapping()[level]
    writer = LineWriter(sys.stderr.buffer)
    structlog.configure(
        processors=[_line],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: writer,
        cache_logger_on_first_use=False,
    )
    handler = _Handler(writer)
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
    root = logging.getLogger()
    # What libraries warn of would otherwise be printed by whoever warns, and wait for the reader. A program
    # that this application is part of keeps its own handlers.
    if all(isinstance(each, _Handler) for each in root.handlers):
        root.handlers = [handler]
    return writer
