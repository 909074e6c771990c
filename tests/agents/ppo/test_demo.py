"""The training demo end to end: short runs, the same weights from the same seed, and what it refuses."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from agents.compare.episodes import Job, play_episode
from agents.compare.results import Curve
from agents.ppo.policy import Policy
from agents.registry import get_agent
from env.serving.episode import make_env
from inferencegym.registry import get_spec

pytestmark = [
    pytest.mark.demo,
    # From inside the training libraries.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

HELD_OUT = 3


def train(folder: Path, *more: str, task: str = "task1") -> Path:
    from agents.ppo.demo import main

    words = ["--task", task, "--steps", "2048", "--envs", "16", "--evaluations", "2", *more]
    assert main([*words, "--held-out", str(HELD_OUT), "--out", str(folder)]) == 0
    return folder / "serving" / task


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished short run."""
    return train(tmp_path_factory.mktemp("ppo"))


def weights_of(folder: Path) -> list[np.ndarray]:
    return [array for layer in Policy.load(folder / "policy.npz").layers for array in layer]


def test_a_run_leaves_its_files(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    files = {"policy.npz", "model.zip", "progress.csv", "scores.csv", "curve.png", "curve.json"}
    assert names == {*files, "tensorboard"}
    assert list((run / "tensorboard").glob("events.out.tfevents.*"))


def test_the_picture_is_a_picture(run: Path) -> None:
    from PIL import Image

    with Image.open(run / "curve.png") as image:
        image.load()
        assert image.size[0] >= 800
        assert len(image.convert("RGB").getcolors(1 << 24) or ()) > 10


def test_the_log_holds_the_learning_curve(run: Path) -> None:
    with (run / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["time/steps"]) for row in rows] == [0, 1024, 2048]
    assert all(0.0 <= float(row["held_out/score"]) <= 1.0 for row in rows)


def test_the_points_of_the_curve_are_those_of_the_log(run: Path) -> None:
    curve = Curve.read(run / "curve.json")
    assert curve
    with (run / "progress.csv").open() as file:
        rows = [(int(r["time/steps"]), float(r["held_out/score"])) for r in csv.DictReader(file)]
    assert [at for at, _ in curve.points] == [at for at, _ in rows]
    assert [mean.value for _, mean in curve.points] == pytest.approx([score for _, score in rows])
    policy = Policy.load(run / "policy.npz")
    assert (curve.settings, curve.policy) == (policy.settings, policy.fingerprint)
    assert curve.command == (
        "python -m agents.ppo.demo --env serving --task task1 --steps 2048 --envs 16 --evaluations 2 "
        "--held-out 3"
    )


def test_before_training_it_plays_the_default_action(run: Path) -> None:
    with (run / "progress.csv").open() as file:
        first = next(csv.DictReader(file))
    with (run / "scores.csv").open() as file:
        baseline = [float(row["score"]) for row in csv.DictReader(file) if row["agent"] == "baseline"]
    assert len(baseline) == HELD_OUT
    assert float(first["held_out/score"]) == pytest.approx(np.mean(baseline), abs=1e-3)


def test_the_agent_plays_what_the_demo_graded(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERENCEGYM_PPO_CHECKPOINT", str(run.parents[1]))
    with (run / "scores.csv").open() as file:
        graded = {int(row["seed"]): row for row in csv.DictReader(file) if row["agent"] == "ppo"}
    assert sorted(graded) == [100, 101, 102]
    for seed, row in graded.items():
        played = play_episode(get_spec("serving"), Job("task1", "ppo", seed))
        assert played.score == pytest.approx(float(row["score"]), abs=1e-6)
        assert played.reward == pytest.approx(float(row["reward"]), abs=1e-6)


def test_the_same_command_gives_the_same_weights_and_another_seed_others(run: Path, tmp_path: Path) -> None:
    again, other = train(tmp_path / "again"), train(tmp_path / "other", "--seed", "2")
    pairs = list(zip(weights_of(run), weights_of(again), strict=True))
    assert all(np.array_equal(one, two) for one, two in pairs)
    assert not all(np.array_equal(a, b) for a, b in zip(weights_of(run), weights_of(other), strict=True))


def test_the_file_holds_the_network_of_the_model(run: Path) -> None:
    import torch
    from stable_baselines3 import PPO

    policy, model = Policy.load(run / "policy.npz"), PPO.load(run / "model.zip", device="cpu")
    seen = np.random.default_rng(0).uniform(-1, 1, (7, policy.layers[0][0].shape[1])).astype(np.float32)
    with torch.no_grad():
        parts = model.policy.get_distribution(torch.as_tensor(seen)).distribution
    logits = np.concatenate([part.logits.numpy() for part in parts], axis=1)
    ours = policy.logits(seen)
    # Categorical normalises its logits, part by part.
    first = 0
    for part in parts:
        end = first + part.logits.shape[1]
        gap = ours[:, first:end] - logits[:, first:end]
        assert np.ptp(gap, axis=1).max() < 1e-5
        first = end


def test_all_knobs_are_learned_on_task3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(tmp_path, task="task3")
    monkeypatch.setenv("INFERENCEGYM_PPO_CHECKPOINT", str(tmp_path))
    agent, env = get_agent("serving", "ppo", "task3"), make_env("task3", 10_000)
    agent.reset()
    env.step(agent.act(env.reset()))


def test_episodes_start_spread_out_and_end_cut_off() -> None:
    from agents.ppo.demo import FIRST_TRAINING_SEED, SpreadVecEnv

    env = SpreadVecEnv("serving", "task2", 8, FIRST_TRAINING_SEED)
    env.reset()
    ends: list[int] = []
    for step in range(250):
        wanted = np.zeros((8, len(env.coding.sizes)), dtype=np.int64)
        seen, _, ended, infos = env.step(wanted)
        for row in np.flatnonzero(ended):
            assert infos[row]["TimeLimit.truncated"]
            assert not np.array_equal(infos[row]["terminal_observation"], seen[row])
            ends.append(step)
    env.close()
    assert len(ends) == 10
    assert len(set(ends)) == len(ends)
    assert np.diff(ends).max() == 25


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--task", "task4"], "task_id"),
        (["--env", "servin"], "Did you mean serving"),
        (["--task", "tsk1"], "Did you mean task"),
        (["--steps", "-1"], "steps"),
        (["--steps", "many"], "--steps"),
        (["--envs", "-4"], "envs"),
        (["--rollout", "0"], "rollout"),
        (["--epochs", "0"], "epochs"),
        (["--hidden", "0"], "hidden"),
        (["--minibatches", "7"], "minibatches"),
        (["--learning-rate", "nan"], "learning_rate"),
        (["--discount", "1.5"], "discount"),
        (["--entropy", "-0.1"], "entropy"),
        (["--seed", "-1"], "seed"),
        (["--held-out", "1"], "held_out"),
        (["--held-out", "101"], "held_out"),
        (["--evaluations", "0"], "evaluations"),
        (["--speed", "11"], "--speed"),
        (["--out", "/proc/x"], "out"),
    ],
)
def test_wrong_settings_are_named(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from agents.ppo.demo import main

    with pytest.raises(SystemExit) as stopped:
        main(["--out", str(tmp_path), *words])
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
