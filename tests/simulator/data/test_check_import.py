"""Half of the published runs predicts the other half; ENVIRONMENT.md quotes the figures."""

from __future__ import annotations

import pytest

from simulator.data.check_import import cross_predict, main
from simulator.data.compare_measured import error_summary


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


def test_command_prints_every_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    printed = capsys.readouterr().out
    assert printed.count("| vLLM |") == 12
    assert "after the import median absolute error" in printed
