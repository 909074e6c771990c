"""What the documents name is there: files, places in them, modules, commands."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from inferencegym.registry import EnvSpec
from tests.live import ROOT

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
ROOMS = ("serving", "autoscaling", "routing", "market")
LAYERS = ("simulator", "env", "grader", "agents", "inferencegym", "server", "tests", "docs")
OLD = ("CHANGELOG.md",)
"""What a release once had is not there any more."""


def anchors_of(text: str) -> set[str]:
    """Places that GitHub makes of headings."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    path = ROOT / name
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if link.startswith(("http", "mailto:")):
            continue
        file, _, anchor = link.partition("#")
        target = path if not file else (path.parent / file).resolve()
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors_of(target.read_text()), link


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OLD])
def test_files_that_are_named_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    named = re.findall(rf"`((?:{'|'.join(LAYERS)})/[\w/.]+\.(?:py|json|md|csv|parquet))`", text)
    planned = ("cooling", "session_manager", "NAME")  # a worked example; a table of names in the design
    for file in named:
        rooms = ROOMS if "ROOM" in file else ("",)
        if not any(word in file for word in planned):
            assert any((ROOT / file.replace("ROOM", room)).exists() for room in rooms), file


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OLD])
def test_commands_that_are_named_exist(name: str) -> None:
    for module in re.findall(r"python -m ([a-z_.]+[a-z])", (ROOT / name).read_text()):
        assert find_spec(module) is not None, module


def test_the_worked_example_names_every_part_of_a_spec() -> None:
    text = (ROOT / "docs" / "add-an-environment.md").read_text()
    needed = {field.name for field in fields(EnvSpec) if field.default is MISSING}
    assert needed <= set(re.findall(r"^        (\w+)=", text, re.MULTILINE))


def test_the_same_files_are_in_every_room() -> None:
    """What CONTRIBUTING and the architecture page promise to whoever looks for something."""
    everywhere = (
        *("inferencegym/models/{}.py", "env/{}/reward.py", "env/{}/tasks.py", "env/{}/episode.py"),
        *("env/{}/batch.py", "grader/{}/grader.py", "agents/{}/agents.py", "agents/{}/ppo_coding.py"),
        *("inferencegym/gym/{}/codec.py", "inferencegym/gym/{}/vector.py", "inferencegym/gym/{}/env.py"),
        *("server/dashboard/views/{}.py", "simulator/{}/kernel.py"),
    )
    missing = [
        place.format(room)
        for place in everywhere
        for room in ROOMS
        if not (ROOT / place.format(room)).exists()
    ]
    assert missing == [
        "env/routing/reward.py"
    ]  # a query's worth is part of what happens: simulator/routing/kernel.py


def test_no_folder_is_too_full_to_look_through() -> None:
    folders = {path.parent for layer in LAYERS[:6] for path in (ROOT / layer).rglob("*.py")}
    assert {str(folder): n for folder in folders if (n := len(list(Path(folder).glob("*.py")))) > 15} == {}


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert f'__version__ = "{citation["version"]}"' in (ROOT / "inferencegym" / "__init__.py").read_text()
