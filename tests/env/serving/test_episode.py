"""InferenceEnv: its life cycle, its arguments, masks, state and errors."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from env.protocols import Episode
from env.serving.episode import InferenceEnv, describe, make_env, parse_action
from env.serving.tasks import TASKS, get_task
from inferencegym.errors import (
    EpisodeDoneError,
    EpisodeNotStartedError,
    InvalidValueError,
    UnknownNameError,
)
from inferencegym.models.serving import EpisodeState, RewardConfig, ServeAction
from simulator.packs.trace_sim import shared_simulator
from simulator.serving.engine import Knobs, ServingEngine
from tests.env.episodes import (
    ACTIONS,
    LENGTH,
    SEEDS,
    TASK_IDS,
    as_json,
    random_actions,
    started,
    transcript,
)
from tests.simulator.properties import bounded

DEFAULTS = ServeAction().model_dump()


def test_it_is_an_episode():
    assert isinstance(make_env("task1"), Episode)
    assert InferenceEnv(shared_simulator(), "task1").task is TASKS["task1"]


def test_an_unknown_task_is_answered_with_near_ones():
    with pytest.raises(UnknownNameError, match="Did you mean task1"):
        make_env("tsk_1")


# --- life cycle ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["step", "state", "snapshot"])
def test_nothing_works_before_reset(call: str):
    env = make_env("task1")
    with pytest.raises(EpisodeNotStartedError, match=r"reset\(\)"):
        getattr(env, call)(*([ServeAction()] if call == "step" else []))
    assert not env.done
    # The attempt left no trace.
    env.reset()
    assert as_json(env.step(ServeAction())) == as_json(started("task1", 42).step(ServeAction()))


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_a_finished_episode_refuses_a_step_and_stays_as_it_is(task_id: str):
    env = started(task_id)
    for _ in range(LENGTH):
        assert not env.done
        last = env.step(ServeAction())
    assert last[2] is True
    before = json.dumps([env.state(), repr(env.snapshot())])
    for action in (ServeAction(batch_size=1), {"batch_size": "wrong"}):
        with pytest.raises(EpisodeDoneError, match="200 steps"):
            env.step(action)
    assert json.dumps([env.state(), repr(env.snapshot())]) == before
    env.reset()
    assert env.state()["step_count"] == 0


def test_the_default_seed_is_42():
    assert make_env("task2").reset() == make_env("task2", 42).reset()


# --- seeds -----------------------------------------------------------------------------------------------

BAD_SEEDS: list[Any] = [True, False, "7", "", 1.0, 1.5, None, -1, 2**63, 2**70, float("nan"), [1], b"1"]


@pytest.mark.parametrize("seed", BAD_SEEDS, ids=repr)
def test_bad_seeds_are_refused_and_change_nothing(seed: Any):
    with pytest.raises(InvalidValueError, match=r"seed: .* a whole number from 0 to 9223372036854775807"):
        make_env("task1", seed)
    env = started("task1", 3)
    before = (env.state(), repr(env.snapshot()))
    if seed is not None:  # reset(None) keeps the current seed
        with pytest.raises(InvalidValueError):
            env.reset(seed)
    assert (env.state(), repr(env.snapshot())) == before


@pytest.mark.parametrize("seed", [0, 2**63 - 1, np.int64(5), np.uint8(5)])
def test_good_seeds(seed: Any):
    env = make_env("task1", seed)
    env.reset()
    assert env.state()["seed"] == int(seed)
    assert type(env.state()["seed"]) is int


# --- actions ---------------------------------------------------------------------------------------------

BAD_ACTIONS: list[tuple[Any, str]] = [
    ({"batch_size": 0}, "action.batch_size"),
    ({"batch_size": 513}, "action.batch_size"),
    ({"batch_size": 1.5}, "action.batch_size"),
    ({"batch_size": "32"}, "action.batch_size"),
    ({"batch_size": True}, "action.batch_size"),
    ({"batch_size": None}, "action.batch_size"),
    ({"kv_budget": 0.09}, "action.kv_budget"),
    ({"kv_budget": 1.01}, "action.kv_budget"),
    ({"kv_budget": float("nan")}, "action.kv_budget"),
    ({"kv_budget": float("inf")}, "action.kv_budget"),
    ({"kv_budget": -float("inf")}, "action.kv_budget"),
    ({"spec_length": 3}, "action.spec_length"),
    ({"prefill_disagg": 1}, "action.prefill_disagg"),
    ({"prefill_disagg": "true"}, "action.prefill_disagg"),
    ({"quant_tier": 3}, "action.quant_tier"),
    ({"quant_tier": "FP8"}, "action.quant_tier"),
    ({"quant_tier": float("nan")}, "action.quant_tier"),
    ({"turbo": 1}, "action.turbo"),
    ([], "action"),
    (None, "action"),
    (7, "action"),
    ("batch_size", "action"),
]


@pytest.mark.parametrize(("action", "field"), BAD_ACTIONS, ids=repr)
def test_bad_actions_are_named_and_change_nothing(action: Any, field: str):
    env = started("task3", 1)
    env.step(ServeAction())
    before = (env.state(), repr(env.snapshot()))
    with pytest.raises(InvalidValueError) as caught:
        env.step(action)
    assert caught.value.field == field
    assert (env.state(), repr(env.snapshot())) == before


def test_a_mapping_is_as_good_as_a_model():
    raw = {"kv_budget": 1, "batch_size": 64.0, "quant_tier": "int4"}
    model = ServeAction(kv_budget=1.0, batch_size=64, quant_tier=2)
    assert as_json(started("task3").step(raw)) == as_json(started("task3").step(model))
    assert parse_action(raw) == model
    assert parse_action({}) == ServeAction()


# --- masks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task_id", "masked"),
    [
        ("task1", ["spec_length", "prefill_disagg", "quant_tier"]),
        ("task2", ["prefill_disagg", "quant_tier"]),
        ("task3", []),
    ],
)
def test_masked_knobs_are_named_and_held_at_their_defaults(task_id: str, masked: list[str]):
    env = started(task_id)
    wanted = ServeAction(kv_budget=0.5, spec_length=2, batch_size=50, prefill_disagg=True, quant_tier=1)
    info = env.step(wanted)[3]
    assert info["masked_actions"] == masked == list(get_task(task_id).masked_actions)
    assert info["action"] == {**wanted.model_dump(), **{name: DEFAULTS[name] for name in masked}}


@bounded(15)
@given(st.sampled_from(["task1", "task2"]), SEEDS, st.integers(0, 2**32))
def test_masked_knobs_change_nothing(task_id: str, seed: int, action_seed: int):
    actions = random_actions(action_seed, 80)
    masked = get_task(task_id).masked_actions
    plain = [one.model_copy(update={name: DEFAULTS[name] for name in masked}) for one in actions]
    assert plain != actions
    assert transcript(started(task_id, seed), actions) == transcript(started(task_id, seed), plain)


@bounded()
@given(ACTIONS)
def test_reserved_memory_is_what_a_step_reports(action: ServeAction):
    env = started("task3")
    reserved = env.reserved_memory_gb(action)
    metrics = env.step(action)[3]["metrics"]
    assert metrics["oom"] is (reserved > 40.0)
    assert metrics["gpu_memory_gb"] == min(reserved, 40.0)


# --- reward configuration --------------------------------------------------------------------------------


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_weights_can_be_overridden_one_by_one(task_id: str):
    """Also where the task's own weights sum to more than 1, as in tasks 2 and 3."""
    default = get_task(task_id).weights
    plain = started(task_id).step(ServeAction())[3]["reward_terms"]
    names = {"alpha": "throughput", "beta": "latency", "gamma": "violations", "delta": "cost"}
    for weight, term in names.items():
        env = make_env(task_id, 0, {weight: getattr(default, weight) / 2})
        env.reset()
        terms = env.step(ServeAction())[3]["reward_terms"]
        assert terms[term] == pytest.approx(plain[term] / 2)
        assert {k: v for k, v in terms.items() if k != term} == {k: v for k, v in plain.items() if k != term}


