"""The vector environment against single ones, and as gymnasium wants it."""

from __future__ import annotations

import gc
import math
import threading
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from inferencegym.errors import (
    EpisodeDoneError,
    EpisodeNotStartedError,
    InferenceGymError,
    InvalidValueError,
    UnknownNameError,
)
from inferencegym.gym import ServingGymEnv
from inferencegym.gym.serving.vector import ServingVectorEnv
from tests.inferencegym.gym.tools import MODES, SERVING, TASKS, assert_same_infos, make, make_vec

AUTORESET = tuple(AutoresetMode)


def pair(num_envs: int, autoreset: AutoresetMode, **settings: Any) -> tuple[Any, Any]:
    """Ours, and gymnasium's own around single environments in plain Python."""
    ours = make_vec(num_envs, autoreset_mode=autoreset, **settings)
    theirs = make_vec(
        num_envs, "sync", vector_kwargs={"autoreset_mode": autoreset}, backend="python", **settings
    )
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    return ours, theirs


def assert_same(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> None:
    """Two answers of reset or step."""
    for one, two in zip(ours[:-1], theirs[:-1], strict=True):
        assert one.dtype == two.dtype
        assert np.array_equal(one, two)
    assert_same_infos(ours[-1], theirs[-1])


@pytest.mark.parametrize("autoreset", AUTORESET)
@pytest.mark.parametrize("task_id", TASKS)
def test_trajectories_equal_those_of_single_environments(task_id: str, autoreset: AutoresetMode) -> None:
    """Two whole episodes and the start of a third, random actions, evictions and out-of-memory included."""
    ours, theirs = pair(3, autoreset, task_id=task_id)
    assert_same(ours.reset(seed=7), theirs.reset(seed=7))
    ours.action_space.seed(3)
    evictions = ooms = 0
    for _ in range(410):
        actions = ours.action_space.sample()
        answer, expected = ours.step(actions), theirs.step(actions)
        assert_same(answer, expected)
        if "metrics" in answer[4]:
            evictions += answer[4]["metrics"]["eviction_events"].sum()
            ooms += answer[4]["metrics"]["oom"].sum()
        if autoreset is AutoresetMode.DISABLED and answer[3].any():
            options = {"reset_mask": answer[3]}
            assert_same(ours.reset(options=dict(options)), theirs.reset(options=dict(options)))
    assert evictions > 0
    assert ooms > 0
    ours.close()


@pytest.mark.parametrize("mode", MODES)
def test_every_kind_of_action_is_the_same_action(mode: str) -> None:
    ours, theirs = pair(4, AutoresetMode.SAME_STEP, task_id="task3", action_mode=mode)
    assert_same(ours.reset(seed=[5, 1, 5, 8]), theirs.reset(seed=[5, 1, 5, 8]))
    ours.action_space.seed(0)
    for _ in range(60):
        actions = ours.action_space.sample()
        assert_same(ours.step(actions), theirs.step(actions))
    ours.close()


def staggered(autoreset: AutoresetMode) -> tuple[Any, Any]:
    """Sub-environments that end at different times: some were reset in the middle."""
    ours, theirs = pair(5, autoreset, task_id="task2")
    assert_same(ours.reset(seed=0), theirs.reset(seed=0))
    mask = np.asarray([False, True, False, True, False])
    for env in (ours, theirs):
        for _ in range(70):
            env.step(np.zeros(env.action_space.shape, dtype=np.float32))
    assert_same(
        ours.reset(seed=[None, 3, None, None, 9], options={"reset_mask": mask.copy()}),
        theirs.reset(seed=[None, 3, None, None, 9], options={"reset_mask": mask.copy()}),
    )
    return ours, theirs


@pytest.mark.parametrize("autoreset", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_episodes_that_end_at_different_times(autoreset: AutoresetMode) -> None:
    ours, theirs = staggered(autoreset)
    ours.action_space.seed(1)
    ends = 0
    for _ in range(220):
        actions = ours.action_space.sample()
        answer, expected = ours.step(actions), theirs.step(actions)
        assert_same(answer, expected)
        ends += int(answer[3].any() and not answer[3].all())
    assert ends == 2
    ours.close()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(threads: int) -> None:
    env, alone = make_vec(64, task_id="task3", threads=threads), make_vec(64, task_id="task3", threads=1)
    env.reset(seed=0)
    alone.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(205):
        actions = env.action_space.sample()
        assert_same(env.step(actions), alone.step(actions))
    env.close()
    alone.close()


def test_spaces_are_batches_of_the_single_ones() -> None:
    single = make(task_id="task1")
    env = make_vec(7, task_id="task1")
    assert env.num_envs == 7
    assert env.single_observation_space == single.observation_space
    assert env.single_action_space == single.action_space
    assert env.observation_space == batch_space(single.observation_space, 7)
    assert env.action_space == batch_space(single.action_space, 7)
    observations, _ = env.reset(seed=0)
    assert env.observation_space.contains(observations)
    observations, rewards, terminations, truncations, _ = env.step(env.action_space.sample())
    assert env.observation_space.contains(observations)
    assert rewards.shape == terminations.shape == truncations.shape == (7,)
    assert (rewards.dtype, terminations.dtype, truncations.dtype) == (np.float64, np.bool_, np.bool_)
    assert not terminations.any()
    env.close()


def test_seeds_differ_between_sub_environments_and_between_episodes() -> None:
    env = make_vec(4, task_id="task1")
    first, infos = env.reset(seed=0)
    assert infos["seed"].tolist() == [0, 1, 2, 3]
    again, _ = env.reset(seed=0)
    assert np.array_equal(first, again)
    second, later = env.reset()
    third, _ = env.reset()
    assert len({row.tobytes() for batch in (first, second, third) for row in batch}) == 12
    env.reset(seed=0)
    assert env.reset()[1]["seed"].tolist() == later["seed"].tolist()
    assert make_vec(4).reset()[1]["seed"].tolist() != make_vec(4).reset()[1]["seed"].tolist()
    assert env.unwrapped.np_random_seed == (0, 1, 2, 3)
    env.close()


def test_answers_are_copies() -> None:
    env = make_vec(3, task_id="task1")
    observations, infos = env.reset(seed=0)
    kept = observations.copy()
    answers = [env.step(env.action_space.sample()) for _ in range(3)]
    kept_rewards = answers[0][1].copy()
    for observation, reward, _, _, info in answers:
        observation[:] = 7.0
        reward[:] = 7.0
        info["metrics"]["ttft_p50_ms"][:] = -1.0
        info["action_mask"][:] = 9
    infos["action_mask"][:] = 9
    assert np.array_equal(observations, kept)
    other = make_vec(3, task_id="task1")
    other.reset(seed=0)
    env.reset(seed=0)
    env.action_space.seed(5)
    for _ in range(5):
        actions = env.action_space.sample()
        assert_same(env.step(actions), other.step(actions))
    assert kept_rewards.shape == (3,)
    env.close()
    other.close()


def test_actions_are_not_written_to() -> None:
    env = make_vec(2, task_id="task1")
    env.reset(seed=0)
    actions = np.zeros((2, 5))
    env.step(actions)
    assert not actions.any()
    env.close()


NATURAL = {
    "kv_budget": [[1.0], [1.0]],
    "spec_length": [0, 0],
    "batch_size": [32, 32],
    "prefill_disagg": [0, 0],
    "quant_tier": [0, 0],
}


@pytest.mark.parametrize(
    ("mode", "actions", "message"),
    [
        ("flat", np.zeros((3, 5)), "shape"),
        ("flat", np.zeros(5), "shape"),
        ("flat", [[0.0] * 5, [0.0, math.nan, 0.0, 0.0, 0.0]], r"actions\[1\]\.spec_length"),
        ("flat", [[math.inf] * 5] * 2, r"actions\[0\]\.kv_budget"),
        ("flat", "no numbers", "actions"),
        ("multidiscrete", [[0, 0, 0, 0, 0], [0, 0, 16, 0, 0]], r"actions\[1\]\.batch_size"),
        ("multidiscrete", [[0.5, 0, 0, 0, 0]] * 2, r"actions\[0\]\.kv_budget"),
        ("flat", np.zeros((2, 5), dtype=np.complex128), "actions"),
        ("flat", [["0.5"] * 5] * 2, "actions"),
        ("multidiscrete", [[0j] * 5] * 2, "actions"),
        ("dict", {"kv_budget": [[1.0], [1.0]]}, r"actions\.spec_length"),
        ("dict", {**NATURAL, "speed": [1, 1]}, r"actions\.speed"),
        ("dict", {**NATURAL, "kv_budget": np.array([[0.5 + 1j], [0.5]])}, r"actions\.kv_budget"),
        ("dict", {**NATURAL, "batch_size": ["3", "4"]}, r"actions\.batch_size"),
        ("dict", {**NATURAL, "batch_size": [3]}, r"actions\.batch_size"),
        ("dict", [NATURAL, NATURAL], "actions"),
    ],
)
def test_bad_actions_are_refused_and_change_nothing(mode: str, actions: Any, message: str) -> None:
    env = make_vec(2, task_id="task3", action_mode=mode)
    env.reset(seed=0)
    with pytest.raises(InvalidValueError, match=message):
        env.step(actions)
    assert env.step(env.action_space.sample())[4]["timestep"].tolist() == [1, 1]
    env.close()


def test_the_exact_bounds_of_a_knob_are_taken() -> None:
    env = make_vec(2, task_id="task3", action_mode="dict")
    env.reset(seed=1)
    actions = batch_space(env.single_action_space, 2).sample()
    actions["kv_budget"] = np.array([[0.1], [1.0]], dtype=np.float64).reshape(actions["kv_budget"].shape)
    env.step(actions)
    env.close()


@pytest.mark.parametrize(
    ("knob", "values"),
    [
        ("kv_budget", [[0.05], [1.0]]),
        ("batch_size", [0, 4]),
        ("quant_tier", [0.5, 1]),
        ("spec_length", [5, 0]),
    ],
)
def test_bad_dict_actions_name_the_knob(knob: str, values: Any) -> None:
    env = make_vec(2, task_id="task3", action_mode="dict")
    env.reset(seed=0)
    with pytest.raises(InvalidValueError, match=rf"actions\[0\]\.{knob}"):
        env.step({**env.action_space.sample(), knob: np.asarray(values)})
    env.close()


def test_the_order_of_calls_is_enforced() -> None:
    env = ServingVectorEnv(2, autoreset_mode="Disabled")
    actions = env.action_space.sample()
    with pytest.raises(EpisodeNotStartedError):
        env.step(actions)
    with pytest.raises(EpisodeNotStartedError):
        env.reset(options={"reset_mask": np.asarray([True, False])})
    env.reset(seed=0)
    for _ in range(200):
        _, _, _, truncated, _ = env.step(actions)
    assert truncated.all()
    with pytest.raises(EpisodeDoneError, match="Episode 0"):
        env.step(actions)
    env.close()


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        *(({"num_envs": count}, "num_envs") for count in (0, -1, True, 1.5, "2", None, 10**9)),
        *(({"threads": count}, "threads") for count in (0, -1, True, 1.5, "2", 100_000)),
        ({"render_mode": "ansi"}, "render_mode"),
        ({"autoreset_mode": "Sometimes"}, "autoreset_mode"),
        ({"config": {"beta": -1.0}}, "beta"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValueError, match=field):
        ServingVectorEnv(**settings)


@pytest.mark.parametrize("mask", [np.zeros(2, dtype=np.bool_), np.ones(3, dtype=np.bool_), [1, 0], "both"])
def test_bad_reset_masks_and_seeds_are_refused(mask: Any) -> None:
    env = ServingVectorEnv(2)
    env.reset(seed=0)
    with pytest.raises(InvalidValueError, match="reset_mask"):
        env.reset(options={"reset_mask": mask})
    env.close()


BAD_SEEDS: list[Any] = [
    -5, True, 1.0, math.nan, 2**63 - 1, 2**70, "34", b"34", {1, 2}, {"a": 1, "b": 2},
    np.zeros((2, 1)), [1, 2.7], [1, "5"], [1, True], [1, -1], [1, 2**63], [1], [1, 2, 3], [[1], [2]],
    np.array([1.0, 2.0]), np.array([True, False]), np.float64(3.0), len,
]  # fmt: skip


@pytest.mark.parametrize("seed", BAD_SEEDS, ids=repr)
def test_bad_seeds_are_refused_and_change_nothing(seed: Any) -> None:
    env, twin = ServingVectorEnv(2, threads=1), ServingVectorEnv(2, threads=1)
    actions = np.zeros((2, 5), dtype=np.float32)
    for each in (env, twin):
        each.reset(seed=4)
        each.step(actions)
    with pytest.raises(InvalidValueError, match="seed"):
        env.reset(seed=seed)
    assert env.np_random_seed == twin.np_random_seed
    for _ in range(200):  # and past the end of the episode
        assert_same(env.step(actions), twin.step(actions))
    env.close()
    twin.close()


def test_any_kind_of_whole_number_is_a_seed() -> None:
    env = ServingVectorEnv(2, threads=1)
    expected = env.reset(seed=[7, 8])[0]
    for seed in (
        7,
        np.int64(7),
        (7, 8),
        np.array([7, 8]),
        np.array([7, 8], dtype=np.uint8),
        [np.int32(7), 8],
    ):
        assert np.array_equal(env.reset(seed=seed)[0], expected)
    assert env.reset(seed=2**63 - 2)[1]["seed"].tolist() == [2**63 - 2, 2**63 - 1]
    env.close()


@pytest.mark.parametrize("options", ["abc", 5, [1], {"reset_masks": [True, True]}, {"seed": 1}, True])
def test_other_options_are_refused(options: Any) -> None:
    env = ServingVectorEnv(2, threads=1)
    with pytest.raises(InvalidValueError, match="options"):
        env.reset(seed=1, options=options)
    env.reset(seed=1, options={})
    env.close()


def test_no_task_is_the_first_one() -> None:
    assert make_vec(2, task_id=None).unwrapped.task.id == make(task_id=None).unwrapped.task.id == "task1"


@pytest.mark.parametrize("task_id", [["task1"], True, 1.0])
def test_a_task_that_is_no_name_is_refused(task_id: Any) -> None:
    for maker in (ServingVectorEnv, ServingGymEnv):
        with pytest.raises(InvalidValueError, match="task_id"):
            maker(task_id=task_id)


def test_a_task_goes_by_its_number_and_difficulty() -> None:
    for maker in (ServingVectorEnv, ServingGymEnv):
        assert [maker(task_id=name).task.id for name in (2, "task_2", "medium")] == ["task2"] * 3


@pytest.mark.parametrize("settings", [{"action_mode": []}, {"action_mode": {}}])
def test_a_name_that_is_no_text_is_an_unknown_one(settings: dict[str, Any]) -> None:
    for maker in (ServingVectorEnv, ServingGymEnv):
        with pytest.raises(UnknownNameError, match=next(iter(settings))):
            maker(**settings)


def test_threads_that_cannot_be_had_leave_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def refusing(thread: threading.Thread) -> None:
        if len(started) == 3:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refusing)
    with pytest.raises(InferenceGymError, match="threads: only 3 of 7"):
        ServingVectorEnv(2, threads=8)
    assert [thread.is_alive() for thread in started] == [False] * 3


def test_flat_entries_beyond_the_bound_are_held_at_it_as_by_the_single_environment() -> None:
    ours, theirs = pair(2, AutoresetMode.SAME_STEP, task_id="task3")
    ours.reset(seed=1), theirs.reset(seed=1)
    beyond = np.array([[5.0] * 5, [-1e30] * 5])
    assert_same(ours.step(beyond), theirs.step(np.clip(beyond, -1.0, 1.0)))
    ours.close()


def test_the_autoreset_mode_is_declared() -> None:
    assert gymnasium.make_vec(SERVING, num_envs=2).metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    env = make_vec(2, autoreset_mode="NextStep")
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert ServingVectorEnv.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert env.spec.id == SERVING
    env.close()


def test_closing_ends_the_threads() -> None:
    env = make_vec(2, threads=4)
    threads = env.unwrapped._team.threads
    assert [thread.is_alive() for thread in threads] == [True] * 3
    env.close()
    env.close()
    assert [thread.is_alive() for thread in threads] == [False] * 3


def test_an_environment_that_is_forgotten_ends_its_threads() -> None:
    env = make_vec(2, threads=2)
    threads = env.unwrapped._team.threads
    del env
    gc.collect()
    assert not threads[0].is_alive()


def test_gymnasiums_own_wrappers_work() -> None:
    wrapped = gymnasium.wrappers.vector.DictInfoToList(
        gymnasium.wrappers.vector.RecordEpisodeStatistics(make_vec(3, task_id="task1"))
    )
    wrapped.reset(seed=0)
    for _ in range(200):
        _, _, _, truncated, infos = wrapped.step(wrapped.action_space.sample())
    assert truncated.all()
    assert [info["episode"]["l"] for info in infos] == [200, 200, 200]
    assert infos[0]["final_info"]["metrics"]["tokens_per_sec"] >= 0.0
    wrapped.close()
