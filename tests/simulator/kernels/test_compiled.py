"""Compiled copies of plain functions, and where their machine code is kept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from math import log1p
from pathlib import Path
from typing import Any

import pytest

from simulator.kernels import compiled as module
from simulator.kernels.compiled import cache_folder, compiled
from tests.live import ROOT


def _twice(value: float) -> float:
    return 2.0 * value


def _apply(values: Any, function: Any) -> float:
    total = 0.0
    for value in values:
        total += function(value)
    return total


def _thrice(value: float) -> float:
    return 3.0 * value


def _call_global(value: float) -> float:
    return _twice(value) + log1p(value)


def test_a_parameter_can_be_bound_to_a_compiled_function() -> None:
    bound: Any = compiled(_apply, function=_twice)
    assert bound((1.0, 2.5)) == _apply((1.0, 2.5), _twice) == 7.0


def test_what_is_called_by_name_is_compiled_too_in_the_copy_alone() -> None:
    copy: Any = compiled(_call_global)
    assert copy(0.3) == _call_global(0.3)
    assert hasattr(copy.py_func.__globals__["_twice"], "py_func")
    assert not hasattr(_twice, "py_func")


def test_a_global_can_be_replaced_in_the_copy() -> None:
    copy = compiled(_call_global, _twice=_thrice)
    assert copy(0.3) == 3.0 * 0.3 + log1p(0.3)
    assert compiled(_call_global)(0.3) == _call_global(0.3)


def test_machine_code_is_kept_in_a_folder_of_this_user() -> None:
    folder = cache_folder("digest")
    assert folder is not None
    assert folder.is_dir()


def test_a_folder_that_cannot_be_made_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setenv("HOME", str(blocked))
    monkeypatch.setattr(module.tempfile, "gettempdir", lambda: str(tmp_path))
    cache_folder.cache_clear()
    folder = cache_folder("digest")
    assert folder is not None
    assert folder.is_relative_to(tmp_path)
    monkeypatch.setattr(module.tempfile, "gettempdir", lambda: str(blocked))
    cache_folder.cache_clear()
    assert cache_folder("digest") is None
    cache_folder.cache_clear()


def test_code_of_somebody_else_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "getuid", lambda: 54321)
    assert module._is_ours(tmp_path) is False


PROGRAM = """
import json
import agents.market.arena, env.routing.batch, env.serving.batch, simulator.autoscaling.compiled
from simulator.kernels.compiled import _DIGESTS
print(json.dumps({f"{copy.py_func.__module__}.{copy.__name__}": digest for copy, digest in _DIGESTS.items()}))
"""


def digests_of(root: Path) -> dict[str, str]:
    """Of everything that is compiled, in a process of its own that imports the project from ``root``."""
    env = {**os.environ, "PYTHONPATH": str(root)}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], cwd=root, env=env, capture_output=True, check=True)
    return json.loads(ran.stdout)


def test_machine_code_follows_the_sources_that_it_is_made_from(tmp_path: Path) -> None:
    for package in ("simulator", "env", "agents", "grader", "inferencegym"):
        ignored = shutil.ignore_patterns("__pycache__", "results")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    before = digests_of(tmp_path)

    def change(name: str, old: str, new: str) -> set[str]:
        file = tmp_path / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))
        after = digests_of(tmp_path)
        file.write_text(text)
        return {name for name in before if after[name] != before[name]}

    assert change("agents/llm/agent.py", "from __future__", "# a remark\nfrom __future__") == set()
    assert change("simulator/market/kernel.py", "def thin_line", "# a remark\ndef thin_line") == set()
    # A kernel, and all that call it, but no other.
    changed = change("simulator/market/kernel.py", "    hours[", "    0 + hours[")
    assert "agents.market.arena._play_rows" in changed
    assert not any("serving" in name or "routing" in name for name in changed)
    # A constant that comes from a module of plain models.
    changed = change("env/serving/reward.py", "MEMORY_SLOPE_GB = ", "MEMORY_SLOPE_GB = 1.0 + ")
    assert changed == {"env.serving.batch._advance_rows", "env.serving.batch.weigh"}
    # Columns of a tuple of arrays that is handed in.
    changed = change("simulator/serving/rows.py", "    floats: ", "    another: int\n    floats: ")
    assert "env.serving.batch._advance_rows" in changed
