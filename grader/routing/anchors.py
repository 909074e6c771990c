"""Floor and optimum of an episode: what scores 0 and 1.

Classic games: exact, by exhaustive search. Streams: the floor is the worst constant action on this very
stream that answers at once (always to wait, where users are kept waiting, is below it); the optimum is a
clairvoyant router that knows the answer of every model to every query, the true carbon of later hours and
which models are dead, and takes the best action query by query. It does not plan ahead (what it puts into
the cache, how it loads the models), so that it is a reference rather than a bound; a score above it is cut
at 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from env.routing.classic import ClassicPlay
from env.routing.episode import make_env
from env.routing.stream import StreamPlay
from grader.routing.search import ALL_ACTIONS, best_action, extremes
from inferencegym.models.routing import Region, RoutingAction, RoutingConfig, Strategy
from simulator.kernels.sums import ordered_sum

__all__ = ["STREAM_ACTIONS", "Anchors", "anchors_of", "clairvoyant_action"]

_REWARD = 21

STREAM_ACTIONS: tuple[RoutingAction, ...] = tuple(
    action for action in ALL_ACTIONS if action.strategy == Strategy.DO_CASCADE or not action.exit_flag
)
"""Actions that differ in effect: the flag counts in cascades only."""


@dataclass(frozen=True, slots=True)
class Anchors:
    """Sums of rewards that score 0 and 1."""

    floor: float
    optimum: float


def clairvoyant_action(play: ClassicPlay | StreamPlay) -> RoutingAction:
    """The best action now: exact in a classic game, for this query alone in a stream."""
    if isinstance(play, ClassicPlay):
        return best_action(play.game, play.state)
    return max(STREAM_ACTIONS, key=lambda action: play.preview(action)[_REWARD])


def anchors_of(task_id: str, seed: int, config: RoutingConfig) -> Anchors:
    """Anchors of one episode, worked out when first asked for."""
    return _anchors(task_id, seed, config.region, config.start_hour)


@lru_cache(maxsize=4096)
def _anchors(task_id: str, seed: int, region: Region | None, start_hour: int | None) -> Anchors:
    config = RoutingConfig(region=region, start_hour=start_hour)
    play = _fresh(task_id, seed, config)
    if isinstance(play, ClassicPlay):
        found = extremes(play.game)
        return Anchors(found.floor, found.optimum)
    at_once = (action for action in STREAM_ACTIONS if action.strategy != Strategy.WAIT)
    floor = min(_constant(task_id, seed, config, action) for action in at_once)
    optimum = ordered_sum(play.play(clairvoyant_action(play))[0] for _ in range(len(play.queries)))
    return Anchors(floor, optimum)


def _constant(task_id: str, seed: int, config: RoutingConfig, action: RoutingAction) -> float:
    play = _fresh(task_id, seed, config)
    return ordered_sum(play.play(action)[0] for _ in range(play.task.episode_length))


def _fresh(task_id: str, seed: int, config: RoutingConfig) -> ClassicPlay | StreamPlay:
    env = make_env(task_id, seed, config.model_dump())
    env.reset()
    assert env.play is not None
    return env.play