def test_a_model_a_mapping_and_nothing():
    assert make_env("task1").weights == get_task("task1").weights
    assert make_env("task1", config={}).weights == get_task("task1").weights
    by_model = InferenceEnv(shared_simulator(), "task1", 0, RewardConfig(alpha=1.0, beta=0.0))
    assert by_model.weights == make_env("task1", config={"alpha": 1.0, "beta": 0.0}).weights


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"alpha": 1.01}, "config.alpha"),
        ({"beta": -0.1}, "config.beta"),
        ({"gamma": float("nan")}, "config.gamma"),
        ({"delta": float("inf")}, "config.delta"),
        ({"alpha": True}, "config.alpha"),
        ({"alpha": "0.5"}, "config.alpha"),
        ({"epsilon": 0.1}, "config.epsilon"),
        ({"beta": 0.6, "gamma": 0.6}, "config"),
        ({"gamma": 0.9}, "config"),
        ("alpha", "config"),
        ([0.1], "config"),
    ],
)
def test_bad_weights_are_named(config: Any, field: str):
    with pytest.raises(InvalidValueError) as caught:
        make_env("task3", 0, config)
    assert caught.value.field == field


@bounded(20)
@given(
    st.fixed_dictionaries({name: st.floats(0.0, 1.0) for name in ("alpha", "beta", "gamma", "delta")}), SEEDS
)
def test_whatever_weights_are_accepted_rewards_stay_in_range(config: dict[str, float], seed: int):
    try:
        env = make_env("task3", seed, config)
    except InvalidValueError:
        assert config["beta"] + config["gamma"] + config["delta"] > 1.0
        return
    env.reset()
    for action in random_actions(seed % 2**32, 60):
        assert -1.0 <= env.step(action)[1] <= 1.0


