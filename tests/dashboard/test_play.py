"""A person's episode: steps, grades, and what the page says about them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import BaseModel, Field

from agents.compare.episodes import Job, play_episode
from agents.registry import rule_name
from inferencegym.errors import EpisodeDoneError, EpisodeNotStartedError, InferenceGymError
from inferencegym.registry import EnvSpec, all_specs, get_spec, register, unregister
from server.bound import BoundEnv
from server.dashboard.play.episode import Played
from server.dashboard.play.text import consequence, grade_text, observation_text
from server.dashboard.wording import in_words, name_and_unit, number, signed
from tests.server.toy_env import SPEC as TOY


@pytest.fixture
def toy() -> Iterator[BoundEnv]:
    register(TOY)
    yield BoundEnv(TOY)
    unregister(TOY.id)


def started(env: str, task: str | None = None, seed: object = 42) -> Played:
    return Played(BoundEnv(get_spec(env)), task, seed)


def said(played: Played) -> str:
    return consequence(played, played.scene())


# Steps


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_ten_steps_at_once_are_ten_steps(spec: EnvSpec):
    task = list(spec.part("tasks"))[-1]
    at_once, singly = (Played(BoundEnv(spec), task, 7) for _ in range(2))
    at_once.play({}, 10)
    for _ in range(10):
        singly.play({}, 1)
    assert at_once.observation == singly.observation
    assert [step.reward for step in at_once.steps] == [step.reward for step in singly.steps]
    assert (len(at_once.last), len(singly.last)) == (10, 1)


@pytest.mark.parametrize(
    ("env", "values", "told"),
    [
        (
            "serving",
            {"batch_size": 1000},
            "action.batch_size: 1000 is not allowed; allowed: a whole number from 1 to 512.",
        ),
        ("serving", {"batch_size": 32.5}, "action.batch_size: 32.5 is not allowed"),
        ("market", {"price": 50.0}, "action.price: 50.0 is not allowed"),
        ("autoscaling", {"action": "up"}, "action.action: "),
    ],
)
def test_a_refused_value_costs_no_step(env: str, values: dict[str, object], told: str):
    played, untouched = started(env), started(env)
    played.play({}, 1)
    untouched.play({}, 1)
    with pytest.raises(InferenceGymError) as refusal:
        played.play(values, 10)
    assert refusal.value.message.startswith(told)
    assert (len(played.steps), played.observation) == (1, untouched.observation)
    played.play({}, 1)
    untouched.play({}, 1)
    assert played.observation == untouched.observation


@pytest.mark.parametrize("seed", [-1, 1.5, "abc", 2**63, True])
def test_a_seed_that_is_not_allowed_is_refused(seed: object):
    with pytest.raises(InferenceGymError, match="seed"):
        started("serving", seed=seed)


def test_the_episode_ends_and_says_so():
    played = started("routing", "task_2")
    played.play({}, None)
    assert (played.done, len(played.steps)) == (True, 3)
    assert "the episode is over" in said(played)
    with pytest.raises(EpisodeDoneError, match="Press Start"):
        played.play({}, 1)


# Grades


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_a_finished_episode_stands_beside_the_rule_based_agent_on_the_same_traffic(spec: EnvSpec):
    bound = BoundEnv(spec)
    played = Played(bound, None, 3)
    played.play({}, None)
    graded = played.graded()
    agent = rule_name(spec.id)
    alone = play_episode(spec, Job(bound.first_task, agent, 3))
    assert graded.rival is not None
    assert (graded.rival.name, graded.rival.score) == (agent, alone.score)
    replayed = bound.grader.grade_replay(bound.first_task, 3, [{}] * len(played.steps))
    assert (graded.yours.score, graded.finished) == (replayed.score, True)
    text = grade_text(graded)
    gap = f"{abs(replayed.score - alone.score):.3f}"
    assert "The episode is finished" in text
    assert (f"by {gap}" in text) or ("score the same" in text)
    assert ("You won" in text) == (replayed.score - alone.score >= 0.0005)


def test_a_grade_so_far_compares_as_many_steps_and_the_episode_goes_on():
    played = started("serving")
    played.play({"batch_size": 128}, 10)
    graded = played.graded()
    assert (graded.steps, graded.finished, graded.scene.sides) == (10, False, ["you", "reactive"])
    assert all(len(line.values) == 10 for chart in graded.scene.charts for line in chart.lines)
    assert "after 10 of 200 steps" in grade_text(graded)
    played.play({"batch_size": 128}, 10)
    again = played.graded()
    assert all(len(line.values) == 20 for chart in again.scene.charts for line in chart.lines)


def test_nothing_can_be_graded_before_the_first_step():
    with pytest.raises(EpisodeNotStartedError, match="Next step"):
        started("serving").graded()


def test_an_environment_that_joined_by_the_registry_is_played_and_graded(toy: BoundEnv):
    played = Played(toy, "windy", 1)
    played.play({"force": 0.5, "mode": "run"}, 5)
    assert "Nearness" in said(played)
    assert "“baseline”" in grade_text(played.graded())


def test_an_agent_that_cannot_play_leaves_the_persons_grade(toy: BoundEnv, monkeypatch: pytest.MonkeyPatch):
    def missing(*_given: object) -> None:
        raise InferenceGymError("The agent lacks a key.", "Set one.")

    monkeypatch.setattr("server.dashboard.watch.recording.get_agent", missing)
    played = Played(toy, "calm", 1)
    played.play({}, 1)
    text = grade_text(played.graded())
    assert "The agent lacks a key. Set one." in text
    assert "Mean nearness" in text


# Words


def test_the_consequence_names_terms_with_sign_and_what_is_past_an_objective():
    played = started("serving")
    assert "press <em>Next step</em>" in said(played)
    played.play({"batch_size": 4}, 10)
    text = said(played)
    assert "Step 10 of 200" in text
    for name in played.last[-1].info["reward_terms"]:
        assert name.capitalize() in text
    total = sum(step.info["reward_terms"]["throughput"] for step in played.last)
    assert f"<b>{signed(total)}</b>" in text
    assert "<strong>past</strong> objective, 500 ms" in text
    assert "<strong>within</strong>" in text
    assert "The task keeps these fixed: Spec length, Prefill disagg, Quant tier." in text


def test_a_move_without_effect_is_named():
    played = started("autoscaling")
    played.play({"action": "scale_down"}, 30)
    assert "Without effect: Action in" in said(played)


def test_the_change_since_the_last_press_has_a_sign():
    played = started("market")
    assert "▲" not in observation_text(played)
    before = played.observation.model_dump()
    played.play({"price": 5.0}, 3)
    now = played.observation.model_dump()
    text = observation_text(played)
    assert "Change over the last 3 steps" in text
    assert f"▲ +{number(now['price'] - before['price'])}" in text
    assert "Price of the last hour, USD per GPU-hour." in text


def test_what_is_shown_is_escaped():
    class Strange(BaseModel):
        text: str = Field("<script>alert(1)</script>", description="<b>")

    played = started("serving")
    played.observation = Strange()
    shown = observation_text(played)
    assert "<script>" not in shown
    assert "<b>" not in shown


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-0.0, "0"), (1.5, "1.5"), (0.0000123, "0.000012"), (156_700.4, "156,700"), (-2.5, "−2.5")],
)
def test_numbers_are_written_without_exponents(value: float, text: str):
    assert number(value) == text


def test_names_units_and_values_as_people_read_them():
    assert name_and_unit("ttft_p50_ms") == ("TTFT p50", "ms")
    assert name_and_unit("gpu_memory_used_gb") == ("GPU memory used", "GiB")
    assert name_and_unit("queue_depth") == ("Queue depth", "")
    assert [signed(value) for value in (0.0312, -2.0, -0.0001)] == ["+0.031", "−2.000", "0.000"]
    assert in_words(0.25, share=True) == "25 %"
    assert [in_words(value) for value in (True, None, (), {"on_time": 3})] == [
        "yes",
        "none",
        "none",
        "on time 3",
    ]
    assert in_words(tuple("abcdefgh")) == "a, b, c, d, e, f and 2 more"
