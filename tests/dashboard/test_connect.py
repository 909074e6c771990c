"""Every snippet of Connect does what it says, against a live server."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
from collections.abc import Iterator

import pytest

from inferencegym.registry import EnvSpec, all_specs, get_spec, register, unregister
from server.bound import BoundEnv
from server.dashboard.connect.snippets import SERVER, Snippet, snippets_of
from server.dashboard.connect.tab import copy_block
from tests.live import live_server
from tests.server import toy_env

TITLES = [
    "curl",
    "Python client",
    "OpenEnv client",
    "gymnasium, on this server",
    "gymnasium, without a server",
]

LAST_WORDS = dict(zip(TITLES[1:], ("score=", "step", "sum of rewards", "sum of rewards"), strict=True))
"""What each prints at its end, among other things."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with live_server() as url:
        yield url


def snippet(env: str, title: str) -> Snippet:
    return next(s for s in snippets_of(BoundEnv(get_spec(env))) if s.title == title)


def run_python(text: str) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(text, "snippet", "exec"), {"__name__": "__main__"})
    return said.getvalue()


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_the_curl_lines_play_and_grade(spec: EnvSpec, server: str) -> None:
    text = snippet(spec.name, "curl").at(server)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], capture_output=True, text=True, check=True
    )
    step, grade = (json.loads(line) for line in done.stdout.splitlines())
    assert step["done"] in (True, False)
    assert isinstance(step["reward"], float)
    assert 0.0 <= grade["score"] <= 1.0
    assert done.stderr == ""


@pytest.mark.parametrize("title", TITLES[1:])
@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_the_python_code_plays_to_the_end(spec: EnvSpec, title: str, server: str) -> None:
    said = run_python(snippet(spec.name, title).at(server))
    assert LAST_WORDS[title] in said


def test_each_environment_has_every_way_in_and_names_itself() -> None:
    for spec in all_specs():
        made = snippets_of(BoundEnv(spec))
        assert [s.title for s in made] == TITLES
        for one in made[:4]:
            assert SERVER in one.text
            assert SERVER not in one.at("https://somewhere.example")
            assert "https://somewhere.example" in one.at("https://somewhere.example")
        assert f"{SERVER}{spec.mount}\n" in made[0].text


def test_a_fifth_environment_simply_has_them() -> None:
    spec = register(toy_env.SPEC)
    try:
        made = snippets_of(BoundEnv(spec))
        assert [s.title for s in made] == TITLES
        assert f"import {spec.action_model.partition(':')[2]}\n" in made[2].text
    finally:
        unregister(spec.id)


def test_code_is_escaped() -> None:
    assert "&lt;b&gt;" in copy_block("<b>", "bash", "a & b")
    assert "a &amp; b" in copy_block("<b>", "bash", "a & b")
