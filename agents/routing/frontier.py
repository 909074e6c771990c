"""``python -m agents.routing.frontier``: what accuracy costs in carbon, as a table and a picture.

Every reference agent is a point: the share of queries answered correctly against g CO₂ a day. The
look-ahead router with another price of carbon gives a line of points, the frontier that it reaches. For
each agent the table also says what the look-ahead router emits at the same accuracy (linear between its
points), and the saving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agents.command_line import plain_errors
from agents.compare.compare import Mean, parse_seeds
from agents.compare.output_files import check_writable, write_file
from agents.compare.report import require_matplotlib, seeds_text
from agents.compare.results import Front, FrontPoint
from agents.registry import get_agent
from agents.routing.lookahead import LookAhead
from env.protocols import Agent
from env.routing.episode import make_env
from env.routing.tasks import get_task
from inferencegym.errors import InvalidValueError
from inferencegym.options import OptionParser
from inferencegym.registry import get_spec

__all__ = ["AGENTS", "PRICES", "Point", "draw", "emission_at", "frontier", "main", "points", "to_front"]

AGENTS = ("random", "baseline", "always_small", "always_large", "always_cache", "heuristic", "lookahead")
PRICES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Factors on the reward's price of carbon, the cleanest last."""


@dataclass(frozen=True, slots=True)
class Point:
    """An agent's mean day."""

    name: str
    accuracy: Mean
    co2_g: Mean
    energy_wh: Mean


def play(name: str, task_id: str, seeds: Sequence[int], agents: Sequence[Agent]) -> Point:
    """Let one agent a seed play its day."""
    days = np.empty((len(seeds), 3))
    for row, (seed, agent) in enumerate(zip(seeds, agents, strict=True)):
        env = make_env(task_id, seed)
        observation = env.reset()
        agent.reset()
        while not env.done:
            observation = env.step(agent.act(observation))[0]
        state = env.state()
        days[row] = state["correct"] / env.task.episode_length, state["co2_g"], state["energy_wh"]
    return Point(name, *(Mean.of(column) for column in days.T))


def points(task_id: str, seeds: Sequence[int], names: Sequence[str] = AGENTS) -> list[Point]:
    """The reference agents."""
    return [
        play(name, task_id, seeds, [get_agent("routing", name, task_id, seed) for seed in seeds])
        for name in names
    ]


def frontier(task_id: str, seeds: Sequence[int], prices: Sequence[float] = PRICES) -> list[Point]:
    """The look-ahead router under several prices of carbon."""
    return [
        play(f"price × {price:g}", task_id, seeds, [LookAhead(task_id, price) for _ in seeds])
        for price in prices
    ]


def emission_at(accuracy: float, line: Sequence[Point]) -> float | None:
    """g CO₂ of the frontier at an accuracy: linear between the points that no other one beats; None above
    them."""
    kept: list[Point] = []
    for point in sorted(line, key=lambda p: (p.co2_g.value, -p.accuracy.value)):
        if not kept or point.accuracy.value > kept[-1].accuracy.value:
            kept.append(point)
    if accuracy > kept[-1].accuracy.value:
        return None
    shares, grams = [p.accuracy.value for p in kept], [p.co2_g.value for p in kept]
    return float(np.interp(accuracy, shares, grams))


