"""The exhaustive search against brute force, and the published table."""

from __future__ import annotations

from itertools import product

import pytest

from env.routing.tasks import TASKS
from grader.routing.search import ALL_ACTIONS, extremes, play, table
from simulator.routing.classic_games import CLASSIC_GAMES
from tests.live import ROOT

GAMES = [(task, index) for task, games in CLASSIC_GAMES.items() for index in range(len(games))]


def test_the_action_space_is_whole() -> None:
    assert len(ALL_ACTIONS) == 36
    assert len(set(ALL_ACTIONS)) == 36


@pytest.mark.parametrize("task_id", ["task_1", "task_2"])
def test_brute_force_finds_the_same(task_id: str) -> None:
    """Every sequence of actions of the first game of each task: 36, and a stride of 46,656."""
    game = CLASSIC_GAMES[task_id][0]
    sequences = product(ALL_ACTIONS, repeat=len(game.queries))
    totals = [play(game, sequence) for sequence in sequences]
    found = extremes(game)
    assert found.optimum == pytest.approx(max(totals), abs=1e-12)
    assert found.floor == pytest.approx(min(totals), abs=1e-12)


@pytest.mark.parametrize(("task_id", "index"), GAMES)
def test_the_published_extremes_are_reached_by_playing(task_id: str, index: int) -> None:
    game = CLASSIC_GAMES[task_id][index]
    found = extremes(game)
    assert play(game, found.best) == pytest.approx(found.optimum, abs=1e-12)
    assert play(game, found.worst) == pytest.approx(found.floor, abs=1e-12)


@pytest.mark.parametrize(("task_id", "index"), GAMES)
def test_the_success_line_lies_below_the_optimum_and_far_above_the_floor(task_id: str, index: int) -> None:
    found = extremes(CLASSIC_GAMES[task_id][index])
    line = found.floor + TASKS[task_id].facts["success_score"] * (found.optimum - found.floor)
    assert found.optimum - line > 0.1
    assert line - found.floor > 0.5
    assert found.floor < 0.0 < found.optimum


def test_the_table_of_the_documentation_is_the_commands() -> None:
    assert table() in (ROOT / "docs" / "environments" / "routing.md").read_text(encoding="utf-8")
