"""Packs by name: the shipped ones, a folder of the operator's, a default of the process."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from env.serving.episode import describe
from inferencegym.errors import TracePackError, UnknownNameError
from simulator.packs.checks import faults, findings
from simulator.packs.io import read_pack
from simulator.packs.on_offer import DEFAULT_PACK, SHIPPED, known_packs, pack_name, pack_path
from simulator.packs.trace_sim import packs_on_offer, shared_simulator


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INFERENCEGYM_TRACE_PACK", raising=False)
    monkeypatch.delenv("INFERENCEGYM_TRACE_PACKS", raising=False)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with one pack of the operator's, named to the process."""
    shutil.copy(SHIPPED["h100_llama3_8b"], tmp_path / "mine.parquet")
    monkeypatch.setenv("INFERENCEGYM_TRACE_PACKS", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_pack_is_sound_and_small(name: str) -> None:
    path = pack_path(name)
    assert faults(read_pack(path)) == []
    assert path.stat().st_size < 300_000
    assert pack_name(path) == name


def test_what_runs_on_newer_gpus_is_named() -> None:
    notes = findings(read_pack(SHIPPED["h100_llama3_8b"]))
    assert any("INT8 is FP8" in note for note in notes)
    assert any("INT4 (estimated)" in note for note in notes)
    assert not any("tier" in note for note in findings(read_pack(SHIPPED[DEFAULT_PACK])))


def test_a_faster_gpu_is_faster() -> None:
    a100, h100, h200 = (shared_simulator(name).table for name in SHIPPED)
    assert (h100.step_ms < a100.step_ms).mean() > 0.99
    assert (h100.prefill_ms < a100.prefill_ms).all()
    assert (h200.step_ms < h100.step_ms).mean() > 0.8


def test_the_default_is_the_a100() -> None:
    assert pack_path() == SHIPPED[DEFAULT_PACK]
    assert shared_simulator() is shared_simulator(DEFAULT_PACK)


def test_the_variable_names_another_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INFERENCEGYM_TRACE_PACK", "h200_llama3_8b")
    assert pack_path() == SHIPPED["h200_llama3_8b"]
    own = tmp_path / "own.parquet"
    shutil.copy(SHIPPED[DEFAULT_PACK], own)
    monkeypatch.setenv("INFERENCEGYM_TRACE_PACK", str(own))
    assert pack_path() == pack_path("own") == own
    assert pack_name(own) == "own"
    monkeypatch.setenv("INFERENCEGYM_TRACE_PACK", "h300_llama3_8b")
    with pytest.raises(UnknownNameError, match="h200_llama3_8b"):
        pack_path()


def test_a_folder_adds_packs(folder: Path) -> None:
    assert set(known_packs()) == {*SHIPPED, "mine"}
    assert pack_path("mine") == folder / "mine.parquet"


@pytest.mark.parametrize("name", ["../mine", "/etc/passwd", "mine.parquet", "", "Mine"])
def test_only_names_are_taken(folder: Path, name: str) -> None:
    if name:
        with pytest.raises(UnknownNameError):
            pack_path(name)


def test_a_folder_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INFERENCEGYM_TRACE_PACKS", str(tmp_path / "none"))
    with pytest.raises(TracePackError, match="INFERENCEGYM_TRACE_PACKS"):
        known_packs()


def test_a_broken_file_does_not_hide_the_other_packs(folder: Path) -> None:
    (folder / "torn.parquet").write_bytes(b"torn")
    readable, unreadable = packs_on_offer()
    assert set(readable) == {*SHIPPED, "mine"}
    assert list(unreadable) == ["torn"]
    assert "'torn.parquet' cannot be read" in unreadable["torn"]
    # Clients of a server read this too: they need not know where its folders are.
    assert str(folder) not in unreadable["torn"]
    assert set(describe()["trace_packs"]) == set(readable)
    assert describe()["unreadable_trace_packs"] == unreadable


def test_an_empty_name_is_none(folder: Path) -> None:
    with pytest.raises(UnknownNameError):
        pack_path("")
