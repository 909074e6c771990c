"""Options with underscores, in every command and program."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from inferencegym.cli import app
from inferencegym.options import OptionParser

ROOT = Path(__file__).resolve().parents[2]


def commands(command: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", {})
    found = [(path, command)] if not inner else []
    for name, each in inner.items():
        found += commands(each, (*path, name))
    return found


def options() -> list[tuple[str, ...]]:
    return [
        (*path, option)
        for path, command in commands(get_command(app))
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and "-" in option[2:]
    ]


@pytest.mark.parametrize("words", options(), ids=" ".join)
def test_every_option_with_a_hyphen_has_one_with_an_underscore(words: tuple[str, ...]) -> None:
    *path, option = words
    spelt = "--" + option[2:].replace("-", "_")
    # Taken as a value or not, the last word is what is not known.
    said = CliRunner().invoke(app, [*path, spelt, "--unknown", "--unknown"]).output
    assert "No such option: --unknown" in said


def test_there_are_such_options() -> None:
    assert ("market", "train-ga", "--population-size") in options()


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["--search_seed", "3"], 3),
        (["--search_seed=3"], 3),
        (["--search-seed=3"], 3),
        ([], 1),
    ],
)
def test_a_program_takes_both_spellings(words: list[str], value: int) -> None:
    parser = OptionParser()
    parser.add_argument("--search-seed", type=int, default=1)
    assert parser.parse_args(words).search_seed == value


def test_values_keep_their_underscores() -> None:
    parser = OptionParser()
    parser.add_argument("--task-name")
    parser.add_argument("file", nargs="*")
    given = parser.parse_args(["--task_name=high_traffic", "a_b", "--", "--c_d"])
    assert (given.task_name, given.file) == ("high_traffic", ["a_b", "--c_d"])


def test_every_program_reads_its_options_so() -> None:
    folders = ("agents", "env", "grader", "inferencegym", "server", "simulator")
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        names = {
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        }
        assert "ArgumentParser" not in names, path
