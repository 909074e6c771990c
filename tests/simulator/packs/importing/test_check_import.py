"""Half of the published runs predicts the other half; docs/physics/packs.md quotes the figures."""

from __future__ import annotations

import pytest

from simulator.packs.building.compare_measured import error_summary
from simulator.packs.importing.check_import import cross_predict, main, reference_report
from simulator.packs.importing.reference_load_tests import Load


@pytest.mark.parametrize(
    ("framework", "before", "after", "largest"),
    [("TensorRT-LLM", 0.04, 0.03, 0.22), ("vLLM", 0.12, 0.02, 0.07)],
)
def test_stated_errors_hold(framework: str, before: float, after: float, largest: float) -> None:
    rows = cross_predict(framework)
    assert len(rows) == 12
    roofline = error_summary([row.roofline_error for row in rows])
    imported = error_summary([row.imported_error for row in rows])
    assert roofline.median_absolute > before
    assert imported.median_absolute < after
    assert imported.max_absolute < min(largest, roofline.max_absolute)


def test_load_tests_of_the_reference_engine_are_read_right() -> None:
    """Its own pack meets the engine's TPOT within 2 %, from one sequence to thirty; so does an import."""
    loads = (Load(0.2, 256, 256), Load(3.0, 256, 256), Load(7.0, 256, 256), Load(2.0, 1024, 256))
    evidence, imported = reference_report(loads, seconds=100)
    assert [figure.point.batch > 20.0 for figure in evidence.figures if figure.quantity == "tpot_ms"][2]
    tpot = evidence.summaries()["predicted"]["TPOT ms"]
    assert tpot.runs == 4
    assert tpot.max_absolute < 0.02
    assert evidence.summaries()["predicted"]["TTFT ms"].max_absolute < 0.12
    assert imported.summaries()["predicted"]["TPOT ms"].max_absolute < 0.02


def test_command_prints_every_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    printed = capsys.readouterr().out
    assert printed.count("| vLLM |") == 12
    assert "after the import median absolute error" in printed
    assert printed.count("/s, ") >= 14
