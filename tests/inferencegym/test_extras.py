"""Without the libraries of the extras: one sentence that says what to install, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from inferencegym.errors import InferenceGymError, MissingExtraError
from inferencegym.extras import extra_hint, missing
from tests.live import ROOT

EXTRAS = ("aiconfigurator_core", "cma", "gymnasium", "matplotlib", "numba", "stable_baselines3", "torch")


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which no extra is installed."""
    folder = tmp_path_factory.mktemp("without")
    names = ", ".join(map(repr, EXTRAS))
    (folder / "sitecustomize.py").write_text(
        f"import sys\nfor name in ({names}):\n    sys.modules[name] = None\n"
    )
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}


def run(env: dict[str, str], *words: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, *map(str, words)], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("words", "library", "extra"),
    [
        (("agents.ppo.demo",), "gymnasium", "demo"),
        (("agents.ppo.demo", "--help"), "gymnasium", "demo"),
        (("inferencegym.gym.benchmark",), "gymnasium", "gym"),
        (("agents.market.bench",), "numba", "gym"),
        (("agents.serving.evolved", "--task", "task1"), "cma", "gym"),
        (("agents.routing.frontier", "--png", "frontier.png"), "matplotlib", "demo"),
        (("simulator.reference.fidelity_report",), "matplotlib", "demo"),
        (("simulator.packs.building.build_traces",), "aiconfigurator-core", "traces"),
        (("inferencegym.cli", "market", "train-ga", "--output", os.devnull), "numba", "gym"),
        (("inferencegym.cli", "market", "sweep", "--output", os.devnull), "numba", "gym"),
        (("inferencegym.cli", "run", "--agent", "ppo"), "gymnasium", "gym"),
        (("inferencegym.cli", "compare", "--seeds", "2", "--png", "scores.png"), "matplotlib", "demo"),
        (("inferencegym.cli", "traces", "plot", "--output", "pack.png"), "matplotlib", "demo"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_programs(without: dict[str, str], words: tuple[str, ...], library: str, extra: str) -> None:
    code, said = run(without, "-m", *words)
    assert code in (1, 2)
    assert "Traceback" not in said
    assert library in said
    assert f"inferencegym[{extra}]" in said


@pytest.mark.parametrize(
    ("statement", "library", "extra"),
    [
        ("import inferencegym.gym", "gymnasium", "gym"),
        ("from inferencegym.gym import GymEnv", "gymnasium", "gym"),
        ("import simulator.kernels.compiled", "numba", "gym"),
        ("import agents.ppo.demo", "gymnasium", "demo"),
        ("import agents.market.bench", "numba", "gym"),
    ],
)
def test_imports(without: dict[str, str], statement: str, library: str, extra: str) -> None:
    """The error of an import is a sentence too, and one that `except ImportError` catches."""
    code = f"try:\n    {statement}\nexcept ImportError as e:\n    raise SystemExit(f'{{e.name}}: {{e}}')"
    status, said = run(without, "-c", code)
    assert status == 1
    assert said.startswith(f"{library}: ")
    assert f"needs {library}, which is not installed." in said
    assert f"inferencegym[{extra}]" in said


def test_what_needs_no_extra_runs(without: dict[str, str]) -> None:
    assert run(without, "-m", "inferencegym.cli", "run", "--task", "1", "--json") == (0, "")


def test_the_error_belongs_to_the_tree() -> None:
    told = missing("A chart", ModuleNotFoundError("no", name="matplotlib"), extra_hint("demo"))
    assert isinstance(told, MissingExtraError)
    assert isinstance(told, InferenceGymError)
    assert isinstance(told, ModuleNotFoundError)
    assert str(told) == (
        "A chart needs matplotlib, which is not installed. "
        "Install the extra: pip install 'inferencegym[demo]'."
    )
