"""A deployment that differs from the shipped A100 pack in known ways is found again by a few load tests."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from env.serving.episode import InferenceEnv
from inferencegym.errors import InvalidValueError, TracePackError, UnknownNameError
from inferencegym.models.serving import ServeAction
from simulator.packs.benchmarks.readers import read_measurements
from simulator.packs.building.calibrated_kernels import CalibratedKernels, Correction
from simulator.packs.building.columns import PackSettings, build_pack
from simulator.packs.building.compare_measured import OfflineBatchModel
from simulator.packs.building.roofline_kernels import RooflineKernels
from simulator.packs.importing.import_measurements import calibrate, held_out_errors, known_model, usable
from simulator.packs.importing.measured_figures import Figure, PackPredictor, figures_of
from simulator.packs.importing.measurements import Measurement, Measurements
from simulator.packs.importing.report import ImportRequest, hold_against, import_pack
from simulator.packs.io import DEFAULT_PACK_PATH, TracePack, read_pack, write_pack
from simulator.packs.schema import QUANT_TIERS
from simulator.packs.trace_sim import TraceSimulator
from tests.simulator.packs.importing.load_tests import vllm_bursts, vllm_results

LLAMA = "meta-llama/Meta-Llama-3.1-8B"
SETTINGS = PackSettings(build_date="2026-01-05")
REQUEST = ImportRequest("a100_sxm", "2026-01-05", LLAMA)

SEEN = [
    (1, 128, 256),
    (8, 128, 256),
    (32, 128, 256),
    (64, 256, 256),
    (16, 512, 256),
    (1, 2048, 128),
    (16, 2048, 512),
]
HIDDEN = [(4, 256, 256), (24, 256, 512), (48, 512, 256), (2, 1024, 256), (32, 1024, 512), (8, 4096, 512)]


def distorted(pack: TracePack) -> TracePack:
    """The measured pack of the A100, 15 % slower in decode, 2 ms a step late, 30 % slower in prefill."""
    expected = pack.metadata.reference_tokens_per_step().reshape(1, 1, -1, 1, 1)
    step_ms = pack.columns["tpot_ms"] * expected
    prefill_ms = pack.columns["ttft_p50_ms"] - 0.5 * step_ms
    step_ms = 1.15 * step_ms + 2.0
    changed = {"tpot_ms": step_ms / expected, "ttft_p50_ms": 1.3 * prefill_ms + 0.5 * step_ms}
    return TracePack({**pack.columns, **changed}, pack.metadata)


@pytest.fixture(scope="module")
def truth() -> TracePack:
    return distorted(read_pack(DEFAULT_PACK_PATH))


@pytest.fixture(scope="module")
def measured(truth: TracePack, tmp_path_factory: pytest.TempPathFactory) -> Measurements:
    return measure(truth, SEEN, tmp_path_factory.mktemp("seen"))


def measure(truth: TracePack, loads: list[tuple[int, int, int]], folder: Path) -> Measurements:
    path = folder / "results.json"
    path.write_text(json.dumps(vllm_results(truth, loads, np.random.default_rng(5))))
    return read_measurements([path])


def test_the_round_trip_finds_the_deployment(
    truth: TracePack, measured: Measurements, tmp_path: Path
) -> None:
    """Seven noisy load tests; six other ones are then predicted within a few per cent."""
    report = import_pack(measured, REQUEST)
    summary = report.summaries()
    assert summary["uncorrected"]["TPOT ms"].median_absolute > 0.2
    assert summary["predicted"]["TPOT ms"].median_absolute < 0.015
    assert summary["predicted"]["all"].max_absolute < 0.15
    assert summary["held_out"]["TPOT ms"].median_absolute < 0.03
    others = hold_against(measure(truth, HIDDEN, tmp_path), report.pack).summaries()["predicted"]
    assert others["TPOT ms"].median_absolute < 0.025
    assert others["TPOT ms"].max_absolute < 0.05
    assert others["TTFT ms"].median_absolute < 0.08


def test_the_imported_pack_is_near_the_true_one_where_it_was_measured(
    truth: TracePack, measured: Measurements
) -> None:
    """Whole steps and prefills, not only what the load tests show: batch 1 to 64, prompts up to 2,048.

    What is left is the roofline's own deviation from the measured kernels, largest at batch 64.
    """
    pack = import_pack(measured, REQUEST).pack
    step = pack.step_ms[:6, 0, 0, :6] / truth.step_ms[:6, 0, 0, :6]
    prefill = pack.prefill_ms[0, :6] / truth.prefill_ms[0, :6]
    assert np.median(np.abs(step - 1.0)) < 0.02
    assert np.abs(step - 1.0).max() < 0.12
    assert np.abs(prefill - 1.0).max() < 0.09


def test_prompts_sent_at_once_say_the_same_about_decoding_as_clients_do(
    truth: TracePack, tmp_path: Path
) -> None:
    """One prompt tells prefill, and the bursts the steps; the queue in their TTFT tells nothing."""
    path = tmp_path / "bursts.json"
    loads = [(n, prompt, 512) for n in (1, 2, 4, 8, 16, 32) for prompt in (128, 512)]
    path.write_text(json.dumps(vllm_bursts(truth, loads)))
    report = import_pack(read_measurements([path]), REQUEST)
    assert [figure.point.batch for figure in report.figures if figure.quantity == "ttft_ms"] == [1.0, 1.0]
    assert len(report.figures) == len(loads) + 2
    step = report.pack.step_ms[:5, 0, 0, :3] / truth.step_ms[:5, 0, 0, :3]  # batch 1 to 32
    assert np.abs(step - 1.0).max() < 0.05


def test_known_corrections_come_back() -> None:
    """Without noise and with the roofline as the truth, the parameters themselves are found."""
    base = RooflineKernels.named("h100_sxm", LLAMA, 80.0)
    true = Correction(
        prefill=1.2, weights=(1.1,) * 3, rows=(1.1,) * 3, attention=1.4, step_ms=0.0, sequence_ms=0.04
    )
    predictor = PackPredictor(build_pack(CalibratedKernels(base, true), SETTINGS))
    points = [
        Measurement("", 0, float(batch), float(prompt), 256.0, colocated=True)
        for batch in (1, 4, 16, 64, 256)
        for prompt in (128, 1024, 4096)
    ]
    figures = [
        Figure(point, name, predictor.predict(Figure(point, name, 1.0)))
        for point in points
        for name in ("tpot_ms", "ttft_ms")
    ]
    found = calibrate(base, SETTINGS, figures)
    assert found.correction.prefill == pytest.approx(1.2, rel=0.02)
    assert found.correction.attention == pytest.approx(1.4, rel=0.04)
    assert found.correction.sequence_ms == pytest.approx(0.04, rel=0.2)
    after = PackPredictor(build_pack(CalibratedKernels(base, found.correction), SETTINGS)).errors(figures)
    assert np.abs(after).max() < 0.02


def test_a_tier_that_was_measured_gets_its_own_factor() -> None:
    base = RooflineKernels.named("a100_sxm", LLAMA, 40.0)
    true = CalibratedKernels(base, Correction(weights=(1.0, 1.3, 1.0), rows=(1.0, 1.3, 1.0)))
    predictor = PackPredictor(build_pack(true, SETTINGS))
    points = [
        Measurement("", tier, float(batch), 256.0, 256.0, colocated=False)
        for tier in (0, 1)
        for batch in (1, 8, 32)
    ]
    figures = [Figure(point, "tpot_ms", predictor.predict(Figure(point, "tpot_ms", 1.0))) for point in points]
    weights = calibrate(base, SETTINGS, figures).correction.weights
    assert weights[1] / weights[0] == pytest.approx(1.3, rel=0.06)
    assert weights[2] == weights[0]


def test_what_no_figure_bears_on_stays_with_the_prior() -> None:
    """Decode alone says nothing about prefill, and the report says so."""
    base = RooflineKernels.named("a100_sxm", LLAMA, 40.0)
    rows = ((1, 13.0), (8, 14.0), (32, 16.0), (64, 20.0))
    points = [Measurement("", 0, float(n), 256.0, 256.0, colocated=False, tpot_ms=t) for n, t in rows]
    found = calibrate(base, SETTINGS, figures_of(points))
    assert found.correction.prefill == pytest.approx(1.0, abs=1e-6)
    assert found.deviations[0] == pytest.approx(0.3, rel=0.01)
    assert found.deviations[1] < 0.2


def test_an_offline_batch_is_predicted_as_the_comparison_does() -> None:
    pack = read_pack(DEFAULT_PACK_PATH)
    point = Measurement("", 1, 16.0, 512.0, 128.0, colocated=False, latency_s=3.0)
    expected = OfflineBatchModel(pack, tier=1).latency_s(16, 512, 128)
    assert PackPredictor(pack).predict(Figure(point, "latency_s", 3.0)) == expected
    too_long = Measurement("here", 0, 4.0, 160_000.0, 128.0, colocated=False, latency_s=3.0)
    with pytest.raises(TracePackError, match="here: a KV pool"):
        PackPredictor(pack).predict(Figure(too_long, "latency_s", 3.0))


def test_held_out_figures_are_worse_than_fitted_ones_and_the_same_every_time(measured: Measurements) -> None:
    base = RooflineKernels.named("a100_sxm", LLAMA, 40.0)
    figures, _ = usable(measured)
    errors = held_out_errors(base, SETTINGS, figures)
    assert errors.tolist() == held_out_errors(base, SETTINGS, figures).tolist()
    report = import_pack(measured, REQUEST)
    assert np.abs(errors).mean() > np.abs(report.errors["predicted"]).mean()
    assert report.errors["held_out"] == tuple(errors.tolist())


def test_an_imported_pack_tells_its_origin_and_can_be_played(measured: Measurements, tmp_path: Path) -> None:
    report = import_pack(measured, REQUEST)
    path = tmp_path / "mine.parquet"
    write_pack(path, report.pack)
    metadata = read_pack(path).metadata
    assert (metadata.source, metadata.gpu, metadata.model, metadata.engine) == (
        "imported",
        "a100_sxm",
        LLAMA,
        "vllm",
    )
    assert "results.json" in metadata.tier_kernels[0]
    assert "corrected as the measured tier" in metadata.tier_kernels[1]
    env = InferenceEnv(TraceSimulator(path), "task1")
    env.reset(seed=3)
    steps = [env.step(ServeAction(batch_size=64)) for _ in range(200)]
    assert [step[2] for step in steps[-2:]] == [False, True]
    shipped = InferenceEnv(TraceSimulator(), "task1")
    shipped.reset(seed=3)
    faster = [shipped.step(ServeAction(batch_size=64)) for _ in range(200)]
    assert -200.0 <= sum(step[1] for step in steps) < sum(step[1] for step in faster)


def test_all_three_tiers_are_built(measured: Measurements) -> None:
    pack = import_pack(measured, REQUEST).pack
    assert pack.step_ms.shape[2] == len(QUANT_TIERS)
    assert (pack.columns["tpot_ms"] > 0).all()


# --- refusals ----------------------------------------------------------------------------------------------


def plain(*rows: tuple[float, float], tier: int = 0) -> Measurements:
    points = (Measurement("m", tier, n, 256.0, 256.0, colocated=False, tpot_ms=t) for n, t in rows)
    return Measurements(tuple(points))


@pytest.mark.parametrize(
    ("measurements", "said"),
    [
        (plain((1, 13.0), (8, 14.0), (32, 16.0)), "usable figures: 3 is not allowed; allowed: at least 4"),
        (plain((8, 13.0), (8, 14.0), (8, 13.5), (8, 13.3)), "running batches: [8]"),
        (
            plain((600, 13.0), (8, 14.0), (32, 16.0), (16, 15.0)),
            "600 sequences decode together; a pack ends at 512",
        ),
        (plain((1, 130.0), (8, 140.0), (32, 160.0), (64, 170.0)), "The figures are not those of this GPU"),
        (Measurements(()), "usable figures: 0"),
    ],
)
def test_what_cannot_be_fitted_is_refused(measurements: Measurements, said: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        import_pack(measurements, REQUEST)
    assert said in str(caught.value)


def test_nothing_to_hold_a_pack_against_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="usable figures"):
        hold_against(Measurements(()), read_pack(DEFAULT_PACK_PATH))


def test_points_beyond_the_tables_are_left_out() -> None:
    far = Measurement("far", 0, 4.0, 16_000.0, 1_000.0, colocated=False, tpot_ms=30.0)
    figures, left_out = usable(Measurements((far,)))
    assert not figures
    assert "tables end at 16384" in left_out[0].reason


def test_a_model_that_does_not_fit_one_gpu_is_refused() -> None:
    request = ImportRequest("h100_sxm", "2026-01-05", "meta-llama/Meta-Llama-3.1-70B")
    with pytest.raises(InvalidValueError, match=r"memory_gib: 80.0 is not allowed.*several GPUs"):
        import_pack(plain((1, 13.0), (8, 14.0), (32, 16.0), (64, 18.0)), request)


def test_names() -> None:
    assert known_model("meta-llama/Llama-3.1-8B-Instruct") == LLAMA
    assert known_model("Qwen/Qwen3-8B") == "Qwen/Qwen3-8B"
    with pytest.raises(UnknownNameError, match="model"):
        known_model("my-model")
    rows = plain((1, 13.0), (8, 14.0), (32, 16.0), (64, 18.0))
    with pytest.raises(InvalidValueError, match="--model: None"):
        import_pack(rows, ImportRequest("a100_sxm", "2026-01-05"))
    with pytest.raises(UnknownNameError, match="system: 'a100' does not exist"):
        import_pack(rows, ImportRequest("a100", "2026-01-05", LLAMA))
    named = Measurements(rows.points, model="somebody/else")
    assert "somebody/else" in import_pack(named, REQUEST).notes[0]


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = read_pack(DEFAULT_PACK_PATH)
    path = tmp_path / "mine.parquet"
    write_pack(path, pack)
    before = path.read_bytes()

    def full_disk(_table: object, where: Path, **_options: object) -> None:
        where.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("simulator.packs.io.pq.write_table", full_disk)
    with pytest.raises(InvalidValueError, match="No space left"):
        write_pack(path, pack)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.parquet"]
