"""The README does what it says: its commands and programs are run as they stand."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from server.operations.settings import PREFIX, Settings
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
    done = subprocess.run(["sh", "-eu"], input=script, capture_output=True, text=True, check=True)
    decoder = json.JSONDecoder()
    step, end = decoder.raw_decode(done.stdout)
    grade, _ = decoder.raw_decode(done.stdout[end:].lstrip())
    assert step["done"] is False
    assert grade["verified"] is True
    assert grade["steps"] == 200
    assert 0 < grade["score"] <= 1


NOT_PASTED = ("make ", "docker ", ". .venv/bin/activate", "inferencegym serve")
"""Commands that go on for ever, or that the tests have done."""
SHORTER = {
    "inferencegym compare": "--seeds 2",
    "python -m agents.routing.frontier": "--seeds 2",
    "inferencegym market train-ga": "--generations 1 --population-size 4 --seeds 12",
}
"""Options for what would take minutes; the last of an option counts."""
SHELL_BLOCKS = re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("number", range(len(SHELL_BLOCKS)))
def test_every_shell_snippet_runs_in_a_plain_shell(url: str, tmp_path: Path, number: int) -> None:
    """In any POSIX shell, with the virtual environment activated."""
    block = SHELL_BLOCKS[number].replace(README_ADDRESS, url).replace("http://127.0.0.1:7860", url)
    script = "\n".join(shorter(line) for line in block.splitlines() if not line.startswith(NOT_PASTED))
    env = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        ["sh", "-eu"], input=script, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (script, done.stderr)
    assert '"error"' not in done.stdout


def shorter(line: str) -> str:
    command, mark, comment = line.partition("  #")
    for start, options in SHORTER.items():
        if line.startswith(start):
            return f"{command} {options}{mark}{comment}"
    return line


PYTHON_BLOCKS = [("Environments", 0), ("Python client", 0), ("Python client", 1), ("Gymnasium", 0)]


@pytest.mark.parametrize(("title", "number"), PYTHON_BLOCKS)
def test_the_python_programs_run(url: str, title: str, number: int) -> None:
    program = blocks(title, "python")[number].replace(README_ADDRESS, url)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout or title == "Environments"


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
    from env.serving.tasks import TASKS

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
