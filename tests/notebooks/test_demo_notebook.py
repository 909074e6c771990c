"""The demo notebook: small, without outputs, and it runs from top to bottom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "InferenceGym_Demo.ipynb"
CELL_LIMIT_S = 300


def cells(kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == kind]


def test_it_is_stored_without_outputs_and_small() -> None:
    assert NOTEBOOK.stat().st_size < 100_000
    assert 9 <= len(cells("code")) <= 12
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells("code"))


def test_its_badge_opens_itself() -> None:
    first = "".join(cells("markdown")[0]["source"])
    assert (
        f"colab.research.google.com/github/inferencegym/inferencegym/blob/main/notebooks/{NOTEBOOK.name}"
        in first
    )


@pytest.mark.demo
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_runs_from_top_to_bottom(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")

    monkeypatch.setenv("DEMO_STEPS", "4096")
    monkeypatch.delenv("INFERENCEGYM_URL", raising=False)
    # The training run goes to a temporary folder.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        timeout=CELL_LIMIT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(NOTEBOOK.parent)}},
    )
    client.execute()
    outputs = {cell["id"]: cell["outputs"] for cell in notebook.cells if cell["cell_type"] == "code"}
    said = {name: "".join(str(out.get("text", "")) for out in each) for name, each in outputs.items()}
    assert "task3 Adversarial Multi-Tenant" in said["tasks"]
    assert "alike: True" in said["gym"]
    assert "4,096 steps" in said["ppo"]
    assert "verified: True" in said["grade"]
    for name in ("gym", "curve"):
        assert any("image/png" in out.get("data", {}) for out in outputs[name])
    assert len(list(tmp_path.glob("*/serving/task3/policy.npz"))) == 1
