"""The README does what it says: its commands and programs are run as they stand."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from server.settings import PREFIX, Settings
from tests.live import live_server
from tests.packaging.repository import ROOT

TEXT = (ROOT / "README.md").read_text()
README_ADDRESS = "http://localhost:7860"


def section(title: str) -> str:
    return TEXT.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def blocks(title: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", section(title), re.DOTALL)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with live_server() as address:
        yield address


def test_the_front_matter_makes_a_space() -> None:
    _, front, _ = TEXT.split("---\n", 2)
    fields = yaml.safe_load(front)
    assert fields["sdk"] == "docker"
    assert fields["app_port"] == 7860
    assert fields["base_path"] == "/web"
    assert "openenv" in fields["tags"]
    assert len(fields["short_description"]) <= 60
    assert {"title", "emoji", "colorFrom", "colorTo"} <= set(fields)


def test_the_quick_start_works_pasted(url: str) -> None:
    (quick_start,) = blocks("Quick start", "bash")
    assert len(quick_start.splitlines()) == 5
    script = quick_start.replace(README_ADDRESS, url)
    done = subprocess.run(
        ["bash", "-euo", "pipefail"], input=script, capture_output=True, text=True, check=True
    )
    decoder = json.JSONDecoder()
    step, end = decoder.raw_decode(done.stdout)
    grade, _ = decoder.raw_decode(done.stdout[end:].lstrip())
    assert step["done"] is False
    assert grade["verified"] is True
    assert grade["steps"] == 200
    assert 0 < grade["score"] <= 1


@pytest.mark.parametrize(("title", "number"), [("Python client", 0), ("Python client", 1), ("Gymnasium", 0)])
def test_the_python_programs_run(url: str, title: str, number: int) -> None:
    program = blocks(title, "python")[number].replace(README_ADDRESS, url)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_command_lines_run(url: str, tmp_path: Path) -> None:
    (block,) = blocks("Command line", "bash")
    lines = [line.partition("#")[0].replace(README_ADDRESS, url) for line in block.splitlines()]
    for line in lines:
        words = shlex.split(line)
        if words[1] == "serve":
            continue  # started in the tests of the command line
        command = [sys.executable, "-m", "inferencegym.cli", *words[1:]]
        env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (line, done.stderr)


def test_the_settings_table_is_complete_and_right() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(.*?)` \| (.+) \|$", section("Settings"), re.MULTILINE)
    assert {name for name, _, _ in rows} == {PREFIX + name.upper() for name in Settings.model_fields}
    for name, default, _ in rows:
        field = Settings.model_fields[name.removeprefix(PREFIX).lower()]
        assert _as_variable(field.default) == default, name


def _as_variable(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if isinstance(value, bool | None) else str(value)


def test_the_api_table_names_every_endpoint_that_exists(url: str) -> None:
    table = section("HTTP API")
    paths = httpx.get(f"{url}/openapi.json").json()["paths"]
    task_api = {path for path in paths if path.startswith("/{env_name}/")}
    assert [path for path in set(paths) - task_api if path not in table] == []
    named = re.findall(r"`(?:GET )?(/\w[\w.]*)`", table)
    answers = {
        path: httpx.get(url + path, follow_redirects=True).status_code for path in named if path != "/ws"
    }
    assert {path: status for path, status in answers.items() if status not in (200, 422)} == {}


def test_the_task_table_is_the_registrys() -> None:
    from env.serving_tasks import TASKS

    for task in TASKS.values():
        row = next(line for line in section("Environments").splitlines() if line.startswith(f"| `{task.id}`"))
        assert f"{task.name}, {task.difficulty}" in row


def test_links_to_files_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_make_help_lists_the_two_commands() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "make serve" in listed
    assert "make test" in listed
