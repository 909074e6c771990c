"""What `openenv push` and `openenv validate --level static` look at before anything runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from openenv.cli._cli_utils import validate_env_structure
from openenv.cli._validation import get_deployment_modes, validate_multi_mode_deployment
from openenv.cli.commands.push import DEFAULT_PUSH_IGNORE_PATTERNS, _prepare_staging_directory

from tests.packaging.repository import ROOT, files

# The root of a repository is no place for the outputs/ that the check only recommends.
RECOMMENDED_ONLY = ["Recommended directory missing: outputs/"]


def test_the_structure_that_push_demands() -> None:
    assert validate_env_structure(ROOT) in ([], RECOMMENDED_ONLY)


def test_the_root_package_and_client_can_be_imported() -> None:
    code = (
        "import importlib.util, sys; sys.path.insert(0, '.');"
        "spec = importlib.util.spec_from_file_location('anything', '__init__.py',"
        " submodule_search_locations=['.']); module = importlib.util.module_from_spec(spec);"
        "sys.modules['anything'] = module; spec.loader.exec_module(module);"
        "from anything.client import InferenceGymEnv"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_every_deployment_mode_is_ready() -> None:
    assert validate_multi_mode_deployment(ROOT) == (True, [])
    assert all(get_deployment_modes(ROOT).values())


def test_static_validation_passes() -> None:
    command = [
        sys.executable,
        "-m",
        "openenv.cli",
        "validate",
        ".",
        "--level",
        "static",
        "--skip-build",
        "--json",
    ]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert json.loads(result.stdout)["verdict"] == "pass"


def test_the_tree_holds_no_symlinks() -> None:
    assert [path for path in files() if (ROOT / path).is_symlink()] == []


def test_push_stages_all_that_the_image_needs(tmp_path: Path) -> None:
    """`openenv push` leaves out dot files, so the Dockerfile must not lean on .dockerignore."""
    source, staged = tmp_path / "source", tmp_path / "staged"
    for path in files():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes((ROOT / path).read_bytes())
    _prepare_staging_directory(source, "inferencegym", staged, list(DEFAULT_PUSH_IGNORE_PATTERNS))
    for line in (staged / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            for name in line.split()[1:-1]:
                assert (staged / name).exists(), name
    assert (staged / "README.md").read_text() == (ROOT / "README.md").read_text()
