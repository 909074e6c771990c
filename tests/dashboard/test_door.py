"""What stands between a visitor and the page's framework, each part by itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from inferencegym.errors import InferenceGymError
from server.dashboard.door import screened

ROOT = Path(__file__).resolve().parents[2]

# In a process of its own: the framework leaves event loops open that this suite would take for a fault.
_TRY = """
import asyncio, sys
import gradio as gr
from gradio.context import LocalContext
from gradio.processing_utils import async_move_files_to_cache, move_files_to_cache
from server.dashboard.door import seal

with gr.Blocks(analytics_enabled=False) as page:
    gr.Textbox()
    gr.JSON()

async def tries(place):
    payload = {"path": place, "meta": {"_type": "gradio.FileData"}}
    for block in page.blocks.values():
        for given in (True, False):
            for move in (async_move_files_to_cache, move_files_to_cache):
                try:
                    moved = move(payload, block, not given, check_in_upload_folder=given)
                    yield await moved if move is async_move_files_to_cache else moved
                except Exception as error:
                    yield f"{type(error).__name__}: {error}"

async def main(places):
    LocalContext.blocks.set(page)
    for place in places:
        async for outcome in tries(place):
            print("moved" if isinstance(outcome, dict) else outcome)

if sys.argv[1] == "sealed":
    seal(page)
asyncio.run(main(sys.argv[2:]))
"""


def outcomes(state: str, *places: str | Path) -> list[str]:
    """What each component says to a payload that names ``places``, as input and as output, one line a try."""
    command = [sys.executable, "-c", _TRY, state, *map(str, places)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def test_no_component_of_a_sealed_page_takes_a_file_or_an_address(tmp_path: Path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    assert set(outcomes("as it comes", secret)) == {"moved"}
    sealed = outcomes("sealed", secret, "http://127.0.0.1:1/x")
    assert len(sealed) == 2 * len(outcomes("as it comes", secret))
    assert all("takes a file or an address" in line or "Cannot move" in line for line in sealed)


@pytest.mark.parametrize(
    "body",
    [
        b'{"data": [{"meta": {"_type": "gradio.FileData"}}]}',
        b'{"event_data": {"a": [[{"meta": {"_type": null, "x": 1}}]]}}',
        b'{"data": [{"m\\u0065ta": {"_t\\u0079pe": "x"}}]}',
    ],
)
def test_payloads_that_name_a_file_are_refused(body: bytes):
    with pytest.raises(InferenceGymError, match=r"meta\._type"):
        screened(body)


def test_other_payloads_pass_unchanged():
    document = {"data": [1, "meta", {"meta": "x", "path": "y"}], "f": None}
    assert screened(json.dumps(document).encode()) == document


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b'{"data": NaN}', b"\xff", b"[" * 5000])
def test_what_is_no_json_object_is_refused(body: bytes):
    with pytest.raises(InferenceGymError, match="not valid JSON"):
        screened(body)
