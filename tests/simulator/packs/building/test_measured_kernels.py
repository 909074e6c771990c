"""The measured source against its library (extra ``traces``): make test-traces."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from inferencegym.errors import TracePackError
from simulator.packs.building.build_traces import main
from simulator.packs.building.kernel_sources import FloatArray
from simulator.packs.building.measured_kernels import MeasuredKernels
from simulator.packs.schema import BATCH_SIZES, PROMPT_LENGTHS_TOKENS

pytestmark = pytest.mark.traces

LLAMA = "meta-llama/Meta-Llama-3.1-8B"
MODES = ("bfloat16", "int8_wo", "int4_wo")


def array(*values: float) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


@pytest.fixture(scope="module")
def kernels() -> MeasuredKernels:
    return MeasuredKernels("a100_sxm", LLAMA, "trtllm", None, 40.0)


def engine(mode: str) -> Any:
    from aiconfigurator_core.sdk import EngineHandle

    return EngineHandle.compile(LLAMA, "a100_sxm", "trtllm", backend_version="1.0.0", gemm_quant_mode=mode)


def test_rebuilding_gives_the_committed_values(capsys: pytest.CaptureFixture[str]):
    assert main(["--check"]) == 0
    assert "equal to a fresh build within 1e-09" in capsys.readouterr().out


@pytest.mark.parametrize("tier", range(3))
def test_plain_decoding_is_the_library_s_own_prediction(kernels: MeasuredKernels, tier: int):
    handle = engine(MODES[tier])
    for size in BATCH_SIZES:
        for context in (192, 1152, 8320):
            parts = kernels.decode(tier, array(size), array(size), array(context))
            expected = handle.predict_decode_latency(size, context)
            assert parts.total_ms[0] == pytest.approx(expected, rel=1e-12)


def test_a_verify_step_reads_the_cache_once_a_sequence(kernels: MeasuredKernels):
    """Attention as in plain decoding of 32; everything else as a forward of 160 rows."""
    verify = kernels.decode(0, array(160), array(32), array(640))
    plain = kernels.decode(0, array(32), array(32), array(640))
    wide = kernels.decode(0, array(160), array(160), array(640))
    assert verify.attention_ms == plain.attention_ms
    assert verify.layers_ms == wide.layers_ms
    assert verify.head_ms == wide.head_ms


def test_a_verify_step_agrees_with_the_library_s_mixed_step(kernels: MeasuredKernels):
    """The library offers no verify step; its mixed step of the same rows is the nearest neighbour."""
    handle = engine("bfloat16")
    for sequences, gamma in ((1, 4), (32, 1), (32, 4), (128, 2)):
        verify = kernels.decode(0, array(sequences * (gamma + 1)), array(sequences), array(640)).total_ms[0]
        mixed = handle.mixed_step_latency(sequences * gamma, sequences, 640, 2)
        assert verify == pytest.approx(mixed, rel=0.08)


def test_prefill_is_the_library_s_own_prediction(kernels: MeasuredKernels):
    handle = engine("int8_wo")
    prompts = array(*PROMPT_LENGTHS_TOKENS)
    expected = [handle.predict_prefill_latency(1, tokens) for tokens in PROMPT_LENGTHS_TOKENS]
    assert kernels.prefill_ms(1, prompts).tolist() == expected


def test_provenance(kernels: MeasuredKernels):
    info = kernels.info
    assert (info.source, info.engine_version, info.library) == ("measured", "1.0.0", "aiconfigurator-core")
    assert info.tier_kernels == MODES


def test_tiers_without_timings_are_estimated_and_marked():
    kernels = MeasuredKernels("h100_sxm", LLAMA, "vllm", None, 80.0)
    assert kernels.info.tier_kernels == ("bfloat16", "fp8", "int4_wo estimated from bfloat16")
    sizes = array(1, 32, 512)
    measured, estimated = (kernels.decode(tier, sizes, sizes, array(256)).total_ms for tier in (0, 2))
    assert estimated[0] < measured[0]
    assert estimated[2] > 0.9 * measured[2]
    assert kernels.prefill_ms(2, array(8192))[0] >= kernels.prefill_ms(0, array(8192))[0]
    assert kernels.memory(2).kv_pool_tokens > kernels.memory(0).kv_pool_tokens


@pytest.mark.parametrize(
    ("system", "model", "backend", "version", "memory_gib"),
    [
        ("tpu_v5", LLAMA, "trtllm", None, 40.0),
        ("a100_sxm", LLAMA, "trtllm", "0.0.1", 40.0),
        ("a100_sxm", LLAMA, "ollama", None, 40.0),
        ("a100_sxm", "Qwen/Qwen3-30B-A3B", "trtllm", None, 40.0),
    ],
)
def test_unsupported_combinations_are_refused(
    system: str, model: str, backend: str, version: str | None, memory_gib: float
):
    with pytest.raises(TracePackError, match="cannot describe"):
        MeasuredKernels(system, model, backend, version, memory_gib)


def test_a_model_larger_than_the_memory_is_refused():
    kernels = MeasuredKernels("a100_sxm", "meta-llama/Meta-Llama-3.1-70B", "trtllm", None, 40.0)
    with pytest.raises(TracePackError, match=r"40 GiB.*take more GPUs \(--tp\)"):
        kernels.memory(0)


def test_a_build_says_nothing_of_tables_of_other_kinds_of_models(caplog: pytest.LogCaptureFixture):
    MeasuredKernels("h100_sxm", LLAMA, "vllm", None, 80.0)
    caplog.clear()
    library = logging.getLogger("aiconfigurator_core.sdk.perf_database")
    for table in ("mla_context_module", "dsa_generation_module", "gemm"):
        library.warning("Loading low-fidelity fallback rows for %s_perf.parquet", table)
    assert [record.args for record in caplog.records] == [("gemm",)]
