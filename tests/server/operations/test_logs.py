"""What is logged is JSON lines on standard error, also what uvicorn and libraries say."""

from __future__ import annotations

import json
import logging

import pytest

from server.operations.logs import configure_logging
from tests.server.conftest import make_app


def test_a_line_of_uvicorn_is_json_too(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    writer = configure_logging("INFO")
    logging.getLogger("uvicorn.error").error("failed %s", "here", exc_info=ValueError("wrong"))
    assert writer.flush()
    line = json.loads(capfdbinary.readouterr().err)
    assert (line["event"], line["level"]) == ("failed here", "error")
    assert "ValueError: wrong" in line["exception"]
    make_app()  # back to a quiet log
