"""`import inferencegym` stays light: a stranger needs httpx and pydantic, nothing of the server."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import inferencegym

HEAVY = (
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "fastapi",
    "starlette",
    "uvicorn",
    "openenv",
    "gradio",
    "numba",
)
UPPER = ("simulator", "env", "grader", "agents", "server")


def modules_after(code: str) -> set[str]:
    program = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    output = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    return set(json.loads(output.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    [
        "import inferencegym",
        "from inferencegym import InferenceGymClient; InferenceGymClient('http://127.0.0.1:1')",
        "from inferencegym import AsyncInferenceGymClient, ServeAction; ServeAction()",
        "import inferencegym.cli",
    ],
)
def test_nothing_heavy_is_imported(code: str) -> None:
    assert modules_after(code).isdisjoint({*HEAVY, *UPPER})


def test_the_bare_package_does_not_even_import_httpx() -> None:
    assert modules_after("import inferencegym").isdisjoint({"httpx", "pydantic"})


def test_every_public_name_can_be_imported() -> None:
    for name in inferencegym.__all__:
        assert getattr(inferencegym, name) is not None
    assert set(inferencegym.__all__) <= set(dir(inferencegym))
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = inferencegym.nothing_of_that_name
