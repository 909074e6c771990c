"""The pack against published latencies of the same model on the 40 GB card."""

from __future__ import annotations

import numpy as np
import pytest

from inferencegym.errors import TracePackError
from simulator.packs.building.compare_measured import (
    DECODE_SCALE,
    MEASURED_PATH,
    OfflineBatchModel,
    compare,
    load_measured,
    main,
    summarize,
)
from simulator.packs.io import DEFAULT_PACK_PATH, TracePack, read_pack


@pytest.fixture(scope="module")
def pack() -> TracePack:
    return read_pack(DEFAULT_PACK_PATH)


@pytest.fixture(scope="module")
def model(pack: TracePack) -> OfflineBatchModel:
    return OfflineBatchModel(pack, DECODE_SCALE)


def test_the_published_runs_are_all_there_and_cited():
    runs = load_measured()
    assert len(runs) == 24
    assert {run.framework for run in runs} == {"TensorRT-LLM", "vLLM"}
    assert "arXiv 2411.00136" in MEASURED_PATH.read_text(encoding="utf-8")


def test_published_throughput_agrees_with_published_latency():
    """Guards against a slip in the table: throughput counts input + output tokens."""
    rows = [line.split(",") for line in MEASURED_PATH.read_text(encoding="utf-8").splitlines()[4:]]
    for _, _, tokens, size, latency_s, throughput in rows:
        implied = 2 * int(tokens) * int(size) / float(latency_s)
        assert implied == pytest.approx(float(throughput), rel=1e-3)


def test_stated_error_holds(pack: TracePack):
    errors = summarize(compare(pack, load_measured()))
    assert errors["TensorRT-LLM"].runs == errors["vLLM"].runs == 12
    assert errors["TensorRT-LLM"].median_absolute < 0.06
    assert errors["TensorRT-LLM"].max_absolute < 0.36
    assert errors["vLLM"].median_absolute < 0.10
    assert errors["vLLM"].max_absolute < 0.22


def test_beyond_the_kv_pool_a_batch_runs_in_two_waves(pack: TracePack, model: OfflineBatchModel):
    """Measured with vLLM: 64 x (2048 + 2048) took 1.90 times as long as 32, where one wave would be 1.4."""
    assert model.waves(32, 2048) == (32,)
    assert model.waves(64, 2048) == (37, 27)
    ratio = model.latency_s(64, 2048) / model.latency_s(32, 2048)
    assert ratio == pytest.approx(1.9, abs=0.15)
    unlimited = OfflineBatchModel(pack, DECODE_SCALE, pool_tokens=float("inf"))
    one_wave = unlimited.latency_s(64, 2048) / unlimited.latency_s(32, 2048)
    assert one_wave == pytest.approx(1.4, abs=0.05)


def test_bandwidth_ratio_of_the_two_cards():
    assert pytest.approx(2.039 / 1.555) == DECODE_SCALE


def test_latency_grows_with_batch_and_length(model: OfflineBatchModel):
    by_batch = [model.latency_s(size, 512) for size in (1, 4, 16, 37, 64, 200)]
    by_length = [model.latency_s(16, tokens) for tokens in (2, 64, 128, 700, 2048, 4096)]
    assert (np.diff(by_batch) > 0).all()
    assert (np.diff(by_length) > 0).all()


def test_prefill_in_chunks_is_close_to_a_batched_prefill(model: OfflineBatchModel):
    """The kernel library's own batched prefill of four prompts: 244.1 ms at 1024 tokens, 503.6 at 2048."""
    assert model._prefill_s(4, 1024) == pytest.approx(0.2441, rel=0.08)
    assert model._prefill_s(4, 2048) == pytest.approx(0.5036, rel=0.08)
    assert model._prefill_s(4, 64) == pytest.approx(0.0227, rel=0.08)


def test_a_sequence_that_cannot_fit_is_an_error(pack: TracePack):
    with pytest.raises(TracePackError, match="cannot hold"):
        OfflineBatchModel(pack, pool_tokens=100).latency_s(1, 64)


def test_command_prints_table_and_errors(capsys: pytest.CaptureFixture[str]):
    assert main([]) == 0
    out = capsys.readouterr().out
    assert out.count("\n| TensorRT-LLM |") == out.count("\n| vLLM |") == 12
    assert "median absolute error" in out
    assert "37 + 27" in out
    assert main(["--pack", "absent.parquet"]) == 2
    assert "absent.parquet" in capsys.readouterr().err
