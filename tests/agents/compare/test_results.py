"""The committed results say what docs/environments says, and playing gives them again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.compare.report import header_of, row_of, rows_of
from agents.compare.results import FOLDER, Curve, Front, Scores, curve_of, front_of, scores_of
from agents.ppo.policy import Policy
from inferencegym.cli import main
from inferencegym.errors import UnknownNameError
from inferencegym.registry import get_spec
from tests.live import ROOT

ENVIRONMENTS = ("serving", "autoscaling", "market", "routing")

Table = dict[str, dict[str, str]]
"""Cells by agent and column."""


def chapter(env: str) -> str:
    """An environment's chapter."""
    return (ROOT / "docs" / "environments" / f"{env}.md").read_text(encoding="utf-8")


def tables(env: str) -> Iterator[tuple[str, Table]]:
    """The score tables of a chapter: task and cells."""
    found = re.finditer(r"^\*\*(\w+)\*\*\n\n((?:\|.*\n)+)", chapter(env), re.MULTILINE)
    for task, text in (match.groups() for match in found):
        header, _, *rows = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines()]
        yield task, {row[0].strip("`"): dict(zip(header[1:], row[1:], strict=True)) for row in rows}


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_every_cell_of_the_tables_is_the_committed_one(env: str) -> None:
    scores = scores_of(env)
    assert scores
    comparison = scores.comparison()
    written = dict(tables(env))
    assert set(written) == set(comparison.tasks)
    for task, table in written.items():
        rows = rows_of(comparison, task)
        columns = header_of(comparison, rows)[1:]
        for row in rows:
            cells = dict(zip(columns, row_of(comparison, rows, row)[1:], strict=True))
            # A table may leave columns out that tell nothing.
            assert {name: cells[name] for name in table[row.agent]} == table[row.agent]
            assert list(table[row.agent])[:3] == ["score", "− baseline", "episode reward"]
        assert set(table) == {row.agent for row in rows}


def test_the_chapters_name_the_seeds() -> None:
    for env in ENVIRONMENTS:
        scores = scores_of(env)
        assert scores
        assert f"--seeds {scores.seeds} --markdown" in chapter(env)


def test_the_frontier_is_the_committed_one() -> None:
    front = front_of("routing", "stream_2")
    assert front
    row = re.compile(r"^\| ([^|`]+) \| (0\.\d+ ± [\d.]+) \| ([\d.]+ ± [\d.]+) \| [\d.]+ ±", re.MULTILINE)
    rows = row.findall(chapter("routing"))
    assert rows == [
        (
            point.name,
            f"{point.gain.value:.3f} ± {point.gain.half_width:.3f}",
            f"{point.cost.value:.2f} ± {point.cost.half_width:.2f}",
        )
        for point in (*front.agents, *front.line)
    ]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*_curve.json")), ids=lambda path: path.stem)
def test_a_curve_is_that_of_the_policy_that_plays(path: Path) -> None:
    curve = Curve.read(path)
    assert curve
    policy = Policy.load(FOLDER.parent / f"ppo_{path.stem.removesuffix('_curve')}.npz")
    assert curve.policy == policy.fingerprint
    assert curve.settings == policy.settings
    steps = [at for at, _ in curve.points]
    assert steps == sorted(steps)
    assert steps[0] == 0
    assert steps[-1] >= policy.settings["steps"]
    assert curve.episodes == policy.settings["held_out"]


def test_a_curve_ends_and_its_lines_lie_at_the_scores_of_the_table() -> None:
    """Where both are taken over the same seeds."""
    for task in ("task1", "task2", "task3"):
        curve, scores = curve_of("serving", task), scores_of("serving")
        assert curve
        assert scores
        assert curve.seeds == scores.seeds
        reached = {row.agent: row.score for row in scores.rows if row.task == task}
        assert curve.points[-1][1].value == pytest.approx(reached["ppo"].value, abs=1e-9)
        for line in curve.lines:
            assert line.score.value == pytest.approx(reached[line.agent].value, abs=1e-9)


def test_playing_gives_the_committed_rows_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "scores.json"
    words = f"compare --env routing --agents always_small --tasks task_1 --seeds 100-199 -q --summary {path}"
    monkeypatch.setattr("sys.argv", ["inferencegym", *words.split(), "--workers", "1"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    played, committed = Scores.read(path), scores_of("routing")
    assert played
    assert committed
    rows = {(row.task, row.agent): row for row in committed.rows}
    assert len(played.rows) == 2
    for row in played.rows:
        assert row == rows[row.task, row.agent]
    assert played.command == (
        "inferencegym compare --env routing --agents baseline,always_small --tasks task_1 --seeds 100-199"
    )


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_file_is_what_its_reader_writes(path: Path) -> None:
    kinds: dict[str, Any] = {"scores": Scores, "curve": Curve, "front": Front}
    read = kinds[path.stem.rpartition("_")[2]].read(path)
    assert read.to_json() == path.read_text(encoding="utf-8")
    spec = get_spec(read.env)
    assert read.env_version == spec.version
    assert path.name.startswith(spec.name)
    assert "--seeds" in read.command or path.stem.endswith("_curve")


def test_what_has_no_result_has_none() -> None:
    assert curve_of("serving", "no_such_task") is None
    assert front_of("serving", "task1") is None
    with pytest.raises(UnknownNameError):
        scores_of("no_such_environment")