def table(task_id: str, seeds: Sequence[int], agents: Sequence[Point], line: Sequence[Point]) -> str:
    """Markdown."""
    rows = [
        f"**{task_id}**, {len(seeds)} days, mean ± half of its 95 % interval",
        "",
        "| agent | accuracy | g CO₂ | Wh | look-ahead at that accuracy | saving |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for point in (*agents, *line):
        at = emission_at(point.accuracy.value, line) if point in agents else None
        reached = "" if at is None else f"{at:.3g} g"
        saving = "" if at is None else f"{1.0 - at / point.co2_g.value:.0%}"
        cells = (_cell(point.accuracy, 3), _cell(point.co2_g, 2), _cell(point.energy_wh, 1), reached, saving)
        rows.append(f"| {point.name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(mean: Mean, digits: int) -> str:
    half = "" if mean.half_width is None else f" ± {mean.half_width:.{digits}f}"
    return f"{mean.value:.{digits}f}{half}"


def to_front(task_id: str, seeds: Sequence[int], agents: Sequence[Point], line: Sequence[Point]) -> Front:
    """As a committed result."""
    spec, chosen = get_spec("routing"), seeds_text(tuple(seeds)).replace(" ", "")
    return Front(
        command=f"python -m agents.routing.frontier --task {task_id} --seeds {chosen}",
        env=spec.id,
        env_version=spec.version,
        seeds=chosen,
        task=task_id,
        cost="carbon of the day (g CO₂)",
        gain="answered correctly (share)",
        line_name="look-ahead, by price of carbon",
        agents=tuple(FrontPoint(name=p.name, cost=p.co2_g, gain=p.accuracy) for p in agents),
        line=tuple(FrontPoint(name=p.name, cost=p.co2_g, gain=p.accuracy) for p in line),
    )


def draw(task_id: str, agents: Sequence[Point], line: Sequence[Point], path: Path) -> None:
    """Accuracy over g CO₂ a day, logarithmic."""
    figure = require_matplotlib()(figsize=(7.0, 4.5), layout="constrained")
    axis = figure.subplots()
    ordered = sorted(line, key=lambda p: p.co2_g.value)
    grams = [p.co2_g.value for p in ordered]
    axis.plot(
        grams, [p.accuracy.value for p in ordered], "o-", color="C0", ms=3, label="look-ahead, by price"
    )
    for point in agents:
        axis.errorbar(
            point.co2_g.value,
            point.accuracy.value,
            xerr=point.co2_g.half_width or 0.0,
            yerr=point.accuracy.half_width or 0.0,
            fmt="s",
            ms=4,
            capsize=2,
            alpha=0.8,
        )
        axis.annotate(
            point.name.replace("_", " "),
            (point.co2_g.value, point.accuracy.value),
            xytext=(5, 5),
            textcoords="offset points",
            fontsize=8,
        )
    axis.set_xscale("log")
    # Room for the name of the dirtiest agent, which stands to the right of its point.
    axis.set_xlim(right=2.5 * max(point.co2_g.value for point in (*agents, *line)))
    axis.set_xlabel("carbon of the day (g CO₂)")
    axis.set_ylabel("answered correctly")
    axis.set_title(f"InferenceGym/Routing-v0 {task_id}: accuracy and carbon, 95 % intervals", fontsize=10)
    axis.grid(alpha=0.3)
    axis.legend(loc="lower left")
    figure.savefig(path, format="png", dpi=120)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = OptionParser(description="Accuracy against carbon: reference agents and a frontier.")
    parser.add_argument("--task", default="stream_2", help="a stream (default stream_2)")
    parser.add_argument("--seeds", default="100-119", help="a range, a list, or a count (default 100-119)")
    parser.add_argument("--png", type=Path, default=None, help="draw the picture into this file")
    parser.add_argument("--json", type=Path, default=None, help="write the points into this file")
    options = parser.parse_args(arguments)
    with plain_errors(parser):
        task = get_task(options.task)
        if task.stream is None:
            raise InvalidValueError("--task", options.task, "a stream: classic games have no unit of carbon")
        seeds = parse_seeds(options.seeds)
        if options.png is not None:
            require_matplotlib()
            check_writable("--png", options.png, ".png")
        if options.json is not None:
            check_writable("--json", options.json)
    agents, line = points(task.info.id, seeds), frontier(task.info.id, seeds)
    print(table(task.info.id, seeds, agents, line))
    if options.json is not None:
        text = to_front(task.info.id, seeds, agents, line).to_json()
        write_file("--json", options.json, lambda path: path.write_text(text, encoding="utf-8"))
    if options.png is not None:
        draw(task.info.id, agents, line, options.png)


if __name__ == "__main__":
    main()
