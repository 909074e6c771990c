"""The pins: exact, exported from one lock, and enough for what pyproject.toml asks."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from typing import Any

import pytest
import yaml

from tests.packaging.repository import ROOT, files

REQUIREMENTS = (
    "requirements.txt",
    "requirements-dev.txt",
    "requirements-demo.txt",
    "requirements-traces.txt",
)
PIN = re.compile(r"^([a-z0-9][a-z0-9-]*)==([^\s;]+)(?: ; .+)?$")


@cache
def toml(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name).read_text())


def pins(name: str) -> set[tuple[str, str]]:
    lines = (ROOT / name).read_text().splitlines()
    matches = [(line, PIN.match(line)) for line in lines if line and not line.startswith("#")]
    assert all(match for _, match in matches), [line for line, match in matches if not match]
    return {(match[1], match[2]) for _, match in matches if match}


def locked() -> set[tuple[str, str]]:
    return {(package["name"], package.get("version", "")) for package in toml("uv.lock")["package"]}


def wanted(requirements: list[str]) -> set[str]:
    names = {re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0].lower() for requirement in requirements}
    return names - {"inferencegym"}


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_line_is_an_exact_pin_of_the_lock(name: str) -> None:
    assert pins(name)
    assert pins(name) <= locked()


@pytest.mark.parametrize(
    ("name", "extras"),
    list(zip(REQUIREMENTS, ((), ("dev", "gym"), ("demo", "gym"), ("traces",)), strict=True)),
)
def test_a_file_has_all_that_its_extras_ask_for(name: str, extras: tuple[str, ...]) -> None:
    project = toml("pyproject.toml")["project"]
    asked = [*project["dependencies"]]
    for extra in extras:
        asked += project["optional-dependencies"][extra]
    assert wanted(asked) <= {package for package, _ in pins(name)}


def test_every_file_holds_the_server_at_the_same_versions() -> None:
    server = pins("requirements.txt")
    for name in REQUIREMENTS[1:]:
        assert server <= pins(name)


def test_torch_is_nowhere_in_the_pins() -> None:
    everything = locked().union(*(pins(name) for name in REQUIREMENTS))
    assert not [name for name, _ in everything if name == "torch" or name.startswith("nvidia-")]


def test_no_file_but_the_lock_names_a_package_index() -> None:
    hosts = re.compile(rb"files\.pythonhosted|pypi\.org/simple|--(extra-)?index-url|--find-links")
    here = "tests/packaging/test_pins.py"
    others = [path for path in files() if path.as_posix() not in ("uv.lock", here)]
    assert [path for path in others if hosts.search((ROOT / path).read_bytes())] == []


def test_the_lock_was_made_for_this_pyproject() -> None:
    own = next(package for package in toml("uv.lock")["package"] if package["name"] == "inferencegym")
    project = toml("pyproject.toml")["project"]
    assert own["version"] == project["version"]
    assert {dependency["name"] for dependency in own["dependencies"]} == wanted(project["dependencies"])


def test_versions_agree() -> None:
    from inferencegym import __version__
    from inferencegym.registry import SERVING

    assert toml("pyproject.toml")["project"]["version"] == __version__ == SERVING.version
    assert yaml.safe_load((ROOT / "openenv.yaml").read_text())["version"] == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()
