"""What a decision on a stream brings: figures, caps, cache, knowledge base, dead models, waiting."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.routing import cache
from simulator.routing import kernel as fleet
from simulator.routing.grid import HORIZON_H
from simulator.routing.kernel import Outcome, Query, State, answer, commit

NONE, USE_CACHE, DO_CASCADE, EARLY_EXIT, WAIT, CALL_KB = range(6)
SMALL, MEDIUM, LARGE = range(3)


class World:
    """Two questions, 250 g CO2/kWh, loads of 0.3, all models alive; question 0 comes at hour 3.5."""

    def __init__(self, **query: float) -> None:
        self.query = [0.0] * len(Query)
        usual = {
            "ARRIVAL_H": 3.5,
            "NEIGHBOUR": 1.0,
            "RANK": 0.5,
            "RIGHT_SMALL": 0.4,
            "RIGHT_MEDIUM": 0.6,
            "RIGHT_LARGE": 0.8,
            "LENGTH": 1.0,
            "WAIT_H": 1.0,
            "SAME_SIMILARITY": 0.95,
            "NEAR_SIMILARITY": 0.85,
            "CHANGED_H": 1e6,
            "KB_RIGHT": 1.0,
        }
        for name, value in (usual | query).items():
            self.query[Query[name]] = value
        self.hours = [[250.0, 0.3, 0.3, 0.3] for _ in range(HORIZON_H)]
        self.down = [[0.0] * 3 for _ in range(4 * HORIZON_H)]
        self.held = [0.0] * HORIZON_H
        self.cached_h = [-1.0, -1.0, -1.0]
        self.cached_right = [0.0] * 3
        self.state = [0.0, 0.0, 0.0, -1.0, -1.0, -1.0, 0.0]
        self.out = [0.0] * len(Outcome)

    def answer(self, strategy: int, model: int = MEDIUM, exit_flag: bool = False) -> dict[str, float]:
        answer(
            self.query,
            self.hours,
            self.down,
            self.held,
            self.cached_h,
            self.cached_right,
            self.state,
            strategy,
            model,
            exit_flag,
            self.out,
        )
        return {column.name: self.out[column] for column in Outcome}

    def commit(self, capacity: int = 10) -> None:
        commit(self.query, self.held, self.cached_h, self.cached_right, self.state, capacity, self.out)


def energy(model: int, load: float = 0.3) -> float:
    return fleet.answer_energy_wh(model, load)


@pytest.mark.parametrize("model", [SMALL, MEDIUM, LARGE])
def test_energy_meets_the_measured_points_and_falls_with_the_batch(model: int) -> None:
    assert energy(model, 0.0) == pytest.approx(fleet.ENERGY_BATCH_8_WH[model])
    assert energy(model, 1.0) == pytest.approx(fleet.ENERGY_LARGE_BATCH_WH[model])
    loads = [index / 20 for index in range(21)]
    assert sorted((energy(model, load) for load in loads), reverse=True) == [energy(model, x) for x in loads]
    seconds = [fleet.answer_seconds(model, load, 1.0) for load in loads[:-1]]
    assert sorted(seconds) == seconds


def test_a_model_alone_by_hand() -> None:
    found = World().answer(NONE, MEDIUM)
    assert found["CORRECT"] == 1.0  # rank 0.5 < 0.6
    assert found["ENERGY_WH"] == pytest.approx(energy(MEDIUM))
    assert found["CO2_G"] == pytest.approx(energy(MEDIUM) * 250 / 1000)
    usual = 300 * 0.0175
    assert found["LATENCY_S"] == pytest.approx(usual * 1.15 + usual * 0.3**4 / 0.7)
    assert found["CARBON_PENALTY"] == pytest.approx(-2.0 * found["CO2_G"])
    assert found["LATENCY_PENALTY"] == pytest.approx(-0.02 * found["LATENCY_S"])
    assert found["REWARD"] == found["SCORE"] + found["CARBON_PENALTY"] + found["LATENCY_PENALTY"]
    assert World().answer(NONE, SMALL)["CORRECT"] == 0.0


def test_an_early_exit_knows_what_the_next_smaller_model_knows() -> None:
    assert [World().answer(EARLY_EXIT, m)["CORRECT"] for m in range(3)] == [0.0, 0.0, 1.0]
    whole, part = World().answer(NONE, LARGE), World().answer(EARLY_EXIT, LARGE)
    for name in ("ENERGY_WH", "LATENCY_S"):
        assert part[name] == pytest.approx(0.6 * whole[name])


def test_a_cascade_sums_its_stages_and_stops_where_the_check_is_content() -> None:
    whole = World().answer(DO_CASCADE, LARGE)
    assert whole["ENERGY_WH"] == pytest.approx(sum(energy(model) for model in range(3)))
    assert whole["CORRECT"] == 1.0
    stopped = World(JUDGE_SMALL=0.9, JUDGE_MEDIUM=0.9).answer(DO_CASCADE, LARGE, True)
    assert stopped["ENERGY_WH"] == pytest.approx(energy(SMALL) + energy(MEDIUM))  # right and accepted
    fooled = World(JUDGE_SMALL=0.1).answer(DO_CASCADE, LARGE, True)
    assert (fooled["CORRECT"], fooled["USED_MEDIUM"]) == (0.0, 0.0)  # a wrong answer was accepted
    doubted = World(RANK=0.1, JUDGE_SMALL=0.95, JUDGE_MEDIUM=0.95).answer(DO_CASCADE, LARGE, True)
    assert doubted["USED_LARGE"] == 1.0  # right ones were not


def test_the_cache_hits_the_same_question_and_its_neighbour() -> None:
    world = World()
    assert world.answer(USE_CACHE)["CACHE_HIT"] == 0.0
    assert world.answer(USE_CACHE)["USED_MEDIUM"] == 1.0  # a miss goes on to the model
    world.answer(NONE, LARGE)
    world.commit()
    hit = world.answer(USE_CACHE)
    assert (hit["CACHE_HIT"], hit["CORRECT"], hit["USED_MEDIUM"]) == (1.0, 1.0, 0.0)
    near = World()
    near.cached_h[1], near.cached_right[1] = 3.0, 1.0
    wrong = near.answer(USE_CACHE)
    assert (wrong["CACHE_HIT"], wrong["CORRECT"], wrong["CACHE_WRONG"]) == (1.0, 0.0, 1.0)
    near.query[Query.NEAR_RIGHT] = 1.0
    assert near.answer(USE_CACHE)["CORRECT"] == 1.0


@pytest.mark.parametrize(
    ("query", "cached_h", "right", "hit", "correct"),
    [
        ({"SAME_SIMILARITY": 0.79}, 3.0, 1.0, 0.0, 1.0),  # not near enough: MEDIUM answers
        ({"ARRIVAL_H": 20.0}, 7.9, 1.0, 0.0, 1.0),  # past its time to live
        ({"ARRIVAL_H": 20.0}, 8.1, 1.0, 1.0, 1.0),
        ({"CHANGED_H": 3.2}, 3.0, 1.0, 1.0, 0.0),  # the right answer changed in between
        ({"CHANGED_H": 3.2}, 3.3, 1.0, 1.0, 1.0),
        ({"CHANGED_H": 3.6}, 3.0, 1.0, 1.0, 1.0),  # will change later
        ({}, 3.0, 0.0, 1.0, 0.0),  # a wrong answer had been cached
    ],
)
def test_cached_answers_age(
    query: dict[str, float], cached_h: float, right: float, hit: float, correct: float
) -> None:
    world = World(**query)
    world.cached_h[0], world.cached_right[0] = cached_h, right
    found = world.answer(USE_CACHE)
    assert (found["CACHE_HIT"], found["CORRECT"]) == (hit, correct)


def test_the_cache_drops_its_oldest_entry_when_it_is_full() -> None:
    world = World()
    world.cached_h[1:], world.state[State.CACHED] = [1.0, 2.0], 2.0
    world.answer(NONE)
    world.commit(capacity=2)
    assert world.cached_h == [3.5, -1.0, 2.0]
    assert world.state[State.CACHED] == 2.0


@pytest.mark.parametrize(
    ("query", "correct", "used"),
    [
        ({"IN_KB": 1.0}, 1.0, 0.0),
        ({"IN_KB": 1.0, "CHANGED_H": 2.0, "KB_REFRESHED_H": 0.0}, 0.0, 0.0),  # stale
        ({"IN_KB": 1.0, "CHANGED_H": 2.0, "KB_REFRESHED_H": 3.0}, 1.0, 0.0),
        ({"IN_KB": 1.0, "KB_RIGHT": 0.0}, 0.0, 0.0),
        ({"IN_KB": 0.0}, 1.0, 1.0),  # nothing found: the model answers
    ],
)
def test_the_knowledge_base_can_be_stale_or_silent(
    query: dict[str, float], correct: float, used: float
) -> None:
    found = World(**query).answer(CALL_KB)
    assert (found["CORRECT"], found["USED_MEDIUM"]) == (correct, used)


def test_the_knowledge_base_costs_half_of_small_and_half_as_long_again() -> None:
    found, small = World(IN_KB=1.0).answer(CALL_KB), World().answer(NONE, SMALL)
    assert found["ENERGY_WH"] == pytest.approx(0.5 * small["ENERGY_WH"] + cache.LOOKUP_WH)
    assert found["LATENCY_S"] == pytest.approx(1.5 * small["LATENCY_S"] + cache.LOOKUP_S)


@pytest.mark.parametrize(
    ("dead", "chosen", "answers"),
    [((0,), 0, 1), ((2,), 2, 1), ((0, 1), 0, 2), ((1, 2), 1, 0), ((0, 2), 2, 1), ((0, 1, 2), 1, None)],
)
def test_a_dead_model_costs_a_timeout_and_another_one_answers(
    dead: tuple[int, ...], chosen: int, answers: int | None
) -> None:
    world = World()
    for model in dead:
        world.down[14][model] = 1.0
    found = world.answer(NONE, chosen)
    assert found["TIMEOUTS"] == 1.0
    assert [found[f"USED_{name}"] for name in ("SMALL", "MEDIUM", "LARGE")] == [
        float(model == answers) for model in range(3)
    ]
    assert found["LATENCY_S"] >= fleet.TIMEOUT_S
    if answers is None:
        assert (found["CORRECT"], found["ENERGY_WH"]) == (0.0, 0.0)
    world.commit()
    assert world.state[State.TIMEOUT_SMALL_H + chosen] == 3.5


def test_waiting_runs_at_the_booked_hour_and_spills_over() -> None:
    world = World(DEADLINE_H=8.0, WAIT_H=4.0)
    world.hours[7][0], world.hours[8][0] = 100.0, 200.0
    for count in range(fleet.LANE_PER_HOUR):
        found = world.answer(WAIT)
        assert found["HELD_H"] == 3.5
        assert found["CO2_G"] == pytest.approx(found["ENERGY_WH"] * 0.1)
        assert found["ENERGY_WH"] == pytest.approx(energy(MEDIUM, fleet.LANE_LOAD + 0.02 * (count + 1)))
        world.commit()
        world.state[:3] = [0.0] * 3  # the batch's own effect alone
    spilled = world.answer(WAIT)
    assert spilled["HELD_H"] == 4.5
    assert spilled["CO2_G"] == pytest.approx(spilled["ENERGY_WH"] * 0.2)
    assert spilled["LATENCY_PENALTY"] == pytest.approx(-fleet.WAIT_PRICE * 4.5 / 8.0)
    assert spilled["ENERGY_WH"] == pytest.approx(energy(MEDIUM, fleet.LANE_LOAD + 0.02))  # a new batch


def test_no_hour_runs_more_than_its_lane_whoever_booked_it() -> None:
    """What spills over counts in the hour in which it runs, also for those who book that hour."""
    world = World(DEADLINE_H=8.0, WAIT_H=4.0)
    for _ in range(2 * fleet.LANE_PER_HOUR - 2):
        world.answer(WAIT)
        world.commit()
    assert world.held[7:10] == [8.0, 6.0, 0.0]
    world.query[Query.WAIT_H] = 5.0
    for _ in range(4):
        world.answer(WAIT)
        world.commit()
    assert world.held[7:10] == [8.0, 8.0, 2.0]
    assert fleet.queued(world.held, 7) == 18
    assert fleet.queued(world.held, 9) == 2
    full = [8.0] * HORIZON_H
    assert fleet.queued(full, HORIZON_H - 1) == 7  # the horizon's last hour takes what is left


def test_a_held_answer_can_be_had_from_the_cache_when_it_exists() -> None:
    world = World(DEADLINE_H=8.0, WAIT_H=4.0)
    world.answer(WAIT)
    world.commit()
    assert world.answer(USE_CACHE)["CACHE_HIT"] == 0.0  # booked for 7 h, and it is 3.5 h
    world.query[Query.ARRIVAL_H] = 7.5
    assert world.answer(USE_CACHE)["CACHE_HIT"] == 1.0
    world = World(DEADLINE_H=8.0, WAIT_H=4.0)
    world.cached_h[0], world.state[State.CACHED] = 3.0, 1.0
    world.answer(WAIT)
    world.commit()
    assert world.cached_h[0] == 3.0  # nor does it push out what is fresh


def test_held_queries_are_part_of_their_models_load() -> None:
    now, held = World(), World(DEADLINE_H=8.0, WAIT_H=4.0)
    for _ in range(20):
        now.answer(NONE, LARGE)
        now.commit()
        held.answer(WAIT, LARGE)
        held.commit()
    assert now.state[:3] == held.state[:3]
    assert now.state[State.SHARE_LARGE] > 0.5


def test_latency_costs_by_the_second_and_then_by_the_doubling() -> None:
    assert fleet.latency_penalty(5.0) == pytest.approx(0.1)
    assert fleet.latency_penalty(10.0) == pytest.approx(0.2)
    doubled = [fleet.latency_penalty(s) for s in (20.0, 40.0, 80.0, 160.0)]
    steps = [later - earlier for earlier, later in pairwise(doubled)]
    assert steps == pytest.approx([steps[0]] * 3)
    assert steps[0] > 0.02  # LARGE at 50 s or at 100 s is not the same
    assert fleet.latency_penalty(3600.0) == pytest.approx(0.4)
    assert fleet.latency_penalty(1e6) == 0.4


def test_the_nearer_of_two_fresh_answers_is_used() -> None:
    world = World(SAME_SIMILARITY=0.82, NEAR_SIMILARITY=0.86)
    world.cached_h[:2], world.cached_right[:2] = [3.0, 3.0], [1.0, 1.0]
    assert world.answer(USE_CACHE)["CORRECT"] == 0.0
    world.query[Query.NEAR_SIMILARITY] = 0.81
    assert world.answer(USE_CACHE)["CORRECT"] == 1.0


@pytest.mark.parametrize(
    ("dead", "last", "energies"), [((2,), 2, (0, 1)), ((1,), 1, (0, 2)), ((0, 2), 2, (1,))]
)
def test_a_cascade_runs_no_model_twice(dead: tuple[int, ...], last: int, energies: tuple[int, ...]) -> None:
    world = World()
    for model in dead:
        world.down[14][model] = 1.0
    found = world.answer(DO_CASCADE, last)
    assert found["ENERGY_WH"] == pytest.approx(sum(energy(model) for model in energies))
    assert found["TIMEOUTS"] == len(dead)
    assert found["CORRECT"] == float(max(energies) >= 1)


def test_waiting_past_the_deadline_is_late() -> None:
    assert World(DEADLINE_H=2.0, WAIT_H=2.0).answer(WAIT)["LATE"] == 0.0
    world = World(DEADLINE_H=2.0, WAIT_H=2.0)
    world.held[5] = 8.0
    assert world.answer(WAIT)["LATENCY_PENALTY"] == -0.4
    gone = World().answer(WAIT)  # somebody waited
    assert (gone["LATE"], gone["CORRECT"], gone["SCORE"]) == (1.0, 1.0, 0.0)
    assert gone["LATENCY_PENALTY"] == -0.4


def test_use_raises_load_latency_and_lowers_energy() -> None:
    world = World()
    first = world.answer(NONE, LARGE)
    for _ in range(20):
        world.answer(NONE, LARGE)
        world.commit()
    later = world.answer(NONE, LARGE)
    assert later["LATENCY_S"] > 1.2 * first["LATENCY_S"]
    assert later["ENERGY_WH"] < first["ENERGY_WH"]


unit = st.floats(0.0, 1.0)


@given(
    st.integers(0, 5),
    st.integers(0, 2),
    st.booleans(),
    st.dictionaries(
        st.sampled_from(
            ["RANK", "SAME_SIMILARITY", "NEAR_SIMILARITY", "JUDGE_SMALL", "JUDGE_MEDIUM", "IN_KB", "KB_RIGHT"]
        ),
        unit,
    ),
    st.sampled_from([0.0, 2.0, 8.0]),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.floats(0.0, 900.0),
    st.floats(0.0, 0.9),
)
def test_every_outcome_is_bounded_and_looking_changes_nothing(
    strategy: int,
    model: int,
    exit_flag: bool,
    query: dict[str, float],
    deadline_h: float,
    dead: list[bool],
    carbon: float,
    load: float,
) -> None:
    world = World(DEADLINE_H=deadline_h, LENGTH=5.0, **query)
    world.hours = [[carbon, load, load, load] for _ in range(HORIZON_H)]
    world.down = [[float(gone) for gone in dead] for _ in range(4 * HORIZON_H)]
    before = repr((world.query, world.held, world.cached_h, world.cached_right, world.state))
    found = world.answer(strategy, model, exit_flag)
    assert repr((world.query, world.held, world.cached_h, world.cached_right, world.state)) == before
    assert -1.0 <= found["REWARD"] <= 1.0
    assert found["REWARD"] == found["SCORE"] + found["CARBON_PENALTY"] + found["LATENCY_PENALTY"]
    assert found["CORRECT"] in (0.0, 1.0)
    assert found["CO2_G"] == pytest.approx(found["ENERGY_WH"] * carbon / 1000)
    assert found["CACHE_WRONG"] <= found["CACHE_HIT"]
    assert found == world.answer(strategy, model, exit_flag)
