"""Structured log: one JSON line per event on standard error, from this server and from uvicorn."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any

import orjson
import structlog

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


def configure_logging(level: str) -> None:
    """Send everything from ``level`` up to standard error, one JSON object per line."""
    number = logging.getLevelNamesMapping()[level]
    structlog.configure(
        processors=[_line],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
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
