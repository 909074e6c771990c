"""The server comes without gradio, and gradio can still be imported after it."""

from __future__ import annotations

from tests.server.operations.test_app import run

CODE = """
import sys
from server.app import create_app
create_app()
assert "openenv.core.env_server.http_server" in sys.modules
assert not [name for name in sys.modules if name.split(".")[0] in ("gradio", "pandas")]
import gradio
from openenv.core.env_server.web_interface import create_web_interface_app
print("fine")
"""


def test_gradio_is_neither_loaded_nor_broken() -> None:
    done = run(CODE, INFERENCEGYM_LOG_LEVEL="ERROR")
    assert done.stdout.strip() == "fine", done.stderr
