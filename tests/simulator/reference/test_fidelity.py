"""The fidelity report says what the code gives: rows of docs/physics/fidelity.md against the same row
computed here."""

from __future__ import annotations

import pytest

from inferencegym.errors import InvalidValueError
from simulator.reference.fidelity import (
    BARS,
    LOADS,
    SETTINGS,
    Figures,
    Point,
    Setting,
    run_setting,
    worst_below_saturation,
)
from simulator.reference.fidelity_report import (
    BEGIN,
    END,
    REPORT_PATH,
    error_row,
    explanation_row,
    held_out_rows,
    main,
    measured_rows,
    replace_section,
)
from simulator.serving.timing import ENGINE_TIMINGS
from tests.simulator.engines import TABLE

REPORT = REPORT_PATH.read_text()
SECTION = REPORT.split(BEGIN)[1].split(END)[0]
HELD_TO_BARS = (
    "chat, batch 200",
    "mixed prompts, 2 drafts, batch 64",
    "documents (task 3), batch 128",
    "chat, tight KV, batch 200",
)
(SUBSET,) = (setting for setting in SETTINGS if setting.name == "documents, disaggregated")


def test_the_rows_of_a_setting_are_what_the_simulators_give():
    results = run_setting(TABLE, SUBSET)
    lines = SECTION.splitlines()
    assert list(results) == list(ENGINE_TIMINGS)
    for points in results.values():
        assert error_row(SUBSET, points) in lines
        for name in ("tpot_ms", "tokens_per_s"):
            assert abs(worst_below_saturation(points, name)) < 0.05
        assert [point.load for point in points] == list(LOADS)
    assert explanation_row(TABLE, SUBSET, results) in lines


@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting.name in HELD_TO_BARS])
def test_mixed_batches_are_within_the_bars_up_to_80_percent_of_capacity(setting: Setting):
    results = run_setting(TABLE, setting, (0.3, 0.8))
    for point in results["mixed_batch"]:
        for name, bar in BARS.items():
            assert abs(point.error(name)) < bar, (point.load, name)
    # A prompt that reads the weights by itself makes decoding slower than it is.
    for mixed, additive in zip(results["mixed_batch"], results["additive"], strict=True):
        assert abs(mixed.error("tpot_ms")) < 0.03
        assert additive.error("tpot_ms") > mixed.error("tpot_ms")


def test_every_setting_has_its_rows():
    for setting in SETTINGS:
        assert sum(line.startswith(f"| {setting.name} |") for line in SECTION.splitlines()) == 3


def test_the_rows_of_the_pack_are_the_comparison_s():
    for row in [*measured_rows(), *held_out_rows()]:
        assert row in SECTION.splitlines()
    assert len(held_out_rows()) == 6


def test_the_pictures_exist_and_are_small():
    for name in ("fidelity_loads.png", "fidelity_measured.png"):
        assert f"](../{name})" in SECTION
        assert 5_000 < (REPORT_PATH.parents[1] / name).stat().st_size < 150_000


def test_a_section_goes_between_its_markers():
    text = f"before\n{BEGIN}\nold\n{END}\nafter"
    assert replace_section(text, "new") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter"
    for broken in ("no markers", f"{END} only", f"{text}{text}"):
        with pytest.raises(InvalidValueError, match=REPORT_PATH.name):
            replace_section(broken, "new")


def test_errors_are_relative_and_the_worst_is_the_one_of_largest_size():
    def figures(scale: float) -> Figures:
        return Figures(20.0 * scale, 50.0, 10.0, 100.0, 0.5 + scale / 10, 0.0)

    points = [
        Point("additive", "x", load, 1.0, figures(scale), figures(1.0))
        for load, scale in ((0.1, 1.1), (0.5, 0.7), (0.9, 9.0))
    ]
    assert worst_below_saturation(points, "ttft_p50_ms") == pytest.approx(-0.3)
    assert points[0].error("kv_occupancy") == pytest.approx(0.01)


def test_speed_is_measured_not_asserted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """The command prints a line a simulator and setting; how fast they are is for the reader."""
    monkeypatch.setattr("simulator.reference.fidelity_report._SPEED_S", 4)
    monkeypatch.setattr("simulator.reference.fidelity_report._SPEED_AT", ((SUBSET, 4.0),))
    assert main(["--speed"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(line.startswith(SUBSET.name) for line in lines)
    assert all(line.endswith("x real time") for line in lines)
