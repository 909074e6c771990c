"""The files of the repository, as a clone would have them."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_SKIPPED = {
    ".git",
    ".venv",
    "__pycache__",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
    ".import_linter_cache",
}


def files() -> list[Path]:
    """Files that git tracks or would track, relative to the root; without git, all but caches."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        found = [path.relative_to(ROOT) for path in ROOT.rglob("*") if not path.is_dir()]
        return [path for path in found if not _SKIPPED & set(path.parts)]
    return [path for name in sorted(set(listed.splitlines())) if (ROOT / (path := Path(name))).exists()]
