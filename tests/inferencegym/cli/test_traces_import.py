"""``inferencegym traces import`` as its users meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.packs.io import read_pack
from tests.inferencegym.cli.test_cli import Run, run

__all__ = ["run"]

EXAMPLES = Path(__file__).parents[2] / "simulator" / "packs" / "benchmarks" / "examples"
POINTS, BENCH = EXAMPLES / "measured_points.csv", EXAMPLES / "vllm_append_result.jsonl"
GPU = ("--system", "a100_sxm", "--memory-gib", "40")
LLAMA = ("--model", "meta-llama/Meta-Llama-3.1-8B")


def test_a_pack_is_made_of_all_formats_together(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "mine.parquet"
    words = (*GPU, "--cents-per-gpu-hour", "300", "--output", output, "--engine-version", "0.11")
    result = run("traces", "import", *sorted(EXAMPLES.iterdir()), *words)
    assert result.code == 0
    for word in ("measured_points.csv: line 2", "vllm_append_result.jsonl: line 5", "attention", "held out"):
        assert word in result.out
    assert "TTFT is not used" in result.err
    metadata = read_pack(output).metadata
    assert (metadata.source, metadata.engine_version) == ("imported", "0.11")
    assert metadata.cents_per_gpu_hour == 300.0
    shown = run("traces", "info", output, "--json").json
    assert shown["metadata"]["source"] == "imported"


def test_json_tells_every_error_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    document = run("traces", "import", BENCH, *GPU, "--json").json
    figure = document["figures"][0]
    assert figure["predicted"] == pytest.approx(figure["measured"] * (1 + figure["errors"]["predicted"]))
    held_out, fitted = (document["summary"][kind]["all"] for kind in ("held_out", "predicted"))
    assert fitted["median_absolute"] < 0.03
    assert held_out["runs"] == len(document["figures"])
    assert len(document["parameters"]) == 9
    assert document["left_out"]
    assert not list(tmp_path.iterdir())


def test_evidence_about_the_shipped_pack(run: Run) -> None:
    shipped = Path("simulator/data/traces_llama3_8b.parquet").resolve()
    result = run("traces", "import", POINTS, "--evidence", shipped)
    assert result.code == 0
    assert "this pack" in result.out
    assert "Correction" not in result.out
    document = run("traces", "import", POINTS, "--evidence", shipped, "--json").json
    assert document["summary"]["predicted"]["TPOT ms"]["runs"] == 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--memory-gib", "40"), "--system: None"),
        (("--system", "a100_sxm_40gb", *LLAMA), "together with memory-gib and cents-per-gpu-hour"),
        (("--system", "a100", "--memory-gib", "40", *LLAMA), "Did you mean a100_sxm"),
        (("--system", "a100_sxm", "--memory-gib", "-1"), "memory_gib: -1.0"),
        (("--system", "a100_sxm", "--memory-gib", "nan"), "memory_gib: nan"),
        (
            ("--system", "h200_sxm", "--memory-gib", "141", *LLAMA),
            "memory_gib: 141.0 is not allowed; allowed: 1 to 80",
        ),
        (GPU, "--model: None"),
        ((*GPU, "--model", "gpt2"), "model: 'gpt2' does not exist"),
        ((*GPU, *LLAMA, "--cents-per-gpu-hour", "0", "--output", "x.parquet"), "cents_per_gpu_hour: 0.0"),
        ((*GPU, *LLAMA, "--cents-per-gpu-hour", "9", "--output", "no/x.parquet"), "--output: 'no/x.parquet'"),
        ((*GPU, *LLAMA, "--tier", "FP4"), "--tier: 'FP4'"),
        ((*GPU, *LLAMA, "--max-error", "nan"), "--max-error: nan"),
        ((*GPU, *LLAMA, "--max-error", "-1"), "--max-error: -1"),
        (("--evidence", "h100_llama3"), "Did you mean h100_llama3_8b"),
        (("--evidence", "none.parquet", "--system", "a100_sxm"), "--system: 'a100_sxm' is not allowed"),
    ],
)
def test_wrong_options_end_with_2_and_a_reason(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("traces", "import", POINTS, *words)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert "Traceback" not in result.err
    assert not list(tmp_path.iterdir())


def test_a_broken_row_ends_with_2_and_leaves_the_old_pack(run: Run, tmp_path: Path) -> None:
    broken, output = tmp_path / "points.csv", tmp_path / "mine.parquet"
    broken.write_text(POINTS.read_text().replace("\n8,128,", "\n8,-128,"))
    output.write_bytes(b"the old one")
    words = (*GPU, *LLAMA, "--cents-per-gpu-hour", "300", "--output", output)
    result = run("traces", "import", broken, *words)
    assert result.code == 2
    assert "points.csv: line 3, column prompt_tokens: '-128' is not allowed" in result.err
    assert output.read_bytes() == b"the old one"


def test_a_fit_that_does_not_fit_is_not_written(run: Run, tmp_path: Path) -> None:
    odd, output = tmp_path / "odd.csv", tmp_path / "mine.parquet"
    rows = [f"{n},256,256,{t}" for n, t in ((1, 13), (1, 40), (8, 9), (8, 30), (32, 12), (32, 50))]
    odd.write_text("batch_size,prompt_tokens,output_tokens,tpot_ms\n" + "\n".join(rows))
    words = (*GPU, *LLAMA, "--cents-per-gpu-hour", "300", "--output", output)
    result = run("traces", "import", odd, *words)
    assert result.code == 2
    assert "median error of the fit" in result.err
    assert not output.exists()


def test_many_figures_are_shown_worst_first(run: Run, tmp_path: Path) -> None:
    many = tmp_path / "many.csv"
    rows = [f"{1 + n % 60},256,256,{13 + 0.1 * (n % 60)}" for n in range(200)]
    many.write_text("batch_size,prompt_tokens,output_tokens,tpot_ms\n" + "\n".join(rows))
    shipped = Path("simulator/data/traces_llama3_8b.parquet").resolve()
    result = run("traces", "import", many, "--evidence", shipped)
    assert "200 figures, the 60 that are predicted worst" in result.out
    assert json.loads(run("traces", "import", many, "--evidence", shipped, "--json").out)["figures"][199]


def test_what_was_measured_is_not_written_over(run: Run, tmp_path: Path) -> None:
    mine = tmp_path / "results.parquet"
    mine.write_bytes(BENCH.read_bytes())
    for output in (mine, tmp_path / "folder" / ".." / "results.parquet"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        result = run("traces", "import", mine, *GPU, *LLAMA, "--output", output)
        assert (result.code, "not among those to be read" in result.err) == (2, True)
    result = run("traces", "import", mine, *GPU, *LLAMA, "--output", tmp_path / "results.json")
    assert (result.code, "ends in .parquet" in result.err) == (2, True)
    assert mine.read_bytes() == BENCH.read_bytes()
    assert not (tmp_path / "results.json").exists()


def test_one_figure_in_another_unit_is_refused(run: Run, tmp_path: Path) -> None:
    mixed, output = tmp_path / "mixed.csv", tmp_path / "mine.parquet"
    rows = [f"{n},256,256,{t}" for n, t in ((1, 13), (4, 13.4), (8, 13.8), (16, 0.0145), (32, 16))]
    mixed.write_text("batch_size,prompt_tokens,output_tokens,tpot_ms\n" + "\n".join(rows))
    words = (*GPU, *LLAMA, "--cents-per-gpu-hour", "300", "--output", output)
    result = run("traces", "import", mixed, *words)
    assert result.code == 2
    assert "mixed.csv: line 5, TPOT ms: 0.0145" in result.err
    assert not output.exists()
    mixed.write_text(mixed.read_text().replace("0.0145", "14.5"))
    assert f"INFERENCEGYM_TRACE_PACK={output}" in run("traces", "import", mixed, *words).out


@pytest.mark.parametrize(
    ("name", "text"), [("empty.csv", "batch_size,prompt_tokens,tpot_ms\n"), ("e.json", "[]")]
)
def test_a_file_without_results_is_named(run: Run, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    result = run("traces", "import", POINTS, tmp_path / name, *GPU, *LLAMA)
    assert (result.code, f"{name}: 'a file without results'" in result.err) == (2, True)


def test_a_column_with_a_slip_in_its_name_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "slip.csv").write_text(POINTS.read_text().replace("output_tokens", "output_token"))
    result = run("traces", "import", tmp_path / "slip.csv", "--evidence", "a100_llama3_8b")
    assert result.code == 0
    assert "slip.csv: line 1: columns that are not known: output_token" in result.err


# --- results that lie --------------------------------------------------------------------------------------


def sglang(drafts: float, clients: int) -> str:
    """A result of SGLang, which does not name its model, in a loop of so many clients."""
    latency_s = 0.036 + 0.009 * 255
    result = {
        "backend": "sglang",
        "request_rate": float("inf"),
        "max_concurrency": clients,
        "duration": 10 * latency_s,
        "completed": 10 * clients,
        "total_input_tokens": 5120 * clients,
        "total_output_tokens": 2560 * clients,
        "request_throughput": clients / latency_s,
        "mean_ttft_ms": 36.0,
        "mean_tpot_ms": 9.0,
        "accept_length": drafts,
    }
    return json.dumps(result) + "\n"


def test_reasons_come_before_the_model_that_is_not_named(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "sglang.jsonl"
    path.write_text("".join(sglang(2.9, clients) for clients in (1, 4, 16)))
    result = run("traces", "import", path, *GPU)
    assert (result.code, "--model" in result.err) == (2, False)
    for line in (1, 2, 3):
        assert f"sglang.jsonl: line {line}: it decoded speculatively (accept_length 2.9)" in result.err
    path.write_text("".join(sglang(drafts, n) for n in (1, 4, 16) for drafts in (1.0, 2.9)))
    result = run("traces", "import", path, *GPU)
    assert (result.code, "--model: None" in result.err) == (2, True)
    assert "The files do not name their model. Left out:" in result.err
    assert "sglang.jsonl: line 2: it decoded speculatively" in result.err


@pytest.mark.parametrize(("runs", "more"), [(50, ""), (53, "and 3 more")])
def test_every_reason_is_told_up_to_fifty(run: Run, tmp_path: Path, runs: int, more: str) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text("".join(sglang(2.9, 1 + n) for n in range(runs)))
    error = run("traces", "import", path, *GPU).err
    assert all(f"many.jsonl: line {1 + n}: " in error for n in range(50))
    assert error.count("accept_length 2.9") == 50
    assert ("more" in error) == bool(more)
    assert more in error
    path.write_text(path.read_text() + BENCH.read_text())
    shown = run("traces", "import", path, "--evidence", "a100_llama3_8b").err
    assert shown.count("accept_length 2.9") == 50
    assert "more; --json has all" in shown
