"""The builder's command line, with the source that needs no library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simulator.packs.building import build_traces, measured_kernels
from simulator.packs.building.build_traces import differences, main
from simulator.packs.io import DEFAULT_PACK_PATH, TracePack, read_pack, write_pack

ROOFLINE = ["--source", "roofline", "--build-date", "2026-01-02"]


def test_two_builds_give_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    assert main([*ROOFLINE, "--output", str(first)]) == 0
    assert main([*ROOFLINE, "--output", str(second)]) == 0
    assert first.read_bytes() == second.read_bytes()
    assert read_pack(first).metadata.build_date == "2026-01-02"
    assert "wrote" in capsys.readouterr().out


def test_check_accepts_its_own_pack_and_names_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "pack.parquet"
    assert main([*ROOFLINE, "--output", str(path)]) == 0
    written = path.read_bytes()
    assert main(["--source", "roofline", "--output", str(path), "--check"]) == 0
    assert "equal" in capsys.readouterr().out

    pack = read_pack(path)
    tampered = pack.columns["tpot_ms"].copy()
    tampered[0, 0, 0, 0, 0] *= 1.0 + 1e-6
    write_pack(path, TracePack({**pack.columns, "tpot_ms": tampered}, pack.metadata))
    assert main(["--source", "roofline", "--output", str(path), "--check"]) == 1
    assert "tpot_ms differs by up to 1e-06" in capsys.readouterr().err
    assert path.read_bytes() != written, "--check writes nothing"


def test_differences_between_the_two_sources():
    measured = read_pack(DEFAULT_PACK_PATH)
    assert differences(measured, measured) == []
    halved = {name: values / 2 for name, values in measured.columns.items()}
    assert len(differences(TracePack(halved, measured.metadata), measured)) == 6


def test_price_and_memory_are_arguments(tmp_path: Path):
    path = tmp_path / "pack.parquet"
    options = ["--memory-gib", "80", "--cents-per-gpu-hour", "200", "--cost-cap-cents-per-1k", "1"]
    assert main([*ROOFLINE, *options, "--system", "h100_sxm", "--output", str(path)]) == 0
    pack = read_pack(path)
    assert pack.metadata.memory_limit_gb == 80.0
    assert pack.metadata.cents_per_gpu_hour == 200.0
    assert pack.metadata.gpu == "h100_sxm"
    assert np.max(pack.columns["cost_per_1k"]) <= 1.0
    assert pack.metadata.kv_pool_tokens[0] > 400_000


@pytest.mark.parametrize(
    "options",
    [["--memory-gib", "0"], ["--memory-gib", "nan"], ["--cents-per-gpu-hour", "inf"], ["--source", "x"]],
)
def test_bad_options_are_refused(options: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(options)
    assert "error" in capsys.readouterr().err


def test_errors_are_sentences_not_tracebacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([*ROOFLINE, "--system", "tpu", "--output", str(tmp_path / "p")]) == 2
    assert "error: system: 'tpu' is not allowed; allowed: one of a100_sxm" in capsys.readouterr().err
    assert main([*ROOFLINE, "--output", str(tmp_path / "none"), "--check"]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_without_the_library_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(measured_kernels, "import_module", absent)
    assert build_traces.main(["--output", str(tmp_path / "p")]) == 2
    assert "inferencegym[traces]" in capsys.readouterr().err
