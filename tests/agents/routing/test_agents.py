"""The reference routers: who beats whom, and that region and hour change what they do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from agents.compare.compare import Mean
from agents.compare.results import Front
from agents.registry import get_agent, rule_name
from agents.routing.agents import AGENTS, Constant
from agents.routing.frontier import PRICES, Point, emission_at, frontier, main, points
from agents.routing.lookahead import LookAhead, chance_below
from agents.studies.routing_waiting import gains
from agents.studies.routing_waiting import main as waiting_main
from env.protocols import Agent
from env.routing.episode import make_env
from env.routing.stream import StreamPlay
from env.routing.tasks import TASKS
from grader.routing.anchors import anchors_of, clairvoyant_action
from grader.routing.grader import score_of
from inferencegym.errors import UnknownNameError
from inferencegym.models.routing import PerModel, RoutingAction, RoutingConfig, Strategy
from simulator.routing.classic_games import CLASSIC_GAMES
from simulator.routing.kernel import Query
from tests.env.routing.episodes import CLASSIC, STREAMS

LOCAL = (
    "random",
    "baseline",
    "always_small",
    "always_large",
    "always_cache",
    "heuristic",
    "lookahead",
    "optimal",
)


def play(agent: Agent, task_id: str, seed: int, **config: object) -> tuple[float, Counter[str]]:
    """Score and how often each strategy and model was chosen."""
    env = make_env(task_id, seed, config)
    observation = env.reset()
    agent.reset()
    total, chosen = 0.0, Counter[str]()
    while not env.done:
        action = agent.act(observation)
        chosen[f"{action.strategy.name} {action.model_choice.name}"] += 1
        observation, reward, _, _ = env.step(action)
        total += reward
    length = env.task.episode_length
    return score_of(total, length, length, anchors_of(task_id, seed, RoutingConfig(**config))), chosen  # type: ignore[arg-type]


def scores(name: str, task_id: str, seeds: range) -> np.ndarray:
    return np.array([play(get_agent("routing", name, task_id, s), task_id, s)[0] for s in seeds])


def test_the_registry_knows_them() -> None:
    assert set(AGENTS) == {*LOCAL, "ppo", "llm"}
    assert rule_name("routing") == "heuristic"
    for name in LOCAL:
        with pytest.raises(UnknownNameError):
            AGENTS[name]("task_9", 0)


@pytest.mark.parametrize("task_id", CLASSIC)
def test_on_classic_games_knowing_all_is_optimal_and_rules_pass_the_line(task_id: str) -> None:
    games = range(len(CLASSIC_GAMES[task_id]))
    line = TASKS[task_id].facts["success_score"]
    assert scores("optimal", task_id, games) == pytest.approx(1.0)
    assert scores("lookahead", task_id, games).min() > line
    assert scores("heuristic", task_id, games).mean() > line
    for name in ("random", "baseline", "always_small", "always_large", "always_cache"):
        assert scores(name, task_id, games).mean() < line


@pytest.mark.parametrize("task_id", STREAMS)
def test_streams_are_won_by_looking_ahead(task_id: str) -> None:
    """random < heuristic < look-ahead < clairvoyant, the cache for everything in between; paired by day."""
    seeds = range(300, 306)
    found = {
        name: scores(name, task_id, seeds)
        for name in LOCAL
        if name != "baseline" and not name.startswith("always_l")
    }
    for worse, better in (
        ("random", "heuristic"),
        ("always_small", "heuristic"),
        ("always_cache", "lookahead"),
        ("heuristic", "lookahead"),
        ("lookahead", "optimal"),
    ):
        assert (found[better] - found[worse]).mean() > 0.01, (worse, better)
    assert found["optimal"] == pytest.approx(1.0)


def test_the_region_changes_decisions() -> None:
    """Clean power pays for larger models."""
    chosen = {r: play(LookAhead("stream_3"), "stream_3", 1, region=r)[1] for r in ("Stockholm", "Mumbai")}
    small = {r: sum(n for name, n in c.items() if name.endswith("SMALL")) for r, c in chosen.items()}
    large = {r: sum(n for name, n in c.items() if name.endswith("LARGE")) for r, c in chosen.items()}
    assert small["Mumbai"] > small["Stockholm"] + 20
    assert large["Stockholm"] > large["Mumbai"]


def test_the_hour_changes_decisions() -> None:
    """The same query under the load and the carbon of another hour."""
    agent = LookAhead("stream_2")
    seen = (
        make_env("stream_2", 1)
        .reset()
        .model_copy(
            update={"category": "maths", "difficulty_estimate": 0.9, "deadline_h": 8.0, "wait_h": 3.0}
        )
    )
    quiet, busy = PerModel(small=0.1, medium=0.1, large=0.1), PerModel(small=0.5, medium=0.6, large=0.9)
    choices = {
        agent.act(
            seen.model_copy(update={"model_load": load, "carbon_intensity": now, "carbon_if_wait": later})
        )
        for load, now, later in ((quiet, 300.0, 310.0), (busy, 300.0, 310.0), (busy, 300.0, 100.0))
    }
    assert len(choices) >= 2
    assert Strategy.WAIT in {choice.strategy for choice in choices}
    assert agent.act(seen.model_copy(update={"carbon_if_wait": 900.0})).strategy != Strategy.WAIT
    days = [moves("stream_2", start_hour=hour) for hour in (0, 12)]
    assert sum(one != two for one, two in zip(*days, strict=True)) > 10


def moves(task_id: str, **config: object) -> list[RoutingAction]:
    """What the look-ahead router does on a day of seed 1."""
    env, agent = make_env(task_id, 1, config), LookAhead(task_id)
    observation, made = env.reset(), []
    while not env.done:
        made.append(agent.act(observation))
        observation = env.step(made[-1])[0]
    return made


def test_waiting_is_for_those_who_can() -> None:
    chosen = play(LookAhead("stream_2"), "stream_2", 2, region="Iowa")[1]
    assert sum(count for name, count in chosen.items() if name.startswith("WAIT")) > 5
    chosen = play(LookAhead("stream_1"), "stream_1", 2)[1]
    assert not any(name.startswith("WAIT") for name in chosen)


def test_waiting_for_cleaner_hours_pays_where_queries_can() -> None:
    """The same router with and without WAIT, paired by day: more reward and less carbon, beyond chance."""
    reward, co2_g, _ = gains("lookahead", "stream_2", range(100, 140))
    assert reward.value - (reward.half_width or 0.0) > 0.0
    assert co2_g.value + (co2_g.half_width or 0.0) < 0.0


def test_the_waiting_command(capsys: pytest.CaptureFixture[str]) -> None:
    waiting_main(["--seeds", "300-301"])
    shown = capsys.readouterr().out
    assert shown.count("| stream_") == 4
    assert "`lookahead`" in shown


@pytest.mark.parametrize("task_id", STREAMS)
def test_who_knows_everything_keeps_nobody_waiting(task_id: str) -> None:
    waits = 0
    for seed in range(100, 105):
        env = make_env(task_id, seed)
        env.reset()
        assert isinstance(env.play, StreamPlay)
        for query in env.play.queries:
            action = clairvoyant_action(env.play)
            waits += action.strategy == Strategy.WAIT
            assert query[Query.DEADLINE_H] > 0.0 or action.strategy != Strategy.WAIT
            env.play.play(action)
    assert (waits > 0) == (task_id != "stream_1")


def test_agents_are_reproducible() -> None:
    for name in ("random", "lookahead"):
        agent = get_agent("routing", name, "stream_1", 4)
        assert play(agent, "stream_1", 4) == play(agent, "stream_1", 4)


def test_the_chance_of_a_rank() -> None:
    rng = np.random.default_rng(0)
    rank = rng.random(400_000)
    seen = rank + rng.normal(0.0, 0.15, rank.size)
    for estimate in (0.1, 0.5, 0.9):
        near = np.abs(seen - estimate) < 0.01
        assert chance_below(0.7, estimate, 0.15) == pytest.approx((rank[near] < 0.7).mean(), abs=0.02)


def test_a_dearer_carbon_emits_less_and_answers_less() -> None:
    line = frontier("stream_2", range(300, 303), (0.0, 1.0, 100.0))
    grams, right = [p.co2_g.value for p in line], [p.accuracy.value for p in line]
    assert grams == sorted(grams, reverse=True)
    assert grams[0] > 5 * grams[-1]
    assert right[0] > right[-1]
    always = points("stream_2", range(300, 303), ("always_large",))[0]
    at = emission_at(always.accuracy.value, line)
    assert at is not None
    assert at < 0.7 * always.co2_g.value
    assert sorted(PRICES) == list(PRICES)


def test_emissions_between_points() -> None:
    def point(accuracy: float, co2_g: float) -> Point:
        return Point("", Mean(accuracy, None), Mean(co2_g, None), Mean(0.0, None))

    line = [point(0.6, 1.0), point(0.8, 3.0), point(0.7, 9.0)]  # the last is beaten by the second
    assert emission_at(0.7, line) == pytest.approx(2.0)
    assert emission_at(0.5, line) == 1.0
    assert emission_at(0.9, line) is None


def test_the_frontier_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "front.json"
    main(["--task", "support", "--seeds", "300-301", "--json", str(path)])
    shown = capsys.readouterr().out
    assert "**stream_1**, 2 days" in shown
    assert "always_large" in shown
    front = Front.read(path)
    assert front
    assert (front.command, front.episodes) == (
        "python -m agents.routing.frontier --task stream_1 --seeds 300,301",
        2,
    )
    for point in (*front.agents, *front.line):
        assert f"| {point.name} | {point.gain.value:.3f} ± " in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--task", "task_1"), "a stream"),
        (("--task", "foo"), "stream_1"),
        (("--seeds", "x"), "a range like"),
        (("--png", "/no/such/folder/x.png"), "png"),
        (("--png", "x.svg"), "png"),
        (("--json", "/no/such/folder/x.json"), "json"),
    ],
)
def test_the_frontier_command_refuses_plainly(
    capsys: pytest.CaptureFixture[str], words: tuple[str, str], said: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err.lower()


@pytest.mark.demo
def test_the_frontier_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "frontier.png"
    main(["--seeds", "300-301", "--png", str(path)])
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "stream_2" in capsys.readouterr().out


def test_constant_agents_are_constant() -> None:
    agent = AGENTS["always_cache"]("stream_1", 0)
    assert isinstance(agent, Constant)
    assert play(agent, "stream_1", 0)[1] == {"USE_CACHE MEDIUM": 300}
