"""Grading logs and replays: bounds, honesty about what is verified, and errors that point at the fault."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.serving.grader import GRADER
from inferencegym.errors import InvalidValueError, UnknownNameError
from inferencegym.models.serving import ServeAction
from tests.grader.episodes import REFERENCE_AGENTS, TASK_IDS, constant_log, played
from tests.simulator.properties import bounded

ENTRY: dict[str, Any] = {
    "action": {"batch_size": 32, "kv_budget": 1.0},
    "reward": 0.1,
    "metrics": {
        "tokens_per_sec": 2000.0,
        "ttft_p50_ms": 150.0,
        "gpu_memory_gb": 38.0,
        "cost_per_1k": 0.01,
        "slo_violation_rate": 0.1,
    },
}

GOOD_METRICS = st.fixed_dictionaries(
    {
        "tokens_per_sec": st.floats(0.0, 1e9),
        "ttft_p50_ms": st.floats(0.0, 1e6),
        "gpu_memory_gb": st.floats(0.0, 80.0),
        "cost_per_1k": st.floats(0.0, 1e9),
        "slo_violation_rate": st.floats(0.0, 1.0),
    },
    optional={"oom": st.booleans()},
)
GOOD_ACTIONS = st.fixed_dictionaries(
    {}, optional={"batch_size": st.integers(1, 512), "kv_budget": st.floats(0.1, 1.0)}
)
GOOD_LOGS = st.lists(
    st.fixed_dictionaries({"action": GOOD_ACTIONS, "metrics": GOOD_METRICS, "reward": st.floats(-1.0, 1.0)}),
    min_size=1,
    max_size=20,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


# --- handcrafted logs --------------------------------------------------------------------------------------

NINE = {
    "ttft_p50_ms": 120.0,
    "ttft_p99_ms": 300.0,
    "tpot_ms": 12.0,
    "tokens_per_sec": 4000.0,
    "gpu_memory_gb": 34.0,
    "cost_per_1k": 0.01,
    "spec_accept_rate": 0.0,
    "eviction_events": 0,
    "slo_violations": 0,
}
"""The metric fields that the design names."""


def crafted(**changes: Any) -> list[dict[str, Any]]:
    return [{"action": {}, "reward": 0.5, "metrics": {**NINE, **changes}} for _ in range(200)]


@pytest.mark.parametrize("task", [1, 2, 3, "task1", "task-2", "hard"])
def test_a_log_of_the_nine_fields_is_graded(task: Any):
    grade = GRADER.grade_log(task, crafted())
    assert 0.0 < grade.score <= 1.0
    assert (grade.verified, grade.steps) == (False, 200)


def test_without_a_rate_a_second_counts_by_whether_it_has_violations_and_the_grade_says_so():
    none, some = GRADER.grade_log("task3", crafted()), GRADER.grade_log("task3", crafted(slo_violations=2))
    told = GRADER.grade_log("task3", crafted(slo_violations=2, slo_violation_rate=0.25))
    assert [grade.breakdown["slo"] for grade in (none, some, told)] == [1.0, 0.0, 0.75]
    assert ["slo_violation_rate" in grade.feedback for grade in (none, some, told)] == [True, True, False]
    # The other tasks' scores have no part of it.
    assert "slo_violation_rate" not in GRADER.grade_log("task1", crafted()).feedback


@pytest.mark.parametrize(
    ("task", "used"),
    [
        ("task1", {"tokens_per_sec"}),
        ("task2", {"ttft_p50_ms", "gpu_memory_gb"}),
        ("task3", {"tokens_per_sec", "cost_per_1k", "slo_violations"}),
        ("azure-code", {"cost_per_1k", "slo_violations"}),
    ],
)
def test_what_a_grade_does_not_use_may_be_missing(task: str, used: set[str]):
    whole = GRADER.grade_log(task, crafted())
    assert GRADER.grade_log(task, [_only(entry, used) for entry in crafted()]).score == whole.score
    for name in used:
        log = crafted()
        log[3] = _only(log[3], used - {name})
        shown = "slo_violation_rate" if name == "slo_violations" else name
        with pytest.raises(InvalidValueError) as caught:
            GRADER.grade_log(task, log)
        message = f"episode_log[3].metrics.{shown}: missing; expected a finite number "
        assert caught.value.message.startswith(message)


def _only(entry: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {**entry, "metrics": {name: entry["metrics"][name] for name in names}}


def test_an_action_may_be_missing_where_the_score_does_not_look_at_it():
    log = [{"metrics": entry["metrics"]} for entry in crafted()]
    assert GRADER.grade_log("task2", log) == GRADER.grade_log("task2", crafted())
    with pytest.raises(InvalidValueError, match=r"episode_log\[0\]\.action: missing; expected the action"):
        GRADER.grade_log("task3", log)
    with pytest.raises(InvalidValueError, match=r"episode_log\[0\]\.action: 3 is not allowed"):
        GRADER.grade_log("task2", [{**log[0], "action": 3}])


@pytest.mark.parametrize("value", [None, "fast", -1.0, float("nan"), True])
def test_what_is_there_must_be_right_even_where_it_is_not_used(value: Any):
    with pytest.raises(InvalidValueError, match=r"episode_log\[0\]\.metrics\.cost_per_1k"):
        GRADER.grade_log("task1", crafted(cost_per_1k=value))


def test_task3_s_compliance_goes_by_two_names_and_is_one_part():
    grade = GRADER.grade_log("task3", crafted(slo_violation_rate=0.4))
    assert grade.breakdown["slo"] == grade.breakdown["slo_compliance"] == 0.6
    assert "slo" not in grade.parts
    assert "slo" not in GRADER.grade_log("task1", crafted()).breakdown


# --- any log -----------------------------------------------------------------------------------------------


@bounded()
@given(st.sampled_from(TASK_IDS), GOOD_LOGS)
def test_a_log_of_anything_legal_is_graded_within_bounds_and_never_verified(
    task_id: str, log: list[dict[str, Any]]
):
    grade = GRADER.grade_log(task_id, log)
    assert 0.0 <= grade.score <= len(log) / 200
    assert all(0.0 <= part <= 1.0 for part in grade.breakdown.values())
    assert grade.verified is False
    assert grade.steps == len(log)
    assert grade.breakdown["completed"] == len(log) / 200
    assert GRADER.grade_log(task_id, copy.deepcopy(log)) == grade


@bounded()
@given(
    JSON
    | st.lists(JSON, max_size=3)
    | st.lists(
        st.just(ENTRY) | st.dictionaries(st.sampled_from(["action", "metrics", "info", "reward"]), JSON),
        max_size=3,
    )
)
def test_anything_else_is_refused_with_a_field(log: Any):
    field = "episode_log"
    try:
        GRADER.grade_log("task3", log)
    except InvalidValueError as error:
        field = error.field
    else:
        assert all("metrics" in entry or "info" in entry for entry in log)
    assert field.startswith("episode_log")


@pytest.mark.parametrize("entries", [201, 5000])
def test_a_log_has_at_most_two_hundred_entries(entries: int):
    with pytest.raises(InvalidValueError, match=r"episode_log: .*a list of 0 to 200 entries"):
        GRADER.grade_log("task1", [ENTRY] * entries)


@pytest.mark.parametrize("entries", [0, 201, 5000])
def test_a_replay_has_one_to_two_hundred_actions(entries: int):
    with pytest.raises(InvalidValueError, match=r"actions: .*a list of 1 to 200 entries"):
        GRADER.grade_replay("task1", 0, [{}] * entries)


BAD_ENTRIES: list[tuple[Any, str]] = [
    (None, "episode_log[1]"),
    ([], "episode_log[1]"),
    ("entry", "episode_log[1]"),
    ({}, "episode_log[1].metrics"),
    ({"metrics": ENTRY["metrics"]}, "episode_log[1].action"),
    ({**ENTRY, "metrics": [1, 2]}, "episode_log[1].metrics"),
    ({**ENTRY, "action": "big"}, "episode_log[1].action"),
    ({**ENTRY, "metrics": {}}, "episode_log[1].metrics.tokens_per_sec"),
    ({"info": {"action": ENTRY["action"]}}, "episode_log[1].metrics"),
]
BAD_METRICS: list[tuple[str, Any]] = [
    ("tokens_per_sec", -1.0),
    ("tokens_per_sec", float("nan")),
    ("tokens_per_sec", float("inf")),
    ("tokens_per_sec", "2000"),
    ("tokens_per_sec", True),
    ("tokens_per_sec", None),
    ("tokens_per_sec", 1e300),
    ("ttft_p50_ms", -0.001),
    ("ttft_p50_ms", float("-inf")),
    ("gpu_memory_gb", 80.1),
    ("cost_per_1k", float("nan")),
    ("slo_violation_rate", 1.0001),
    ("oom", 1),
    ("oom", "false"),
    ("oom", None),
]
BAD_KNOBS: list[tuple[str, Any]] = [
    ("batch_size", 0),
    ("batch_size", 513),
    ("batch_size", 1.5),
    ("batch_size", "32"),
    ("batch_size", None),
    ("kv_budget", 0.0),
    ("kv_budget", 1.01),
    ("kv_budget", float("nan")),
]


def refused(entry: Any) -> InvalidValueError:
    with pytest.raises(InvalidValueError) as caught:
        GRADER.grade_log("task3", [ENTRY, entry, ENTRY])
    return caught.value


@pytest.mark.parametrize(("entry", "field"), BAD_ENTRIES, ids=repr)
def test_a_malformed_entry_is_named_by_its_index(entry: Any, field: str):
    assert refused(entry).field == field


@pytest.mark.parametrize(("name", "value"), BAD_METRICS)
def test_a_bad_metric_is_named_by_index_and_field(name: str, value: Any):
    error = refused({**ENTRY, "metrics": {**ENTRY["metrics"], name: value}})
    assert error.field == f"episode_log[1].metrics.{name}"
    assert repr(value)[:20] in error.message


@pytest.mark.parametrize(("name", "value"), BAD_KNOBS)
def test_a_bad_knob_is_named_by_index_and_field(name: str, value: Any):
    assert refused({**ENTRY, "action": {name: value}}).field == f"episode_log[1].action.{name}"


def test_an_unknown_task_is_answered_with_near_ones():
    with pytest.raises(UnknownNameError, match="Did you mean"):
        GRADER.grade_log("task33", [ENTRY])
    with pytest.raises(UnknownNameError, match="Did you mean"):
        GRADER.grade_replay("task33", 0, [{}])


# --- played and replayed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("task_id", TASK_IDS)
@pytest.mark.parametrize("agent", REFERENCE_AGENTS)
def test_a_replay_scores_what_was_played(task_id: str, agent: str):
    episode = played(task_id, agent, 100)
    replayed = GRADER.grade_replay(task_id, 100, episode.actions)
    assert replayed.verified
    assert (replayed.score, replayed.breakdown, replayed.steps) == (
        episode.grade.score,
        episode.grade.breakdown,
        200,
    )
    assert not episode.grade.verified
    through_json = json.loads(json.dumps(episode.log))
    assert GRADER.grade_log(task_id, through_json) == episode.grade


def test_step_replies_and_short_entries_score_alike():
    log = played("task3", "reactive", 100).log
    replies = [
        {
            "observation": {},
            "reward": entry["reward"],
            "done": False,
            "info": {"timestep": index + 1, "metrics": entry["metrics"], "action": entry["action"]},
        }
        for index, entry in enumerate(log)
    ]
    assert GRADER.grade_log("task3", replies) == GRADER.grade_log("task3", log)


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_a_log_edited_by_hand_scores_as_it_stands_and_is_not_verified(task_id: str):
    log = copy.deepcopy(played(task_id, "baseline", 100).log)
    honest = GRADER.grade_log(task_id, log)
    perfect = {"tokens_per_sec": 1e6, "ttft_p50_ms": 0.0, "gpu_memory_gb": 0.0, "cost_per_1k": 0.0}
    for entry in log:
        entry["metrics"] |= {**perfect, "slo_violation_rate": 0.0}
        entry["verified"] = True
    forged = GRADER.grade_log(task_id, log)
    assert forged.score == pytest.approx(1.0)
    assert forged.verified is False
    # Its actions replayed give what really happened.
    replayed = GRADER.grade_replay(task_id, 100, [entry["action"] for entry in log])
    assert replayed.verified
    assert replayed.score == honest.score


def test_an_oom_of_task_2_is_seen_in_a_log_and_in_a_replay():
    log = constant_log("task2", ServeAction(batch_size=512), 0)
    grades = [GRADER.grade_log("task2", log), GRADER.grade_replay("task2", 0, [{"batch_size": 512}] * 200)]
    assert [grade.breakdown["memory"] for grade in grades] == [0.0, 0.0]
    assert [grade.score for grade in grades] == [0.0, 0.0]


def test_a_server_vouches_for_its_own_record():
    assert GRADER.grade_log("task1", [ENTRY], verified=True).verified


@pytest.mark.parametrize("task_id", TASK_IDS)
@pytest.mark.parametrize("steps", [1, 20, 120])
def test_part_of_an_episode_is_scaled_by_its_share(task_id: str, steps: int):
    log = constant_log(task_id, ServeAction(), 0, steps)
    grade = GRADER.grade_log(task_id, log)
    replayed = GRADER.grade_replay(task_id, 0, [{}] * steps)
    assert grade.score == replayed.score <= steps / 200
    assert grade.breakdown["completed"] == steps / 200
    assert "was played" in grade.feedback
    assert replayed.verified


def test_stopping_early_never_pays():
    """Cutting any tail off the best episode lowers its score."""
    for task_id in TASK_IDS:
        log = played(task_id, "adaptive", 100).log
        full = GRADER.grade_log(task_id, log).score
        assert all(GRADER.grade_log(task_id, log[:steps]).score < full for steps in (199, 180, 100, 10))


@pytest.mark.parametrize(
    ("action", "field"),
    [
        ({"batch_size": 0}, "actions[2].batch_size"),
        ({"kv_budget": float("nan")}, "actions[2].kv_budget"),
        ({"turbo": True}, "actions[2].turbo"),
        (None, "actions[2]"),
        ([], "actions[2]"),
        (3, "actions[2]"),
    ],
)
def test_a_bad_action_of_a_replay_is_named_by_index_and_field(action: Any, field: str):
    with pytest.raises(InvalidValueError) as caught:
        GRADER.grade_replay("task3", 0, [{}, {}, action])
    assert caught.value.field == field


@pytest.mark.parametrize("seed", [-1, True, "7", 2**63, 1.5])
def test_a_bad_seed_of_a_replay_is_refused(seed: Any):
    with pytest.raises(InvalidValueError, match="seed"):
        GRADER.grade_replay("task1", seed, [{}])


def test_reward_weights_do_not_touch_the_grade():
    plain = GRADER.grade_replay("task2", 4, [{}] * 30)
    assert GRADER.grade_replay("task2", 4, [{}] * 30, {"alpha": 1.0, "beta": 0.0}) == plain
    with pytest.raises(InvalidValueError, match=r"config\.alpha"):
        GRADER.grade_replay("task2", 4, [{}], {"alpha": -1.0})


def test_masked_knobs_of_a_replay_are_ignored():
    plain = GRADER.grade_replay("task1", 4, [{}] * 30)
    assert GRADER.grade_replay("task1", 4, [{"prefill_disagg": True, "quant_tier": 2}] * 30) == plain
