"""Exact optimum and floor of the classic routing tasks, by exhaustive search.

``python -m grader.routing.search`` prints the table of docs/environments/routing.md: every game of every
task, with the
largest and the smallest sum of rewards that any sequence of actions reaches. All 36 actions are tried at
every reachable state; states that agree in everything the future depends on are searched once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product

from inferencegym.models.routing import ModelChoice, RoutingAction, Strategy
from simulator.routing.classic import ClassicGame, ClassicState, after, decide
from simulator.routing.classic_games import CLASSIC_GAMES

__all__ = ["ALL_ACTIONS", "Extremes", "best_action", "extremes", "play", "start_of"]

ALL_ACTIONS: tuple[RoutingAction, ...] = tuple(
    RoutingAction(strategy=strategy, model_choice=model, exit_flag=flag)
    for strategy, model, flag in product(Strategy, ModelChoice, (False, True))
)
"""The whole action space. Of equally good actions the first counts."""

Pick = Callable[[float, float], bool]


@dataclass(frozen=True, slots=True)
class Extremes:
    """The largest and the smallest sum of rewards, each with actions that reach it."""

    optimum: float
    floor: float
    best: tuple[RoutingAction, ...]
    worst: tuple[RoutingAction, ...]


def start_of(game: ClassicGame) -> ClassicState:
    """The state before the first query."""
    return ClassicState(0, 0, game.cached)


@cache
def extremes(game: ClassicGame) -> Extremes:
    """Search a game exhaustively."""
    start = start_of(game)
    optimum, best = _search(game, start, _better)
    floor, worst = _search(game, start, _worse)
    return Extremes(optimum, floor, best, worst)


def best_action(game: ClassicGame, state: ClassicState) -> RoutingAction:
    """The first action of an optimal continuation."""
    return _search(game, state, _better)[1][0]


def play(game: ClassicGame, actions: tuple[RoutingAction, ...]) -> float:
    """Sum of rewards of a sequence of actions, as long as the game or shorter."""
    state, total = start_of(game), 0.0
    for action in actions:
        outcome = decide(game, state, action)
        state, total = after(game, state, action, outcome), total + outcome.reward
    return total


def _better(one: float, two: float) -> bool:
    return one > two + 1e-12


def _worse(one: float, two: float) -> bool:
    return one < two - 1e-12


@cache
def _search(game: ClassicGame, state: ClassicState, beats: Pick) -> tuple[float, tuple[RoutingAction, ...]]:
    if state.position == len(game.queries):
        return 0.0, ()
    found: tuple[float, tuple[RoutingAction, ...]] | None = None
    for action in ALL_ACTIONS:
        outcome = decide(game, state, action)
        value, rest = _search(game, after(game, state, action, outcome), beats)
        total = outcome.reward + value
        if found is None or beats(total, found[0]):
            found = total, (action, *rest)
    assert found is not None
    return found


def describe(action: RoutingAction) -> str:
    """Short text: ``NONE SMALL``."""
    if action.strategy in (Strategy.USE_CACHE, Strategy.CALL_KB):
        return action.strategy.name
    flag = " exit" if action.exit_flag and action.strategy == Strategy.DO_CASCADE else ""
    return f"{action.strategy.name} {action.model_choice.name}{flag}"


def table() -> str:
    """Markdown: one row a game."""
    lines = ["| task | seed mod | optimum | floor | an optimal sequence |", "|---|--:|--:|--:|---|"]
    for task, games in CLASSIC_GAMES.items():
        for index, game in enumerate(games):
            found = extremes(game)
            sequence = ", ".join(describe(action) for action in found.best)
            extent = f"{found.optimum:.3f} | {found.floor:.3f}"
            lines.append(f"| `{task}` | {index} of {len(games)} | {extent} | {sequence} |")
    return "\n".join(lines).replace("-", "−").replace("|−−−|−−:|−−:|−−:|−−−|", "|---|--:|--:|--:|---|")


if __name__ == "__main__":
    print(table())
