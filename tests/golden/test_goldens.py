"""Episodes are, to the last bit, what they were when their digests were committed."""

from __future__ import annotations

import json

import pytest

from inferencegym.registry import all_specs, get_spec
from tests.golden.episodes import FILE, Digests, from_server, in_process, tables
from tests.live import live_server

KNOWN: Digests = json.loads(FILE.read_text())


def known(*doors: str) -> Digests:
    return {name: digest for name, digest in KNOWN.items() if name.startswith(doors)}


@pytest.mark.parametrize("name", [spec.name for spec in all_specs()])
def test_episodes_of_this_process(name: str):
    doors = [f"{door} {name} " for door in ("single", "gymnasium", "vector")]
    assert in_process(get_spec(name)) == known(*doors)


def test_episodes_over_http():
    with live_server() as url:
        assert from_server(url) == known("http")


def test_committed_tables():
    assert tables() == known("table")


@pytest.mark.parametrize("door", ["single", "gymnasium", "vector", "http"])
def test_different_seeds_and_tasks_differ(door: str):
    digests = list(known(door).values())
    assert len(set(digests)) == len(digests)
