"""The training demo end to end: short runs, the same weights from the same seed, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agents.registry import get_agent
from inferencegym.errors import InferenceGymError


def test_without_a_trained_policy_the_agent_names_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("INFERENCEGYM_PPO_CHECKPOINT", str(tmp_path))
    with pytest.raises(InferenceGymError, match=r"agents\.ppo_demo --task task1"):
        get_agent("serving", "ppo", "task1", 0)


def train(folder: Path, seed: int = 1) -> Path:
    from agents.ppo_demo import main

    words = ["--task", "task1", "--steps", "2048", "--envs", "16", "--evaluations", "1", "--held-out", "2"]
    assert main([*words, "--seed", str(seed), "--out", str(folder)]) in (None, 0)
    return folder / "task1"


@pytest.mark.demo
def test_the_same_seed_gives_the_same_policy_and_a_picture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folders = [train(tmp_path / "a"), train(tmp_path / "b"), train(tmp_path / "c", seed=2)]
    weights = [np.load(folder / "policy.npz", allow_pickle=False) for folder in folders]
    arrays = [name for name in weights[0].files if weights[0][name].dtype.kind == "f"]
    assert arrays
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in arrays)
    assert not all(np.array_equal(weights[0][name], weights[2][name]) for name in arrays)
    assert (folders[0] / "curve.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setenv("INFERENCEGYM_PPO_CHECKPOINT", str(tmp_path / "a"))
    agent = get_agent("serving", "ppo", "task1", 0)
    agent.reset()
