"""What the command-line tool prints. Results go to standard output, progress to standard error."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from inferencegym.cli.play import PlayedEpisode
from inferencegym.registry import EnvSpec
from inferencegym.replies import Grade

__all__ = ["counting", "print_json", "progress", "show_episode", "show_grade", "show_tasks"]


def print_json(document: Any) -> None:
    """Plain JSON, whatever the terminal."""
    print(json.dumps(document, indent=2))  # noqa: T201


@contextmanager
def progress(enabled: bool) -> Generator[Callable[[int, int, float], None]]:
    """A progress bar of steps with the reward so far; shown on a terminal only."""
    console = Console(stderr=True)
    columns = (
        TextColumn("playing"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("reward {task.fields[reward]:.2f}"),
        TimeElapsedColumn(),
    )
    shown = enabled and console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task("playing", total=None, reward=0.0)
        yield lambda done, total, reward: bar.update(task, completed=done, total=total, reward=reward)


@contextmanager
def counting(label: str, total: int, enabled: bool = True) -> Generator[Callable[[], None]]:
    """A bar that moves by one with each call; shown on a terminal only."""
    console = Console(stderr=True)
    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown = enabled and console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)


def show_tasks(specs: Iterable[EnvSpec], as_json: bool) -> None:
    """Tasks and agents of each environment."""
    if as_json:
        print_json({spec.id: _tasks_document(spec) for spec in specs})
        return
    console = Console()
    for spec in specs:
        table = Table(title=spec.id, title_justify="left", box=SIMPLE_HEAD)
        # Ids and fields are to be typed: they stand there whole, whatever the width.
        tasks = spec.part("tasks").values()
        table.add_column("task", no_wrap=True, min_width=max(len(task.id) for task in tasks))
        table.add_column("difficulty")
        table.add_column("name")
        fields = [f"{name}," for task in tasks for name in task.active_actions]
        table.add_column("actions", min_width=max(map(len, fields)))
        table.add_column("steps")
        for task in tasks:
            actions = ", ".join(task.active_actions)
            table.add_row(task.id, task.difficulty, task.name, actions, str(task.episode_length))
        console.print(table)
        console.print(f"agents: {', '.join(spec.part('agents'))}\n", soft_wrap=True)


def _tasks_document(spec: EnvSpec) -> dict[str, Any]:
    fields = ("id", "name", "difficulty", "description", "active_actions", "episode_length", "aliases")
    tasks = [{name: getattr(task, name) for name in fields} for task in spec.part("tasks").values()]
    return {"tasks": tasks, "agents": list(spec.part("agents"))}


def show_episode(episode: PlayedEpisode, as_json: bool) -> None:
    """Score and breakdown of an episode just played."""
    if as_json:
        played = {
            name: getattr(episode, name) for name in ("env", "task_id", "seed", "agent", "total_reward")
        }
        print_json({**played, **episode.grade.model_dump(), "agent_report": asdict(episode.report)})
        return
    console = Console()
    console.print(
        f"{episode.env} [bold]{episode.task_id}[/] seed {episode.seed}: agent [bold]{episode.agent}[/], "
        f"{len(episode.log)} steps, total reward {episode.total_reward:.3f}",
        soft_wrap=True,
    )
    _show_grade(console, episode.grade)
    if episode.report.note:
        console.print(f"{episode.agent}: {episode.report.note}", style="yellow", soft_wrap=True, markup=False)


def show_grade(grade: Grade, as_json: bool) -> None:
    """Score and breakdown of a saved episode."""
    if as_json:
        print_json(grade.model_dump())
    else:
        _show_grade(Console(), grade)


def _show_grade(console: Console, grade: Grade) -> None:
    table = Table("part", "value", show_header=False, box=None)
    table.add_row("[bold]score[/]", f"[bold]{grade.score:.4f}[/]")
    for name, value in grade.breakdown.items():
        table.add_row(name, f"{value:.4f}")
    for name, value in grade.figures.items():
        table.add_row(name, f"{value:.4g}")
    if grade.passed is not None:
        table.add_row("passed", "yes" if grade.passed else "no")
    table.add_row("verified", "yes" if grade.verified else "no (a log as it was given)")
    console.print(table)
    console.print(grade.feedback, style="dim", soft_wrap=True)
