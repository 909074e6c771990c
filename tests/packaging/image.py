"""Performs a Dockerfile's steps in folders instead of containers.

Each stage is a folder that stands for the image's root: absolute paths in RUN, ENV and COPY are moved into
it. What it cannot show is the base image; what it does show is that the files which .dockerignore lets
through, the RUN lines and the CMD are enough for the server to start.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

IMAGE_FOLDERS = re.compile(r"(?<![\w.:/-])/(opt|app|build|tmp)\b")
"""Absolute paths of the image that the Dockerfile may name."""


CAPTURED: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}


@dataclass(frozen=True)
class Instruction:
    """One instruction; ``text`` is all that follows its name."""

    name: str
    text: str


def parse(dockerfile: str) -> list[Instruction]:
    """Instructions in order, with continuation lines joined and comments left out."""
    lines = [line for line in dockerfile.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    split = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [Instruction(name.upper(), text) for name, text in split]


def allowed(path: Path, dockerignore: str) -> bool:
    """Whether .dockerignore lets a file into the build: the last pattern that matches decides."""
    verdict = True
    for raw in dockerignore.splitlines():
        pattern = raw.strip()
        if pattern and not pattern.startswith("#") and _matches(path, pattern.removeprefix("!")):
            verdict = pattern.startswith("!")
    return verdict


def _matches(path: Path, pattern: str) -> bool:
    """A pattern matches a path or any folder above it; ``*`` stays inside a name, ``**/`` is any depth."""
    expression = "".join(
        {"**/": "(?:.*/)?", "*": "[^/]*"}.get(part, re.escape(part))
        for part in re.split(r"(\*\*/|\*)", pattern.strip("/"))
    )
    names = [path, *path.parents][:-1]
    return any(re.fullmatch(expression, name.as_posix()) for name in names)


@dataclass
class Image:
    """The last stage, built: a folder, an environment and the commands."""

    root: Path
    cwd: str = "/"
    env: dict[str, str] = field(default_factory=dict)
    user: str = "0"
    command: list[str] = field(default_factory=list)
    health_command: list[str] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)

    def inside(self, text: str) -> str:
        """Move the absolute paths of the image into this stage's folder."""
        return IMAGE_FOLDERS.sub(lambda match: f"{self.root}{match[0]}", text)

    def path(self, name: str) -> Path:
        """A path of the image, relative ones from the working directory."""
        return self.root / os.path.join(self.cwd, name).lstrip("/")  # noqa: PTH118

    def process_env(self) -> dict[str, str]:
        """The environment of a command: the image's own, and what this machine needs to reach packages."""
        machine = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        path = self.env.get("PATH", "$PATH").replace("$PATH", "/usr/bin:/bin")
        return {**machine, **{k: self.inside(v) for k, v in self.env.items()}, "PATH": self.inside(path)}

    def size_mb(self) -> float:
        """Megabytes (10**6 bytes) of all files above the base image."""
        return sum(p.stat().st_size for p in self.root.rglob("*") if p.is_file() and not p.is_symlink()) / 1e6


class Builder:
    """Builds the stages of a Dockerfile under ``work`` from the files in ``context``."""

    def __init__(self, context: Path, work: Path) -> None:
        self.context = context
        self.work = work
        self.stages: dict[str, Image] = {}
        self.bases: list[str] = []
        self.image = Image(work)

    def build(self, dockerfile: str) -> Image:
        for step in parse(dockerfile):
            getattr(self, f"_{step.name.lower()}")(step.text)
        return self.image

    def _from(self, text: str) -> None:
        base, _, name = text.partition(" AS ")
        self.bases.append(base)
        self.image = Image(self.work / f"stage{len(self.bases)}")
        (self.image.root / "tmp").mkdir(parents=True)
        (self.image.root / "tmp").chmod(0o1777)
        self.stages[name] = self.image

    def _workdir(self, text: str) -> None:
        self.image.cwd = text
        self.image.path(".").mkdir(parents=True, exist_ok=True)

    def _copy(self, text: str) -> None:
        words = text.split()
        flags = [word for word in words if word.startswith("--")]
        *sources, target = [word for word in words if not word.startswith("--")]
        stage = next((flag.removeprefix("--from=") for flag in flags if flag.startswith("--from=")), None)
        for source in sources:
            there = self.image.path(target)
            origin = self.context / source if stage is None else self.stages[stage].path(source)
            if stage is not None:  # the earlier stage is not used again: moving saves a copy of everything
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(origin, there)
            elif origin.is_dir():
                shutil.copytree(origin, there, dirs_exist_ok=True)
            else:
                shutil.copy(origin, there / origin.name if target.endswith("/") else there)

    def _run(self, text: str) -> None:
        env = self.image.process_env()
        bin_folder = self.work / "bin"
        if not bin_folder.exists():
            bin_folder.mkdir()
            (bin_folder / "python").symlink_to(getattr(sys, "_base_executable", sys.executable))
        env["PATH"] = f"{env['PATH']}:{bin_folder}"
        done = subprocess.run(
            self.image.inside(text), shell=True, cwd=self.image.path("."), env=env, **CAPTURED, check=False
        )
        assert done.returncode == 0, f"RUN {text}\n{done.stdout[-4000:]}"

    def _env(self, text: str) -> None:
        self.image.env.update(word.split("=", 1) for word in text.split())

    def _user(self, text: str) -> None:
        self.image.user = text

    def _expose(self, text: str) -> None:
        self.image.ports = [int(port) for port in text.split()]

    def _label(self, text: str) -> None:
        assert "=" in text

    def _healthcheck(self, text: str) -> None:
        self.image.health_command = json.loads(text.partition("CMD ")[2])

    def _cmd(self, text: str) -> None:
        self.image.command = json.loads(text)
