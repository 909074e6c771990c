"""The wheel that pip builds from the checkout (marked ``image``: the build fetches its backend)."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.packaging.repository import ROOT, files

PACKAGES = {"inferencegym", "simulator", "env", "grader", "agents", "server"}


@pytest.mark.image
def test_it_carries_every_package_with_its_data(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        entry_points = archive.read(next(n for n in archive.namelist() if n.endswith("entry_points.txt")))
    assert names == {path.as_posix() for path in files() if path.parts[0] in PACKAGES}
    assert b"inferencegym = inferencegym.cli:main" in entry_points
    assert b"server = server.app:main" in entry_points
