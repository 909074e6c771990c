"""Names by which documents, results and the design know what lives in a room."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from agents.baseline import BASELINE_ACTION, run_baseline
from env.inference_env import InferenceEnv
from env.serving import InferenceEnv as ServingEnv
from grader.grader import GraderModule
from simulator.trace_sim import TraceSimulator, shared_simulator
from simulator.workload import WorkloadGenerator
from simulator.workload_config import get_workload
from tests.live import ROOT

LAYERS = ("simulator", "env", "grader", "agents", "inferencegym", "server")
ALIASES = {
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."): path.read_text()
    for layer in LAYERS
    for path in (ROOT / layer).rglob("*.py")
    if "nothing else imports this" in path.read_text().lower() or "run_module(" in path.read_text()
}
COMMANDS = [name for name, text in ALIASES.items() if "run_module(" in text]


def test_the_designs_names_work_as_the_design_writes_them() -> None:
    env = InferenceEnv(shared_simulator(), task_id=1, seed=42)
    env.reset()
    log = []
    while not env.done:
        _, reward, _, info = env.step(BASELINE_ACTION)
        log.append({"action": info["action"], "reward": reward, "metrics": info["metrics"]})
    assert GraderModule().score(1, log) == run_baseline(1, seed=42)
    assert run_baseline(1) == run_baseline("easy", seed=0)
    assert isinstance(shared_simulator(), TraceSimulator)
    assert ServingEnv is InferenceEnv
    assert WorkloadGenerator(get_workload("task1"), 200).steps == 200


@pytest.mark.parametrize("name", COMMANDS)
def test_documented_commands_run_what_has_moved(name: str) -> None:
    target = ALIASES[name].partition('run_module("')[2].partition('"')[0]
    spec = find_spec(target)
    assert spec is not None
    assert spec.origin is not None
    assert 'if __name__ == "__main__"' in Path(spec.origin).read_text()


@pytest.mark.parametrize("name", ["agents.ppo_demo", "grader.calibrate", "simulator.data.held_out"])
def test_a_documented_command_says_its_help(name: str) -> None:
    command = [sys.executable, "-m", name, "--help"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "usage:" in ran.stdout


def test_nothing_imports_an_alias() -> None:
    assert len(ALIASES) >= 20
    for layer in LAYERS:
        for path in (ROOT / layer).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module:
                    assert node.module not in ALIASES, path
