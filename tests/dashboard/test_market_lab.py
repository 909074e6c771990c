"""Market lab without a browser: runs, scenes, tables, and training in a process of its own."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
from contextlib import aclosing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from agents.market.duel import Duel
from agents.market.files import load_parameters, parameters_path
from agents.market.play import named_policy
from agents.market.policies import PriceParameters
from agents.market.train import TrainingSettings, evolve
from env.market.episode import market_of
from inferencegym.errors import InferenceGymError, InvalidValueError, UnknownNameError
from server.dashboard.market_lab import objective, playing, training
from server.dashboard.market_lab import retrain as retraining
from server.dashboard.market_lab.report import bar, verdict
from server.dashboard.market_lab.retrain import Limits, Progress, Queue, check_size, retrain
from server.dashboard.market_lab.retrain_order import Order, Standing, Trained
from server.dashboard.market_lab.run import NEWEST, RETRAINED, Press, Run, checked_setup, newest_file
from server.dashboard.market_lab.scene import scene_of
from server.dashboard.market_lab.tables import averages, parameters
from server.dashboard.wording import signed

SETUP = checked_setup("surge", 64.0, 11.0)
HOURS = 80


def a_run(*presses: Press, policies: tuple[str, str] = ("rule", "evolved")) -> Run:
    run = Run.checked(SETUP, float(HOURS), 3.0, policies, None)
    for press in presses:
        run = run.pressed(press.kind, press.hour)
    return run


def rows_of(duel: Duel) -> list[Any]:
    return [row for side in duel.sides for row in side.rows]


# --- runs ---------------------------------------------------------------------------------------------------


def test_a_run_is_the_duel_of_its_policies():
    by_hand = Duel(
        SETUP, ("rule", named_policy("rule", SETUP)), ("evolved", named_policy("evolved", SETUP)), 3, HOURS
    )
    while not by_hand.done:
        by_hand.step()
    assert rows_of(a_run().play()) == rows_of(by_hand)


@pytest.mark.parametrize("kind", ["surge", "shock"])
def test_a_press_changes_what_comes_after_it_and_nothing_before(kind: Any):
    calm, pressed, again = a_run().play(), a_run(Press(kind, 30)).play(), a_run(Press(kind, 30)).play()
    assert rows_of(pressed) == rows_of(again)
    for before, after in zip(calm.sides, pressed.sides, strict=True):
        assert before.rows[:30] == after.rows[:30]
        assert before.rows[30:] != after.rows[30:]


def test_presses_add_up_whatever_their_order():
    early, late = Press("shock", 10), Press("surge", 40)
    both = a_run(late, early)
    assert both == a_run(early, late)
    rows, only_early = both.play().sides[0].rows, a_run(early).play().sides[0].rows
    assert rows[:40] == only_early[:40]
    assert rows[40:] != only_early[40:]


@pytest.mark.parametrize(
    ("kind", "hour", "says"),
    [
        ("surge", HOURS, "The run is over"),
        ("surge", 20, "begins after hour 20 already"),
        ("flood", 20, "surge or shock"),
        ("surge", -1, "over"),
        ("surge", None, "over"),
    ],
)
def test_a_press_that_cannot_be_is_refused(kind: Any, hour: Any, says: str):
    with pytest.raises(InferenceGymError, match=says):
        a_run(Press("surge", 20)).pressed(kind, hour)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (("surge", 64.5, 11.0), r"GPUs: 64.5 .* whole number from 8 to 256"),
        (("surge", 7, 11.0), r"GPUs: 7 .* 8 to 256"),
        (("surge", None, 11.0), r"GPUs: there is no number in the field; allowed: .* from 8 to 256"),
        (("surge", 64, 21.0), r"Arrival rate \(jobs/h\): 21 .* 0.01 to 20"),
        (("surge", 64, 19.0), r"at most 17.77"),
        (("surge", 64, float("nan")), r"Arrival rate"),
        (("stready", 64, 11.0), r"Did you mean steady"),
    ],
)
def test_a_market_that_cannot_be_is_refused(values: Any, says: str):
    with pytest.raises(InferenceGymError, match=says):
        checked_setup(*values)


@pytest.mark.parametrize(
    ("hours", "seed", "right", "error"),
    [
        (23, 0, "evolved", InvalidValueError),
        (977, 0, "evolved", InvalidValueError),
        (200, -1, "evolved", InvalidValueError),
        (200, 1.5, "evolved", InvalidValueError),
        (200, 0, "evoled", UnknownNameError),
        (200, 0, RETRAINED, InferenceGymError),
    ],
)
def test_a_run_that_cannot_be_is_refused(hours: Any, seed: Any, right: str, error: type[Exception]):
    with pytest.raises(error):
        Run.checked(SETUP, hours, seed, ("rule", right), None)


def test_the_retrained_policy_plays_with_its_parameters():
    found = replace(load_parameters("surge"), base_price=2_000_000)
    run = Run.checked(SETUP, HOURS, 3, ("evolved", RETRAINED), found)
    left, right = run.play().sides
    assert left.rows != right.rows
    assert dict(run.parameters()) == {"evolved": load_parameters("surge"), RETRAINED: found}


# --- what is shown ------------------------------------------------------------------------------------------


def test_a_scene_shows_every_hour_of_both_sides():
    run = a_run()
    duel = run.play()
    scene = scene_of(run, duel)
    titles = [chart.title for chart in scene.charts]
    assert len(titles) == 7
    assert {"Price", "Queue", "Utilisation", "Expected wait", "Revenue", "Cumulative reward"} < set(titles)
    assert all(len(line.values) == HOURS for chart in scene.charts for line in chart.lines)
    reward = scene.charts[titles.index("Cumulative reward")]
    for line, side in zip(reward.lines, duel.sides, strict=True):
        assert line.values[-1] == pytest.approx(side.rows[-1].cumulative_reward, rel=1e-6)
    assert [action.id for action in scene.actions] == ["surge", "shock"]


def test_pressed_hours_are_shaded_and_the_play_goes_on_from_there():
    run = a_run(Press("surge", 30), Press("shock", 75))
    scene = scene_of(run, run.play(), start=30)
    pressed = [(span.first, span.last, span.label) for span in scene.spans if span.pressed]
    assert pressed == [(30.5, 42.5, "surge (pressed)"), (75.5, 80.5, "shock (pressed)")]
    assert scene.start == 30


def test_the_scenarios_own_events_are_shaded_where_demand_differs():
    run = a_run()
    spans = [span for span in scene_of(run, run.play()).spans if "rush" in span.label]
    # One in 50 hours of 18 hours each; the opening day may have taken a part of the first.
    assert 1 <= len(spans) <= 3
    assert all(0 < span.last - span.first <= 18 for span in spans)


def test_two_runs_of_a_policy_against_itself_are_told_apart():
    run = a_run(policies=("rule", "rule"))
    duel = run.play()
    assert scene_of(run, duel).sides == ["rule, left", "rule, right"]
    rows = list(csv.DictReader(io.StringIO(duel.csv())))
    assert {row["side"] for row in rows} == {"rule, left", "rule, right"}


def test_averages_totals_and_death_are_those_of_the_duel():
    dying = checked_setup("adversarial", 64, 12.0)
    run = Run.checked(dying, 200, 130, ("rule", "evolved"), None).pressed("shock", 100).pressed("surge", 195)
    duel = run.play()
    left, right = duel.summary()
    text = averages(run, duel)
    for summary in (left, right):
        assert f"{summary.total_revenue:,.0f}" in text
        assert f"{summary.mean_price:.2f}<small>" in text
        died = summary.died_at_hour
        assert (f"lived all {duel.hour} hours" if died is None else f"died at hour {died}") in text
    assert left.died_at_hour is not None
    assert left.active_hours == left.died_at_hour < right.active_hours == 200
    rewards = scene_of(run, duel).charts[-1].lines[0].values[left.died_at_hour - 1 :]
    assert len(rewards) > 100
    assert set(rewards) == {rewards[0]}
    assert signed(left.total_revenue - right.total_revenue, 0) in text
    assert "Pressed: shock in hours 101 to 112; surge in hours 196 to 200." in text


def test_a_run_in_which_both_markets_die_ends_there():
    run = Run.checked(checked_setup("launch", 32, 9.0), 200, 114, ("rule", "rule"), None)
    duel = run.play()
    scene = scene_of(run, duel)
    assert scene.length == scene.steps == duel.hour < 200
    assert all(span.first < duel.hour for span in scene.spans)
    assert "The run is over" in playing.act(run, Pressed("surge", duel.hour))[1]  # type: ignore[arg-type]


def test_parameters_are_named_with_bounds_and_units():
    text = parameters(SETUP, [("evolved", load_parameters("surge"))])
    assert "1 to 7 USD per GPU-hour" in text
    assert f"{load_parameters('surge').natural()['base_price']:.3f}" in text
    assert parameters(SETUP, []) == ""


@pytest.mark.parametrize(("value", "shown"), [(1234.4, "+1,234"), (-0.4, "0"), (-1.0, "−1"), (0.0, "0")])
def test_differences_have_signs(value: float, shown: str):
    assert signed(value, 0) == shown


# --- the objective ------------------------------------------------------------------------------------------


def typed(**changes: float) -> list[Any]:
    names = [field.name for field in objective._FIELDS]
    values: list[Any] = list(objective.objective_of("surge"))
    for name, value in changes.items():
        values[names.index(name)] = value
    return values


def test_an_objective_that_is_the_scenario_s_own_changes_nothing():
    assert objective.checked_objective("surge", typed()) is None
    assert checked_setup("surge", 64.0, 11.0, typed()) == SETUP


def test_an_objective_is_the_market_of_the_same_config():
    changes = {"revenue": 0.0, "fairness": 1.0, "max_price": 5.0, "max_avg_wait": 2.0}
    mine = checked_setup("surge", 64.0, 11.0, typed(**changes))
    assert mine == market_of("surge", {"gpus": 64, "arrival_rate": 11.0, **changes})
    assert (mine.max_price, mine.max_avg_wait) == (5_000_000, 2_000_000)
    assert Run.checked(mine, HOURS, 3, ("rule", "evolved"), None).play().sides[0].rows


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"revenue": 1.5}, r"Weight of revenue: 1.5 .* 0 to 1"),
        ({"max_price": None}, r"Highest price \(USD\): there is no number"),
        ({"max_avg_wait": 0.0}, r"Longest average wait \(h\): 0 .* 0.1 to 1000"),
        ({"min_price": 6.0}, r"config.min_price: 6.* at most .* the scenario's opening price"),
        ({"revenue": 0, "low_wait_time": 0, "fairness": 0, "market_activity": 0}, r"must not all be 0"),
    ],
)
def test_an_objective_that_cannot_be_is_refused(changes: dict[str, Any], says: str):
    with pytest.raises(InferenceGymError, match=says):
        checked_setup("surge", 64.0, 11.0, typed(**changes))


def test_what_is_trained_goes_by_the_objective():
    values = ("surge", 32, 6.0, 30, 1, None, 2, 4, next(iter(training.STARTS)))
    order = training._order(training.Wanted(*values, objective=tuple(typed(max_price=5.0))))
    assert order.objective == {"constraints": {"max_price": 5.0}}
    assert Order(**json.loads(json.dumps(asdict(order)))).setup().max_price == 5_000_000


# --- the newest file ----------------------------------------------------------------------------------------


def test_the_newest_file_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InferenceGymError, match=r"There is no ga_best_params\*\.json in the server's folder"):
        Run.checked(SETUP, HOURS, 3, ("rule", NEWEST), None)
    for age, scenario in enumerate(("surge", "steady")):
        path = tmp_path / f"ga_best_params_{scenario}.json"
        path.write_text(parameters_path(scenario).read_text())
        os.utime(path, (1_000 + age, 1_000 + age))
    # That of the scenario goes before a newer one of another.
    run = Run.checked(SETUP, HOURS, 3, ("evolved", NEWEST), None)
    assert run.parameters()[1] == ("ga_best_params_surge.json", load_parameters("surge"))
    left, right = run.play().sides
    assert left.rows == right.rows
    other = checked_setup("adversarial", 64, 11.0)
    assert newest_file(other)[0] == "ga_best_params_steady.json"


def test_a_newest_file_that_is_none_is_named(tmp_path: Path):
    (tmp_path / "ga_best_params.json").write_text("{")
    with pytest.raises(InvalidValueError, match=r"ga_best_params\.json"):
        newest_file(SETUP, tmp_path)


# --- the handlers -------------------------------------------------------------------------------------------


def play(*changes: Any, trained: PriceParameters | None = None) -> tuple[Any, ...]:
    values = ["surge", 64, 11.0, HOURS, 3, "rule", "evolved"]
    for index, value in changes:
        values[index] = value
    return playing.play(*values, trained)


class Pressed:
    """What the browser sends."""

    def __init__(self, kind: str, step: int) -> None:
        self.id, self.step = kind, step


def test_a_run_and_a_press():
    scene, said, run, tables, file = play()
    assert (scene["steps"], said) == (HOURS, "")
    assert file["text"] == run.play().csv()
    assert "Averages" in tables
    scene, said, run, _, file = playing.act(run, Pressed("surge", 12))  # type: ignore[arg-type]
    assert (scene["start"], run.presses) == (12, (Press("surge", 12),))
    assert "Surge in hours 13 to 24" in said
    assert file["text"] == run.play().csv()


def test_what_is_refused_changes_nothing_and_says_why():
    for outputs, says in (
        (play((1, 1000)), "GPUs: 1000 is not allowed; allowed: a whole number from 8 to 256"),
        (play((6, RETRAINED)), "no retrained policy of yours"),
        (playing.act(None, Pressed("surge", 3)), "no longer kept"),  # type: ignore[arg-type]
    ):
        assert says in outputs[1]
        assert "alert" in outputs[1]
        assert all(output == {"__type__": "update"} for output in (outputs[0], *outputs[2:]))


# --- training -----------------------------------------------------------------------------------------------

SMALL = Order("surge", 32, 6.0, 30, 2, 4, 12, compiled=False, start="untrained")


async def all_of(order: Order, queue: Queue) -> list[Progress | Trained]:
    return [step async for step in retrain(order, queue)]


def test_a_training_tells_its_generations_and_finds_what_the_search_finds():
    steps = asyncio.run(all_of(SMALL, Queue(1)))
    *progress, trained = steps
    assert isinstance(trained, Trained)
    assert [step for step in progress if isinstance(step, Progress)] == progress
    found, fitness = evolve(SMALL.setup(), TrainingSettings(2, 4, 12, hours=30))
    assert trained.parameters == found.values()
    assert trained.fitness == fitness / 1e6
    assert [one.policy for one in trained.standings] == ["retrained here", "evolved", "rule"]
    own, *others = trained.standings
    assert own.behind == (0.0, 0.0)
    for other in others:
        assert other.behind[0] == pytest.approx(own.reward[0] - other.reward[0])


def test_a_training_that_is_left_ends_and_gives_its_turn_to_the_next(monkeypatch: pytest.MonkeyPatch):
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def remember(*args: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*args, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", remember)
    monkeypatch.setattr(retraining, "BEAT_S", 0.05)

    async def leave() -> None:
        queue = Queue(1)
        async with aclosing(retrain(replace(SMALL, generations=50), queue)) as first:
            assert await anext(first) == Progress(0, 0, 50, None)
            async with aclosing(retrain(SMALL, queue)) as second:
                assert await anext(second) == Progress(1, 0, 2, None)
                await first.aclose()
                while (step := await anext(second)) == Progress(1, 0, 2, None):
                    pass
                assert step == Progress(0, 0, 2, None)
        for process in started:
            await process.wait()

    asyncio.run(leave())
    assert len(started) == 2
    assert all(process.returncode == -9 for process in started)


def test_a_failure_and_a_full_queue_are_sentences(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InferenceGymError, match=r"The training failed: .*population"):
        asyncio.run(all_of(replace(SMALL, population=1), Queue(1)))
    monkeypatch.setattr(retraining, "QUEUE_MAX", 0)
    with pytest.raises(InferenceGymError, match="Try again later"):
        asyncio.run(all_of(SMALL, Queue(1)))
    monkeypatch.undo()
    monkeypatch.setattr(retraining, "TIME_LIMIT_S", 0.0)
    with pytest.raises(InferenceGymError, match="stopped"):
        asyncio.run(all_of(SMALL, Queue(1)))


def test_an_address_has_its_share_of_the_line():
    queue = Queue(1)
    tickets = [queue.join("203.0.113.7") for _ in range(2)]
    with pytest.raises(InferenceGymError, match="2 trainings"):
        queue.join("203.0.113.7")
    queue.join("203.0.113.8")
    queue.leave(tickets[0])
    queue.join("203.0.113.7")


def test_the_queue_counts_who_is_ahead():
    queue = Queue(2)
    tickets = [queue.join() for _ in range(4)]
    assert [queue.ahead(ticket) for ticket in tickets] == [0, 0, 1, 2]
    queue.leave(tickets[0])
    queue.leave(tickets[2])
    assert [queue.ahead(tickets[place]) for place in (1, 3)] == [0, 0]
    assert "yours is next" in bar(Progress(1, 0, 5, None))
    assert "2 trainings" in bar(Progress(2, 0, 5, None))


def test_a_search_beyond_the_servers_means_is_refused_with_what_would_do():
    limits = Limits(10, 12, 12, 1_000_000)
    check_size(10, 12, 200, limits)
    with pytest.raises(InvalidValueError, match="at most 7 generations"):
        check_size(10, 12, 976, limits)
    check_size(7, 12, 976, limits)


def test_the_verdict_claims_no_more_than_the_interval():
    def said(gap: float, half: float) -> str:
        return verdict(Standing("rule", (1.0, 0.1), (gap, half), 0.0))

    assert said(0.5, 0.2).startswith("Better")
    assert said(-0.5, 0.2).startswith("Worse")
    assert said(0.1, 0.2).startswith("Not told apart")
    assert "as well as rule" in said(0.0, 0.0)