# --- state and information -------------------------------------------------------------------------------


def test_state_is_the_episode_s_metadata():
    env = started("task2", 11)
    total = sum(env.step(ServeAction())[1] for _ in range(5))
    state = EpisodeState.model_validate(env.state())
    assert (state.task_id, state.seed, state.step_count, state.done) == ("task2", 11, 5, False)
    assert state.cumulative_reward == pytest.approx(total)
    assert state.episode_id == "task2-11"
    env.episode_id = "mine"
    assert env.state()["episode_id"] == "mine"


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_the_phase_is_that_of_the_second_just_served(task_id: str):
    env = started(task_id)
    phases = []
    for _ in range(LENGTH):
        info = env.step(ServeAction())[3]
        assert info["workload"]["phase"] == env.state()["workload_phase"]
        assert info["workload"]["is_burst"] is (info["workload"]["phase"] == "burst")
        phases.append(info["workload"]["phase"])
    expected = {"warmup", "steady"} if task_id == "task1" else {"warmup", "steady", "burst", "cooldown"}
    assert set(phases) == expected


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_observation_and_info_tell_the_same(task_id: str):
    env = started(task_id)
    cost = 0.0
    for action in random_actions(3):
        observation, _, _, info = env.step(action)
        metrics, state = info["metrics"], info["workload"]
        cost += metrics["cost_per_1k"]
        assert observation.cost_so_far == pytest.approx(cost)
        assert observation.ttft_p50_ms == metrics["ttft_p50_ms"] <= metrics["ttft_p99_ms"]
        assert observation.tpot_p50_ms == metrics["tpot_ms"]
        assert observation.gpu_memory_used_gb == metrics["gpu_memory_gb"]
        assert observation.slo_violation_rate == metrics["slo_violation_rate"]
        assert observation.spec_accept_rate == metrics["spec_accept_rate"]
        assert (observation.spec_accept_rate > 0.0) is (info["action"]["spec_length"] > 0)
        assert observation.arrival_rate == state["arrival_rate"]
        assert observation.mean_prompt_len == state["mean_prompt_len"]
        assert observation.priority_distribution.model_dump() == state["priority_distribution"]


@pytest.mark.parametrize("task_id", TASK_IDS)
def test_latencies_jitter_by_five_percent_and_nothing_else_does(task_id: str):
    """What is reported is what a bare engine yields, times three draws of that second."""
    env = started(task_id)
    traffic = env.generator.episode(np.random.default_rng(0))
    engine = ServingEngine(env.engine_model, traffic)
    engine.serve(Knobs())
    jitter = traffic.jitter
    for second, action in enumerate(random_actions(2), start=1):
        info = env.step(action)[3]
        metrics, bare = info["metrics"], engine.serve(Knobs(**info["action"]))
        p50, p99, tpot = jitter[second]
        assert metrics["ttft_p50_ms"] == bare.ttft_p50_ms * p50
        assert metrics["ttft_p99_ms"] == max(bare.ttft_p99_ms * p99, metrics["ttft_p50_ms"])
        assert metrics["tpot_ms"] == bare.tpot_ms * tpot
        assert metrics["tokens_per_sec"] == bare.tokens_per_s
        assert metrics["cost_per_1k"] == bare.cost_per_1k
        assert metrics["slo_violations"] == bare.violations
    assert jitter.std() == pytest.approx(0.05, rel=0.1)


def test_tpot_stays_in_range_when_the_last_token_meets_a_reload():
    """Sequence time over tokens: one ten-thousandth of a token in a second of 0.64 s stall is 6,400 s."""
    env = started("task3")
    result = env._engine.serve(Knobs())
    assert env._measure(result._replace(tpot_ms=6.4e6)).tpot_ms == 1_000_000.0


def test_describe_is_json_and_names_everything():
    info = json.loads(json.dumps(describe()))
    assert info["reward_weights"]["task3"] == {"alpha": 0.4, "beta": 0.25, "gamma": 0.35, "delta": 0.15}
    assert set(info["workloads"]) == set(TASKS)
    assert info["trace_pack"]["model"] == "meta-llama/Meta-Llama-3.1-8B"
    assert info["calibration"]["tasks"]["task1"]["optimum_tokens_per_s"] > 1000.0
