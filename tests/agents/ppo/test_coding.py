"""The dials that PPO turns: they move as said, keep to the memory limit and start at the default action."""

from __future__ import annotations

import numpy as np
import pytest

from agents.ppo.coding import PlainCoding, coding_of, observation_entries
from agents.serving.ppo_coding import KNOBS, Coding
from env.serving.episode import make_env
from env.serving.tasks import TASKS, get_task
from inferencegym.errors import UnknownNameError
from inferencegym.gym import ServingVectorEnv
from inferencegym.models.routing import RoutingAction
from inferencegym.models.serving import ServeAction
from inferencegym.registry import get_spec

SERVING = get_spec("serving")
LIMIT_GB = {"task1": 40.0, "task2": 36.0, "task3": 38.0}


@pytest.fixture(params=TASKS)
def coding(request: pytest.FixtureRequest) -> Coding:
    return Coding(request.param)


def random_dials(coding: Coding, count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, coding.sizes, (count, len(coding.sizes)))


def test_dials_start_at_the_default_action_as_far_as_memory_allows(coding: Coding) -> None:
    action = coding.action(coding.start(1))
    assert action.model_copy(update={"kv_budget": 1.0}) == ServeAction()
    reserved_gb = make_env(coding.task.id).reserved_memory_gb(action)
    assert LIMIT_GB[coding.task.id] - 1.0 < reserved_gb <= LIMIT_GB[coding.task.id]


def test_no_dials_reserve_more_than_the_limit(coding: Coding) -> None:
    env = make_env(coding.task.id)
    for dials in random_dials(coding, 200):
        action = coding.action(dials[np.newaxis])
        assert env.reserved_memory_gb(action) <= LIMIT_GB[coding.task.id] + 1e-9


def test_batch_size_and_memory_turn_one_notch_and_the_rest_at_once(coding: Coding) -> None:
    dials, wanted = random_dials(coding, 100), random_dials(coding, 101)[1:]
    turned = coding.turn(dials, wanted)
    for column, name in enumerate(coding.open):
        if name in ("batch_size", "kv_budget"):
            assert np.abs(turned - dials)[:, column].max() == 1
            assert (np.sign(turned - dials) == np.sign(wanted - dials))[:, column].all()
        else:
            assert (turned == wanted)[:, column].all()


def test_locked_knobs_have_no_dial_and_keep_their_defaults(coding: Coding) -> None:
    knobs = coding.knobs(random_dials(coding, 50))
    for column, name in enumerate(KNOBS):
        if name not in get_task(coding.task.id).info.active_actions:
            assert (knobs[:, column] == float(getattr(ServeAction(), name))).all()


def test_the_vector_environment_takes_every_setting(coding: Coding) -> None:
    count = 300
    dials = random_dials(coding, count)
    env = ServingVectorEnv(count, coding.task.id, action_mode="dict")
    env.reset(seed=10_000)
    seen = coding.see(env.step(coding.actions(dials))[0], dials)
    assert seen.shape == (count, coding.width)
    assert seen.dtype == np.float32
    assert np.abs(seen).max() <= 1.0
    env.close()


def test_dials_set_anew_leave_what_was_wanted_alone() -> None:
    """The learner keeps its actions; a one-step episode would overwrite all of them."""
    for plain in (PlainCoding("serving", "task1"), coding_of("routing", "task_1")):
        wanted = plain.start(3) + 1
        kept = wanted.copy()
        plain.turn(plain.start(3), wanted)[:] = 0
        assert np.array_equal(wanted, kept)


def test_routing_has_one_dial_of_the_actions_that_differ() -> None:
    coding = coding_of("routing", "stream_1")
    assert coding.sizes.tolist() == [21]
    assert coding.action(coding.start(1)) == RoutingAction()
    every = [coding.action(np.array([[setting]])) for setting in range(21)]
    assert len(set(every)) == 21
    assert all(not action.exit_flag or action.strategy.name == "DO_CASCADE" for action in every)


def test_a_model_and_the_vector_environment_are_seen_alike(coding: Coding) -> None:
    single, many = make_env(coding.task.id), ServingVectorEnv(1, coding.task.id, action_mode="dict")
    before, entries = single.reset(10_000), many.reset(seed=10_000)[0]
    assert np.array_equal(observation_entries(SERVING, before, before), entries)
    for dials in random_dials(coding, 20):
        now = single.step(coding.action(dials[np.newaxis]))[0]
        entries = many.step(coding.actions(dials[np.newaxis]))[0]
        assert np.array_equal(observation_entries(SERVING, now, before), entries)
        before = now
    many.close()


def test_an_environment_brings_its_own_coding_or_gets_the_plain_one() -> None:
    assert isinstance(coding_of("serving", "task3"), Coding)
    with pytest.raises(UnknownNameError, match="Did you mean task"):
        coding_of("serving", "tsk3")
    with pytest.raises(UnknownNameError):
        coding_of("servingg", "task3")


def test_the_plain_coding_turns_the_open_knobs_of_the_grid() -> None:
    plain = PlainCoding("serving", "task1")
    assert plain.sizes.tolist() == [10, 16]
    assert "random" not in plain.references
    default = plain.action(plain.start(1))
    assert default == ServeAction()
    dials = np.array([[0, 15], [9, 0]])
    assert plain.actions(dials).tolist() == [[0, 0, 15, 0, 0], [9, 0, 0, 0, 0]]
    assert plain.action(dials[:1]) == ServeAction(kv_budget=0.1, batch_size=512)
    env = ServingVectorEnv(2, "task1", action_mode=plain.action_mode)
    env.reset(seed=10_000)
    seen = plain.see(env.step(plain.actions(plain.turn(plain.start(2), dials)))[0], dials)
    assert (seen.shape, seen.dtype) == ((2, plain.width), np.float32)
    assert np.abs(seen).max() <= 1.0
    env.close()
