"""Compiled copies of plain functions, and where their machine code is kept."""

from __future__ import annotations

from math import log1p
from pathlib import Path
from typing import Any

import pytest

from simulator import compiled as module
from simulator.compiled import cache_folder, compiled


def _twice(value: float) -> float:
    return 2.0 * value


def _apply(values: Any, function: Any) -> float:
    total = 0.0
    for value in values:
        total += function(value)
    return total


def _call_global(value: float) -> float:
    return _twice(value) + log1p(value)


def test_a_parameter_can_be_bound_to_a_compiled_function() -> None:
    bound: Any = compiled(_apply, function=compiled(_twice))
    assert bound((1.0, 2.5)) == _apply((1.0, 2.5), _twice) == 7.0


def test_globals_are_replaced_in_the_copy_alone() -> None:
    copy = compiled(_call_global, _twice=compiled(_twice))
    assert copy(0.3) == _call_global(0.3)
    assert not hasattr(_twice, "py_func")


def test_machine_code_is_kept_in_a_folder_of_this_user() -> None:
    folder = cache_folder()
    assert folder is not None
    assert folder.is_dir()


def test_a_folder_that_cannot_be_made_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setenv("HOME", str(blocked))
    monkeypatch.setattr(module.tempfile, "gettempdir", lambda: str(tmp_path))
    cache_folder.cache_clear()
    folder = cache_folder()
    assert folder is not None
    assert folder.is_relative_to(tmp_path)
    monkeypatch.setattr(module.tempfile, "gettempdir", lambda: str(blocked))
    cache_folder.cache_clear()
    assert cache_folder() is None
    cache_folder.cache_clear()


def test_code_of_somebody_else_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "getuid", lambda: 54321)
    assert module._is_ours(tmp_path) is False


def test_a_change_of_a_source_changes_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("simulator/engine.py", "env/serving_batch.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a = 1\n")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "simulator" / "compiled.py"))
    before = module._source_hash()
    assert module._source_hash() == before
    (tmp_path / "simulator/engine.py").write_text("a = 2\n")
    assert module._source_hash() != before
