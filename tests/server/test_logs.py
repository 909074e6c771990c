"""Log lines are written in batches on an event loop, at once elsewhere, and never out of order."""

from __future__ import annotations

import asyncio
import io
import json
import logging

import pytest

from server.logs import FLUSH_AFTER_S, FLUSH_AT_LINES, LineWriter, configure_logging
from tests.server.conftest import make_app


def test_off_the_loop_a_line_is_written_at_once() -> None:
    file = io.BytesIO()
    LineWriter(file).info(b"one")
    assert file.getvalue() == b"one\n"


async def test_on_the_loop_lines_wait_for_each_other_but_not_long() -> None:
    file = io.BytesIO()
    writer = LineWriter(file)
    writer.info(b"one")
    writer.info(b"two")
    assert file.getvalue() == b""
    await asyncio.sleep(FLUSH_AFTER_S + 0.1)
    assert file.getvalue() == b"one\ntwo\n"


async def test_trouble_does_not_wait_and_keeps_the_order() -> None:
    file = io.BytesIO()
    writer = LineWriter(file)
    writer.info(b"before")
    writer.error(b"trouble")
    assert file.getvalue() == b"before\ntrouble\n"


async def test_many_lines_do_not_wait() -> None:
    file = io.BytesIO()
    writer = LineWriter(file)
    for _ in range(FLUSH_AT_LINES):
        writer.info(b"x")
    assert file.getvalue() == b"x\n" * FLUSH_AT_LINES


def test_a_line_of_uvicorn_is_json_too(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    configure_logging("INFO")
    logging.getLogger("uvicorn.error").error("failed %s", "here", exc_info=ValueError("wrong"))
    line = json.loads(capfdbinary.readouterr().err)
    assert (line["event"], line["level"]) == ("failed here", "error")
    assert "ValueError: wrong" in line["exception"]
    make_app()  # back to a quiet log
