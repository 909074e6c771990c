"""The Dockerfile: what it declares, and (marked ``image``) what its steps bring about."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.live import free_port, wait_for_health
from tests.packaging.image import Builder, Image, allowed, parse
from tests.packaging.repository import ROOT, files

DOCKERFILE = (ROOT / "Dockerfile").read_text()
DOCKERIGNORE = (ROOT / ".dockerignore").read_text()
SIZE_LIMIT_MB = 900


def context_files() -> list[Path]:
    return [path for path in files() if allowed(path, DOCKERIGNORE)]


def test_compose_has_a_profile_for_working_on_the_code() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assert "profiles" not in services["inferencegym"]
    dev = services["dev"]
    assert dev["profiles"] == ["dev"]
    assert dev["volumes"] == [".:/app:ro"]
    assert dev["command"][:2] == ["uvicorn", "server.app:app"]
    assert "--reload" in dev["command"]
    # Both may run at once: a profile starts what has none too.
    assert not set(dev["ports"]) & set(services["inferencegym"]["ports"])


def test_only_what_the_server_needs_enters_the_build() -> None:
    tops = {path.parts[0] for path in context_files()}
    packages = {"inferencegym", "simulator", "env", "grader", "agents", "server"}
    assert tops == packages | {"requirements.txt", "openenv.yaml", "README.md"}
    assert Path("simulator/data/traces_llama3_8b.parquet") in context_files()


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        ("server/app.py", True),
        ("server/__pycache__/app.cpython-311.pyc", False),
        ("simulator/data/x.pyc", False),
        ("tests/server/operations/test_app.py", False),
        (".git/config", False),
        (".env", False),
        ("servers/x.py", False),
    ],
)
def test_the_ignore_file_is_a_list_of_what_is_allowed(path: str, verdict: bool) -> None:
    assert allowed(Path(path), DOCKERIGNORE) is verdict


def test_every_copied_path_is_in_the_build() -> None:
    tops = {path.parts[0] for path in context_files()}
    copied: set[str] = set()
    for step in parse(DOCKERFILE):
        if step.name == "COPY" and "--from" not in step.text:
            copied |= set(step.text.split()[:-1])
    assert copied == tops


def test_the_image_is_small_multi_stage_and_not_root() -> None:
    steps = parse(DOCKERFILE)
    bases = [step.text.split()[0] for step in steps if step.name == "FROM"]
    assert bases == ["python:3.11-slim"] * 2
    assert [step.text for step in steps if step.name == "USER"] == ["1000:1000"]
    assert [step.text for step in steps if step.name == "EXPOSE"] == ["7860"]
    assert not [step for step in steps if step.name == "RUN" and "apt" in step.text]
    assert "/health" in next(step.text for step in steps if step.name == "HEALTHCHECK")


def test_compose_starts_this_image_on_its_port() -> None:
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["inferencegym"]
    assert service["build"] == "."
    assert service["ports"] == ["7860:7860"]


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    # Not under pytest's own folder: that one is closed to other users, and the server runs as one.
    work = Path(tempfile.mkdtemp(prefix="image-"))
    try:
        work.chmod(0o755)
        context = work / "context"
        for path in context_files():
            (context / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, context / path)
        yield Builder(context, work).build(DOCKERFILE)
    finally:
        shutil.rmtree(work)


def as_image_user(image: Image) -> dict[str, int]:
    """The user to run as, where this process may change it and that user may run this Python."""
    uid, gid = (int(part) for part in image.user.split(":"))
    if os.geteuid() != 0:
        return {}
    python = image.root / "opt/venv/bin/python"
    try:
        subprocess.run([python, "-c", ""], check=True, user=uid, group=gid, extra_groups=[], cwd="/")
    except (OSError, subprocess.CalledProcessError):
        return {}
    return {"user": uid, "group": gid}


def snapshot(image: Image) -> set[tuple[str, int]]:
    """Files of the application with their sizes: the image's user may not change them."""
    app = image.path(".")
    return {(str(path.relative_to(app)), path.stat().st_size) for path in app.rglob("*") if path.is_file()}


@pytest.mark.image
def test_its_steps_give_a_server_that_plays(image: Image, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    env = {**image.process_env(), "PORT": str(port), "INFERENCEGYM_LOG_LEVEL": "WARNING"}
    who = as_image_user(image)
    before = snapshot(image)
    server = subprocess.Popen(
        image.command, cwd=image.path("."), env=env, extra_groups=[] if who else None, **who
    )
    url = f"http://127.0.0.1:{port}"
    try:
        assert wait_for_health(url, server).json()["status"] == "healthy"
        check = subprocess.run(image.health_command, cwd=image.path("."), env=env, check=False)
        assert check.returncode == 0
        session = httpx.post(f"{url}/reset", json={"task_id": "task1", "seed": 0}).json()["session_id"]
        step = httpx.post(f"{url}/step", json={"session_id": session, "action": {"batch_size": 64}})
        assert step.status_code == 200
        assert -1 <= step.json()["reward"] <= 1
    finally:
        server.terminate()
        server.wait(30)
    assert snapshot(image) == before, "the server wrote into the image"
    size = image.size_mb()
    with capsys.disabled():
        print(f"\ninstalled size above the base image: {size:.0f} MB, run as {who or 'this user'}")
    assert size < SIZE_LIMIT_MB
