"""No forward pass is shorter than one reading of the weights."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inferencegym.errors import InvalidValueError
from simulator.packs.building.roofline_kernels import RooflineKernels
from simulator.packs.importing.measured_figures import figures_of
from simulator.packs.importing.measured_limits import WeightReading, possible, reading_of_pack
from simulator.packs.importing.measurements import Measurement, Measurements
from simulator.packs.importing.report import ImportRequest, hold_against, import_pack
from simulator.packs.io import DEFAULT_PACK_PATH, read_pack

LLAMA = "meta-llama/Meta-Llama-3.1-8B"
H100 = RooflineKernels.named("h100_sxm", LLAMA, 80.0)
REQUEST = ImportRequest("h100_sxm", "2026-01-05", LLAMA)


def point(
    where: str, batch: float, tpot_ms: float, tier: int = 0, ttft_ms: float | None = None
) -> Measurement:
    return Measurement(where, tier, batch, 256.0, 256.0, colocated=False, tpot_ms=tpot_ms, ttft_ms=ttft_ms)


GOOD = [point(f"row {n}", n, t) for n, t in ((1, 6.6), (8, 6.9), (16, 7.3), (32, 8.0))]


def test_the_least_step_is_layers_and_vocabulary_over_the_data_sheet_s_bandwidth() -> None:
    """7.0e9 parameters of two bytes in the layers and 128,256 x 4,096 in the projection, at 3.35 TB/s."""
    assert H100.least_step_ms(0) == pytest.approx(4.48, abs=0.01)
    assert H100.least_step_ms(1) == pytest.approx(2.40, abs=0.01)
    assert WeightReading.of(H100, gpus=4).least_ms[0] == pytest.approx(1.12, abs=0.01)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (point("bad", 1, 2.9), "tpot_ms is 2.9 ms"),
        (point("bad", 1, 2.9), "without speculative decoding it cannot be"),
        (point("bad", 1, 6.9, ttft_ms=3.0), "ttft_ms is 3 ms"),
        (Measurement("bad", 0, 8.0, 256.0, 256.0, colocated=False, latency_s=0.6), "latency_s is 0.6 s"),
    ],
)
def test_an_impossible_figure_takes_its_run_with_it(bad: Measurement, said: str) -> None:
    report = import_pack(Measurements((*GOOD, bad)), REQUEST)
    assert len(report.figures) == len(GOOD)
    (entry,) = report.left_out
    assert entry.where == "bad"
    assert said in entry.reason


def test_the_tier_s_own_weights_count() -> None:
    kept, left_out = possible(figures_of([point("int8", 1, 2.9, tier=1)]), WeightReading.of(H100))
    assert len(kept) == 1
    assert not left_out


def test_when_nothing_is_left_the_error_says_why() -> None:
    drafted = [replace(p, tpot_ms=(p.tpot_ms or 0.0) / 2.5) for p in GOOD]
    with pytest.raises(InvalidValueError, match=r"row 1: tpot_ms is 2\.64 ms.*without speculative decoding"):
        import_pack(Measurements(tuple(drafted)), REQUEST)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (point("bad", 1, 0.0069), "bad, TPOT ms: 0.0069 is not allowed"),
        (point("bad", 1, 6.9, ttft_ms=0.03), "bad, TTFT ms: 0.03 is not allowed"),
    ],
)
def test_a_figure_in_seconds_is_refused_by_its_right_name(bad: Measurement, said: str) -> None:
    for attempt in (
        lambda: import_pack(Measurements((*GOOD, bad)), REQUEST),
        lambda: hold_against(Measurements((*GOOD, bad)), read_pack(DEFAULT_PACK_PATH)),
    ):
        with pytest.raises(InvalidValueError, match="Is it in seconds") as caught:
            attempt()
        assert said in str(caught.value)


@pytest.mark.parametrize(
    "bad",
    [
        point("bad", 1, 0.0069),
        point("bad", 1, 6.9, ttft_ms=0.3),
        Measurement("bad", 0, 8.0, 256.0, 256.0, colocated=False, latency_s=0.003),
    ],
)
def test_evidence_for_a_gpu_without_a_data_sheet_is_not_in_seconds(bad: Measurement) -> None:
    pack = read_pack(DEFAULT_PACK_PATH)
    unknown = replace(pack, metadata=replace(pack.metadata, gpu="unknown"))
    assert hold_against(Measurements(tuple(GOOD)), unknown).figures
    with pytest.raises(InvalidValueError, match=r"bad, .*nit|bad, .*seconds"):
        hold_against(Measurements((*GOOD, bad)), unknown)


def test_a_load_test_s_own_names_are_told() -> None:
    named = replace(point("bad", 1, 2.9, ttft_ms=30.0), fields=("median_tpot_ms", "mean_ttft_ms"))
    _, (entry,) = possible(figures_of([named]), WeightReading.of(H100))
    assert "median_tpot_ms is 2.9 ms" in entry.reason


def test_evidence_is_held_to_the_pack_s_own_gpu() -> None:
    pack = read_pack(DEFAULT_PACK_PATH)
    report = hold_against(Measurements((point("a", 1, 12.0), point("b", 1, 3.0))), pack)
    assert [entry.where for entry in report.left_out] == ["b"]
    assert reading_of_pack(replace(pack.metadata, gpu="unknown")) is None
    assert reading_of_pack(replace(pack.metadata, model="unknown")) is None
