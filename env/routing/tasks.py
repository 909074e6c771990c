"""The tasks of InferenceGym/Routing-v0: three classic ones and three streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from env.protocols import TaskInfo, TaskName, task_named
from inferencegym.models.routing import REGIONS, RoutingAction
from simulator.routing.classic import ClassicGame
from simulator.routing.classic_games import CLASSIC_GAMES
from simulator.routing.stream import StreamConfig

__all__ = ["SUCCESS_SCORE", "TASKS", "RoutingTask", "get_task"]

SUCCESS_SCORE = {
    "task_1": 0.8,
    "task_2": 0.9,
    "task_3": 0.8,
    "stream_1": 0.92,
    "stream_2": 0.88,
    "stream_3": 0.9,
}
"""The success line of each task, as a share of the way from its floor to its optimum: above every constant
action, and reached by the look-ahead router."""

_ALL_FIELDS = tuple(RoutingAction.model_fields)


@dataclass(frozen=True, slots=True)
class RoutingTask:
    """A task: its public description, and either its games or its kind of stream."""

    info: TaskInfo
    games: tuple[ClassicGame, ...] = ()
    stream: StreamConfig | None = None


def _info(
    task_id: str,
    name: str,
    difficulty: Literal["easy", "medium", "hard"],
    description: str,
    length: int,
    aliases: tuple[str, ...],
    **facts: Any,
) -> TaskInfo:
    facts = {"success_score": SUCCESS_SCORE[task_id], **facts}
    return TaskInfo(task_id, name, difficulty, description, _ALL_FIELDS, length, aliases, facts)


def _classic(
    task_id: str,
    name: str,
    difficulty: Literal["easy", "medium", "hard"],
    description: str,
    aliases: tuple[str, ...],
) -> RoutingTask:
    games = CLASSIC_GAMES[task_id]
    facts = {"kind": "classic", "games": len(games)}
    info = _info(task_id, name, difficulty, description, len(games[0].queries), aliases, **facts)
    return RoutingTask(info, games=games)


def _stream(
    task_id: str,
    name: str,
    difficulty: Literal["easy", "medium", "hard"],
    description: str,
    aliases: tuple[str, ...],
    config: StreamConfig,
) -> RoutingTask:
    facts = {"kind": "stream", "regions": list(config.regions), "cache_capacity": config.cache_capacity}
    info = _info(task_id, name, difficulty, description, config.queries, aliases, **facts)
    return RoutingTask(info, stream=config)


_ROUTING_TASKS = {
    task.info.id: task
    for task in (
        _classic(
            "task_1",
            "One query",
            "easy",
            "One query, whose text says how hard it is. Answer it with as little carbon and time as you can.",
            ("1", "task1", "one_query", "classic_1"),
        ),
        _classic(
            "task_2",
            "Large-model overuse",
            "medium",
            "Three queries; each use of the large model costs extra. Find out where it is needed.",
            ("2", "task2", "overuse", "classic_2"),
        ),
        _classic(
            "task_3",
            "Cache, knowledge base and waiting",
            "hard",
            "Five queries with repeats, a cache that remembers correct answers, a knowledge base, and carbon "
            "that rises and falls: use each where it pays.",
            ("3", "task3", "repeats", "classic_3"),
        ),
        _stream(
            "stream_1",
            "Support desk",
            "easy",
            "A day of 300 queries in London, the same questions over and over, a person waiting for each "
            "answer. Choose between cache, knowledge base and three models.",
            ("support", "support_desk", "real_1"),
            StreamConfig(
                ("London",), (4.0, 4.0, 0.5, 0.5, 0.5, 1.0), topics=90, zipf=1.1, changing_share=0.1
            ),
        ),
        _stream(
            "stream_2",
            "Mixed fleet",
            "medium",
            "A day of 300 queries of six categories in one of four regions. A third are long jobs that may "
            "wait hours for cleaner electricity; the forecast errs.",
            ("mixed", "mixed_fleet", "real_2"),
            StreamConfig(
                ("London", "Frankfurt", "N. Virginia", "Iowa"),
                (1.0, 1.5, 1.0, 1.0, 1.0, 1.0),
                held_share=0.35,
                changing_share=0.15,
                kb_refresh_h=8.0,
                outages=0.3,
            ),
        ),
        _stream(
            "stream_3",
            "Rough day",
            "hard",
            "A day of 400 queries anywhere from Stockholm to Mumbai. Models die and time out, crowds arrive, "
            "answers go out of date, the cache is small.",
            ("rough", "rough_day", "real_3"),
            StreamConfig(
                REGIONS,
                (1.0, 1.5, 1.0, 1.0, 1.0, 1.0),
                queries=400,
                topics=160,
                held_share=0.3,
                changing_share=0.35,
                kb_refresh_h=12.0,
                outages=1.5,
                crowd=True,
                cache_capacity=32,
                estimate_sigma=0.2,
            ),
        ),
    )
}

TASKS: dict[str, TaskInfo] = {task_id: task.info for task_id, task in _ROUTING_TASKS.items()}
"""Tasks by id: the classic ones, easiest first, then the streams, easiest first."""


def get_task(task_id: TaskName) -> RoutingTask:
    """A task by id or alias. Raises UnknownNameError with near matches."""
    return _ROUTING_TASKS[task_named(TASKS, task_id).id]
