"""Structured log: one JSON line per event on standard error, from this server and from uvicorn."""

from __future__ import annotations

import logging
import sys
from typing import Any

import orjson
import structlog

__all__ = ["configure_logging"]

_STAMP = structlog.processors.TimeStamper(fmt="iso", utc=True)


def _json(event: Any, **options: Any) -> str:
    return orjson.dumps(event, default=options.get("default", str)).decode()


def configure_logging(level: str) -> None:
    """Send everything from ``level`` up to standard error, one JSON object per line."""
    number = logging.getLevelNamesMapping()[level]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            _STAMP,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=orjson.dumps, default=str),
        ],
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
