"""The trained policy as a file and as an agent; nothing here needs PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from agents.compare.episodes import Job, play_all
from agents.ppo.policy import Policy, PPOAgent, checkpoint_path
from agents.registry import get_agent
from agents.serving.ppo_coding import Coding
from env.serving.episode import make_env
from env.serving.tasks import TASKS
from inferencegym.errors import InferenceGymError, InvalidValueError
from inferencegym.registry import get_spec


def some_policy(task_id: str = "task1", hidden: int = 8) -> Policy:
    """Random weights, large enough that the choices vary."""
    rng, coding = np.random.default_rng(3), Coding(task_id)
    sizes = [coding.width, hidden, int(coding.sizes.sum())]
    layers = tuple(
        (rng.normal(size=(after, before)).astype(np.float32), rng.normal(size=after).astype(np.float32))
        for before, after in pairwise(sizes)
    )
    return Policy("serving", task_id, layers, {"seed": 3})


def play(agent: PPOAgent, task_id: str, steps: int = 30) -> list[object]:
    env = make_env(task_id, 10_000)
    observation = env.reset()
    agent.reset()
    actions: list[object] = []
    for _ in range(steps):
        actions.append(agent.act(observation))
        observation = env.step(actions[-1])[0]  # type: ignore[arg-type]
    return actions


def test_a_file_keeps_the_policy(tmp_path: Path) -> None:
    policy = some_policy()
    policy.save(tmp_path / "deep" / "policy.npz")
    again = Policy.load(tmp_path / "deep" / "policy.npz")
    assert (again.env, again.task_id, again.settings) == (policy.env, policy.task_id, policy.settings)
    seen = np.random.default_rng(0).uniform(-1, 1, (5, Coding("task1").width)).astype(np.float32)
    assert np.array_equal(again.logits(seen), policy.logits(seen))


def test_the_same_policy_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        some_policy().save(tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_an_agent_starts_every_episode_alike() -> None:
    agent = PPOAgent(some_policy("task3"))
    first = play(agent, "task3")
    assert len(set(first)) > 3
    assert play(agent, "task3") == first


def test_the_likeliest_setting_of_each_dial_is_chosen() -> None:
    width, sizes = 2, (3, 2)
    weights, biases = np.zeros((5, width), np.float32), np.array([0, 2, 1, 5, 4], np.float32)
    policy = Policy("serving", "task1", ((weights, biases),), {})
    assert policy.choose(np.zeros((4, width), np.float32), sizes).tolist() == [[1, 0]] * 4


def test_the_variable_names_a_file_or_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("INFERENCEGYM_PPO_CHECKPOINT", raising=False)
    assert checkpoint_path("serving", "task2").name == "ppo_serving_task2.npz"
    file = tmp_path / "serving" / "task2" / "policy.npz"
    some_policy("task2").save(file)
    for named in (tmp_path, file):
        monkeypatch.setenv("INFERENCEGYM_PPO_CHECKPOINT", str(named))
        assert checkpoint_path("InferenceGym/Serving-v0", "task2") == file
        assert isinstance(get_agent("serving", "ppo", "task2"), PPOAgent)


def test_without_a_policy_the_error_names_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("INFERENCEGYM_PPO_CHECKPOINT", str(tmp_path))
    with pytest.raises(InferenceGymError, match=r"agents\.ppo\.demo --env serving --task task1") as caught:
        get_agent("serving", "ppo", "task1")
    assert "INFERENCEGYM_PPO_CHECKPOINT" in caught.value.hint


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", b"\x93NUMPY", b"text"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "policy.npz"
    path.write_bytes(content)
    with pytest.raises(InferenceGymError, match="not a policy file"):
        Policy.load(path)


def rewritten(path: Path, **changes: object) -> Path:
    """A saved policy with some of its arrays, or the number of its layers, replaced."""
    some_policy().save(path)
    with np.load(path) as stored:
        arrays = dict(stored)
    if "layers" in changes:
        about = {**json.loads(str(arrays["about"])), "layers": changes.pop("layers")}
        arrays["about"] = np.array(json.dumps(about))
    np.savez(path, **{**arrays, **changes})  # type: ignore[arg-type]
    return path


def with_one(value: float) -> np.ndarray:
    weights = some_policy().layers[0][0].copy()
    weights[2, 1] = value
    return weights


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"weights_0": with_one(np.nan)}, "weights 0"),
        ({"weights_0": with_one(np.inf)}, "weights 0"),
        ({"biases_1": np.full(some_policy().layers[1][1].shape, np.nan)}, "biases 1"),
        ({"weights_0": some_policy().layers[0][0].astype(np.complex64)}, "weights 0"),
        ({"weights_0": np.ones(some_policy().layers[0][0].shape, dtype=np.int64)}, "weights 0"),
        ({"biases_0": np.zeros(9, np.float32)}, "layer 0"),
        ({"weights_1": np.zeros((5, 7), np.float32)}, "layer 1"),
        ({"weights_0": np.float32(1.0)}, "layer 0"),
        *(({"layers": count}, "layers") for count in (0, -1, 1.5, True, "2", None, 10**9)),
        ({"layers": 3}, "KeyError"),
    ],
)
def test_weights_that_are_none_are_refused(tmp_path: Path, changes: dict[str, object], named: str) -> None:
    path = rewritten(tmp_path / "policy.npz", **changes)
    with pytest.raises(InferenceGymError, match=f"not a policy file .*{named}"):
        Policy.load(path)


def test_archives_of_other_things_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", weights=np.zeros(3))
    np.savez(tmp_path / "code.npz", about=np.array([print], dtype=object))
    for name in ("other.npz", "code.npz"):
        with pytest.raises(InferenceGymError, match="not a policy file"):
            Policy.load(tmp_path / name)


def test_a_policy_of_another_task_or_of_other_dials_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    some_policy("task1").save(tmp_path / "policy.npz")
    monkeypatch.setenv("INFERENCEGYM_PPO_CHECKPOINT", str(tmp_path / "policy.npz"))
    with pytest.raises(InvalidValueError, match="trained on task3 of serving"):
        get_agent("serving", "ppo", "task3")
    other = some_policy("task1")
    shrunk = replace(other, layers=((other.layers[0][0][:, :-1], other.layers[0][1]), *other.layers[1:]))
    with pytest.raises(InvalidValueError, match="inputs"):
        PPOAgent(shrunk)


@pytest.mark.parametrize("task_id", TASKS)
def test_the_shipped_policies_play(monkeypatch: pytest.MonkeyPatch, task_id: str) -> None:
    monkeypatch.delenv("INFERENCEGYM_PPO_CHECKPOINT", raising=False)
    agent = get_agent("serving", "ppo", task_id)
    assert isinstance(agent, PPOAgent)
    assert len(set(play(agent, task_id))) > 1


@pytest.mark.parametrize("task_id", ["task2", "task3"])
def test_the_shipped_policies_beat_the_best_constant_setting(
    monkeypatch: pytest.MonkeyPatch, task_id: str
) -> None:
    monkeypatch.delenv("INFERENCEGYM_PPO_CHECKPOINT", raising=False)
    jobs = [Job(task_id, agent, seed) for agent in ("ppo", "static") for seed in range(200, 206)]
    scores = [episode.score for episode in play_all(get_spec("serving"), jobs)]
    assert np.mean(scores[:6]) > np.mean(scores[6:]) + 0.01


def test_without_gymnasium_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "from agents.registry import get_agent\n"
        "from inferencegym.errors import InferenceGymError\n"
        "try: get_agent('serving', 'ppo', 'task1')\n"
        "except InferenceGymError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "gymnasium" in done.stdout
    assert "inferencegym[gym]" in done.stdout
