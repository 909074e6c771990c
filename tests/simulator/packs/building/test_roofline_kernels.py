"""The dependency-free source: same schema, same memory, times near the measured ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inferencegym.errors import UnknownNameError
from simulator.packs.building.columns import PackSettings, build_pack
from simulator.packs.building.fit_roofline import deviation, fit, main
from simulator.packs.building.kernel_sources import FloatArray, ForwardParts
from simulator.packs.building.roofline_kernels import FITTED, GPUS, MODELS, RooflineKernels
from simulator.packs.io import DEFAULT_PACK_PATH, TracePack, read_pack
from simulator.packs.schema import BATCH_SIZES, PROMPT_LENGTHS_TOKENS, VALUE_COLUMNS

LLAMA = "meta-llama/Meta-Llama-3.1-8B"
SETTINGS = PackSettings(build_date="2026-01-01")


def array(*values: float) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


@pytest.fixture(scope="module")
def kernels() -> RooflineKernels:
    return RooflineKernels.named("a100_sxm", LLAMA, 40.0)


@pytest.fixture(scope="module")
def measured() -> TracePack:
    return read_pack(DEFAULT_PACK_PATH)


@pytest.fixture(scope="module")
def pack(kernels: RooflineKernels) -> TracePack:
    return build_pack(kernels, SETTINGS)


def test_deviation_from_measured_kernels(measured: TracePack):
    left = deviation(measured)
    assert left.step_median < 0.03
    assert left.step_p95 < 0.12
    assert left.prefill_median < 0.03
    assert left.prefill_max < 0.16


def test_stored_efficiencies_are_what_the_fit_gives(measured: TracePack):
    fitted = fit(measured)
    assert fitted.matrix_compute == pytest.approx(FITTED.matrix_compute, rel=0.01)
    assert fitted.matrix_memory == pytest.approx(FITTED.matrix_memory, rel=0.01)
    assert fitted.smoothness == pytest.approx(FITTED.smoothness, rel=0.01)
    assert fitted.launch_us == pytest.approx(FITTED.launch_us, rel=0.01)


def test_fit_recovers_from_a_poor_start(measured: TracePack):
    start = replace(FITTED, matrix_memory=(0.5, 0.5, 0.5), smoothness=3.0, launch_us=2.0)
    assert deviation(measured, start).step_median > 0.09
    assert deviation(measured, fit(measured, start)).step_median < 0.03


def test_fit_command_prints_both(capsys: pytest.CaptureFixture[str]):
    assert main([]) == 0
    out = capsys.readouterr().out
    assert "fitted" in out
    assert "stored" in out
    assert main(["--pack", "absent.parquet"]) == 2
    assert "absent.parquet" in capsys.readouterr().err


def test_memory_is_the_measured_pack_s(pack: TracePack, measured: TracePack):
    for name in ("weights_bytes", "kv_pool_tokens", "runtime_bytes", "activation_bytes"):
        assert getattr(pack.metadata, name) == getattr(measured.metadata, name)
    np.testing.assert_array_equal(pack.columns["gpu_mem_gb"], measured.columns["gpu_mem_gb"])


def test_pack_has_the_same_schema_and_says_where_it_comes_from(pack: TracePack):
    assert pack.metadata.source == "roofline"
    assert set(pack.columns) == set(VALUE_COLUMNS)
    assert all(np.isfinite(values).all() for values in pack.columns.values())


def test_crossovers_exist_too(pack: TracePack):
    """Smoothing moves the INT4/INT8 crossover up (measured: 64; here: between 128 and 256)."""
    best = pack.columns["tpot_ms"][:, 0, 0, :, PROMPT_LENGTHS_TOKENS.index(256)].argmin(axis=1)
    assert (best[: BATCH_SIZES.index(32) + 1] == 2).all()
    assert (best[BATCH_SIZES.index(256) :] == 1).all()


def test_times_grow_with_every_load(kernels: RooflineKernels):
    rows = array(1, 2, 16, 100, 512, 4608)

    def total(rows: FloatArray, sequences: FloatArray, context: FloatArray) -> FloatArray:
        return kernels.decode(0, rows, sequences, context).total_ms

    assert (np.diff(total(rows, rows, array(256))) > 0).all()
    assert (np.diff(total(rows, array(1), array(256))) > 0).all()
    assert (np.diff(total(array(32), array(32), array(1, 64, 8192))) > 0).all()
    assert (np.diff(kernels.prefill_ms(0, array(1, 64, 8192))) > 0).all()


def test_no_faster_than_the_data_sheet(kernels: RooflineKernels):
    memory = kernels.memory(0)
    floor_ms = (memory.weights_bytes - 2 * 128256 * 4096) / GPUS["a100_sxm"].memory_tb_per_s / 1e9
    assert kernels.decode(0, array(1), array(1), array(1)).total_ms[0] > floor_ms
    flops = 2.0 * 8192 * MODELS[LLAMA].layers * MODELS[LLAMA].layer_parameters
    assert kernels.prefill_ms(0, array(8192))[0] > flops / GPUS["a100_sxm"].bf16_tflops / 1e9


def test_parts_broadcast(kernels: RooflineKernels):
    parts: ForwardParts = kernels.decode(1, array(1, 2, 3)[:, None], array(1), array(5, 6)[None])
    assert parts.layers_ms.shape == parts.attention_ms.shape == parts.head_ms.shape == (3, 2)


def test_shape_of_llama():
    shape = MODELS[LLAMA]
    assert shape.kv_bytes_per_token == 131_072
    parameters = shape.layers * shape.layer_parameters + 2 * shape.vocabulary * shape.hidden
    assert parameters == pytest.approx(8.03e9, rel=1e-3)


@pytest.mark.parametrize("model", sorted(MODELS))
@pytest.mark.parametrize("gpu", sorted(GPUS))
def test_every_known_model_and_gpu_gives_a_finite_pack(gpu: str, model: str):
    pack = build_pack(RooflineKernels.named(gpu, model, 80.0), replace(SETTINGS, memory_limit_gb=80.0))
    assert all(np.isfinite(values).all() for values in pack.columns.values())


def test_a_model_that_does_not_fit_serves_nothing():
    pack = build_pack(RooflineKernels.named("a100_sxm", LLAMA, 10.0), replace(SETTINGS, memory_limit_gb=10.0))
    assert pack.metadata.kv_pool_tokens[0] == 0
    assert (pack.columns["tps"][:, :, :, 0] == 0.0).all()


def test_unknown_names_are_answered_with_near_ones():
    with pytest.raises(UnknownNameError, match="a100_sxm"):
        RooflineKernels.named("a100", LLAMA, 40.0)
    with pytest.raises(UnknownNameError, match="Llama"):
        RooflineKernels.named("a100_sxm", "meta-llama/Meta-Llama-3.1-8b", 40.0)
