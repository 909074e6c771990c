# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportIndexIssue=false
# (PyTorch and Stable-Baselines3 are an extra, usually not installed where types are checked; where they
# are, their own annotations are narrower than what they accept.)
"""Train PPO on a task and see what it learned: ``python -m agents.ppo.demo --env serving --task task1``.

Reads from top to bottom: settings, the environment as Stable-Baselines3 wants it, evaluation, training, table
and picture. Needs PyTorch and the extra ``demo`` (``make demo`` installs both).

Everything is written to ``runs/ppo/ENV/TASK/``:

=================  ====================================================================================
policy.npz         the trained network, for the agent ``ppo`` (``inferencegym compare --agents ppo``)
model.zip          the same as a Stable-Baselines3 model, to train on from
progress.csv       the log: a row for each evaluation; ``tensorboard/`` holds the same for TensorBoard
scores.csv         every held-out episode of the table that is printed at the end
curve.png          the learning curve, with the fixed baseline and the best constant setting
curve.json         its points; the page at /web shows those in ``agents/data/results/ENV_TASK_curve.json``
=================  ====================================================================================

Two runs of the same command on the same machine give the same weights.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from agents.compare.compare import DEFAULT_SEEDS, AgentSummary, Mean, summarise
from agents.compare.episodes import EpisodeResult, Job, play_all
from agents.compare.output_files import check_folder
from agents.compare.report import seeds_text
from agents.compare.results import Curve, Line
from env.protocols import Grader
from inferencegym.errors import InferenceGymError, InvalidValueError
from inferencegym.extras import missing
from inferencegym.options import OptionParser
from inferencegym.registry import get_spec

try:
    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.logger import configure
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize

    from agents.ppo.coding import Coding, coding_of
    from agents.ppo.policy import CHECKPOINT_VARIABLE, POLICY_FILE, Policy
    from inferencegym.gym import register_all
except ModuleNotFoundError as error:
    raise missing(
        "Training",
        error,
        "Install PyTorch and the extra: pip install torch==2.13.0 && pip install 'inferencegym[demo]'.",
        __name__,
    ) from None

__all__ = ["Args", "evaluate", "main", "train"]

FIRST_TRAINING_SEED = 10_000
SEEDS_OF_A_RUN = 1_000_000
"""Run s trains on episodes 10,000 + 1,000,000 s and up: never on a seed of a table (100 to 199)."""

DEFAULT_LEAD = 0.15
"""Head start of the default settings, in logits: a likelihood 1.16 times that of any other."""


# --- settings ----------------------------------------------------------------------------------------------


def option(default: Any, text: str) -> Any:
    """A setting and what ``--help`` says about it."""
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Args:
    """Settings; each is an option of the command line."""

    env: str = option("serving", "name of the environment")
    task: str = option("", "id of the task; empty: the environment's first")
    steps: int = option(0, "environment steps; 0: as many as the task needs")
    envs: int = option(0, "episodes side by side; 0: as the task is usually trained")
    seed: int = option(1, "of weights, exploration and training episodes")
    rollout: int = option(32, "steps of every episode between two updates")
    minibatches: int = option(4, "parts that a rollout is cut into")
    epochs: int = option(5, "passes over a rollout")
    learning_rate: float = option(1e-3, "falls linearly to 0")
    discount: float = option(0.99, "what a reward is worth one step later")
    gae_lambda: float = option(0.9, "0: trust the critic, 1: trust the return")
    entropy: float = option(0.02, "bonus for undecided dials; falls linearly to 0")
    hidden: int = option(64, "units of each of two layers")
    evaluations: int = option(20, "points of the learning curve after its start")
    held_out: int = option(20, "seeds to evaluate on: 100, 101, ...")
    out: str = option("runs/ppo", "folder; names of environment and task are added")

    def checked(self) -> Args:
        """With the task's own defaults filled in. Raises InvalidValueError, UnknownNameError."""
        spec = get_spec(self.env)
        coding = coding_of(self.env, self.task or next(iter(spec.part("tasks"))))
        at_least = {"steps": 0, "envs": 0, "held_out": 2, "seed": 0}
        for name, value in asdict(self).items():
            least = at_least.get(name, 1)
            if isinstance(value, int) and value < least:
                raise InvalidValueError(name, value, f"a whole number from {least}")
            if isinstance(value, float) and not 0.0 <= value <= 1.0:
                raise InvalidValueError(name, value, "a number from 0 to 1")
        if self.held_out > 100:
            raise InvalidValueError("held_out", self.held_out, "at most 100: seeds 100 to 199 are held out")
        usual = coding.training
        args = replace(
            self,
            env=spec.name,
            task=coding.task.id,
            steps=self.steps or usual.steps,
            envs=self.envs or usual.envs,
        )
        if args.envs * args.rollout % args.minibatches:
            raise InvalidValueError(
                "minibatches", args.minibatches, f"a divisor of envs × rollout = {args.envs * args.rollout}"
            )
        return args

    @property
    def folder(self) -> Path:
        return Path(self.out) / self.env / self.task


# --- the environment, as Stable-Baselines3 wants it --------------------------------------------------------


def many_episodes(env: str, coding: Coding, count: int) -> Any:
    """A gymnasium vector environment of one task that leaves restarting to its user."""
    register_all()
    entry_point = gymnasium.spec(get_spec(env).id).vector_entry_point
    settings: dict[str, Any] = {"task_id": coding.task.id, "action_mode": coding.action_mode}
    disabled = gymnasium.vector.AutoresetMode.DISABLED
    if entry_point is None:
        kind, settings["vector_kwargs"] = "sync", {"autoreset_mode": disabled}
    else:
        kind, settings["autoreset_mode"], settings["threads"] = "vector_entry_point", disabled, 1
    return gymnasium.make_vec(get_spec(env).id, count, kind, **settings)


class SpreadVecEnv(VecEnv):
    """N episodes behind the dials of a :class:`Coding`, each starting over with a fresh seed when it ends.

    At the first reset the episodes are spread evenly over their length. Otherwise all of them would be in
    their quiet phase, and then in their burst, at the same time, and each update would see only one of both.
    """

    def __init__(self, env: str, task_id: str, count: int, first_seed: int) -> None:
        self.coding = coding_of(env, task_id)
        self.episodes = many_episodes(env, self.coding, count)
        self._seed_to_come = first_seed
        self.returns: deque[float] = deque(maxlen=100)
        """Mean reward a step of the last episodes that ended."""
        self.seconds = 0.0
        """Time spent in the environment."""
        box, levels = _spaces(self.coding)
        super().__init__(count, box, levels)

    def reset(self) -> np.ndarray:
        begun, count = time.perf_counter(), self.num_envs
        self._dials = self.coding.start(count)
        self._totals, self._lengths = np.zeros(count), np.zeros(count, dtype=np.int64)
        self._partial = np.ones(count, dtype=np.bool_)
        self._restart(self._partial, first=True)
        begin = np.arange(count) * self.coding.task.episode_length // count
        over = np.zeros(count, dtype=np.bool_)
        for second in range(int(begin[-1])):
            again = (begin == second) | over
            if again.any():
                self._restart(again)
            self._entries, _, terminated, truncated, _ = self.episodes.step(self.coding.actions(self._dials))
            over = terminated | truncated
        self._restart((begin == begin[-1]) | over)
        self.seconds += time.perf_counter() - begun
        return self.coding.see(self._entries, self._dials)

    def step_async(self, actions: np.ndarray) -> None:
        self._wanted = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        begun = time.perf_counter()
        self._dials = self.coding.turn(self._dials, self._wanted)
        played = self.episodes.step(self.coding.actions(self._dials))
        self._entries, rewards, terminated, truncated, _ = played
        ended = terminated | truncated
        self._totals += rewards
        self._lengths += 1
        seen = self.coding.see(self._entries, self._dials)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if ended.any():
            for row in np.flatnonzero(ended):
                # Cut off by the clock, not over: the critic's value of this observation stands for the rest.
                cut = bool(truncated[row])
                infos[row] = {"terminal_observation": seen[row].copy(), "TimeLimit.truncated": cut}
            self._finish(ended)
            seen = self.coding.see(self._entries, self._dials)
        self.seconds += time.perf_counter() - begun
        return seen, rewards.astype(np.float32), ended, infos

    def _finish(self, ended: np.ndarray) -> None:
        """Note the returns of episodes that ended and start the next ones."""
        whole = ended & ~self._partial
        self.returns.extend((self._totals[whole] / self._lengths[whole]).tolist())
        self._partial &= ~ended
        self._totals[ended], self._lengths[ended] = 0.0, 0
        self._dials[ended] = self.coding.start(1)
        self._restart(ended)

    def _restart(self, rows: np.ndarray, first: bool = False) -> None:
        seeds: list[int | None] = [None] * self.num_envs
        for row in np.flatnonzero(rows):
            seeds[row] = self._seed_to_come
            self._seed_to_come += 1
        options = None if first else {"reset_mask": rows.copy()}
        self._entries = self.episodes.reset(seed=seeds, options=options)[0]

    def close(self) -> None:
        self.episodes.close()

    # What Stable-Baselines3 asks of wrapped single environments; there are none here.

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def _spaces(coding: Coding) -> tuple[Any, Any]:
    from gymnasium import spaces

    return spaces.Box(-1.0, 1.0, (coding.width,), np.float32), spaces.MultiDiscrete(coding.sizes)


# --- evaluation --------------------------------------------------------------------------------------------


def evaluate(policy: Policy, seeds: Sequence[int]) -> list[EpisodeResult]:
    """Play a policy on seeds, side by side, and have each episode graded by its replay."""
    task_id, coding, count = policy.task_id, coding_of(policy.env, policy.task_id), len(seeds)
    grader: Grader = get_spec(policy.env).part("grader")
    episodes = many_episodes(policy.env, coding, count)
    entries, _ = episodes.reset(seed=list(seeds))
    dials, totals = coding.start(count), np.zeros(count)
    playing = np.ones(count, dtype=np.bool_)
    actions: list[list[dict[str, Any]]] = [[] for _ in seeds]
    while playing.any():
        dials = coding.turn(dials, policy.choose(coding.see(entries, dials), coding.sizes))
        for row in np.flatnonzero(playing):
            actions[row].append(coding.action(dials[row : row + 1]).model_dump(mode="json"))
        entries, rewards, terminated, truncated, _ = episodes.step(coding.actions(dials))
        totals[playing] += rewards[playing]
        over = terminated | truncated
        playing &= ~over
        if over.any() and playing.any():
            entries = episodes.reset(options={"reset_mask": over})[0]  # only keeps the others' company
    episodes.close()
    results: list[EpisodeResult] = []
    for seed, played, total in zip(seeds, actions, totals, strict=True):
        grade = grader.grade_replay(task_id, seed, played)
        parts = grade.parts
        results.append(EpisodeResult(task_id, "ppo", seed, grade.score, float(total), grade.steps, parts))
    return results


def references(env: str, task_id: str, seeds: Sequence[int]) -> list[EpisodeResult]:
    """The reference agents on the same seeds."""
    agents = coding_of(env, task_id).references
    return play_all(get_spec(env), [Job(task_id, agent, seed) for agent in agents for seed in seeds])


# --- training ----------------------------------------------------------------------------------------------


class Watch(BaseCallback):
    """Evaluates on the held-out seeds from time to time, logs it, and lets the entropy bonus fall.

    Nothing is chosen by what it sees: the policy that counts is the last one.
    """

    def __init__(self, args: Args, env: SpreadVecEnv) -> None:
        super().__init__()
        self._args, self._env = args, env
        self._due, self._begun = 0, time.perf_counter()
        self.curve: list[tuple[int, Mean]] = []
        """(environment steps, held-out score)"""
        self.evaluating_seconds = 0.0
        self.shares: dict[str, float] = {}
        """Where the time of the run went, filled in at its end; see :func:`shares`."""

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        left = max(0.0, 1.0 - self.num_timesteps / self._args.steps)
        self.model.ent_coef = self._args.entropy * left
        if self.num_timesteps >= self._due:
            self._due += self._args.steps // self._args.evaluations
            self.evaluate(policy_of(self.model, self._args))

    def evaluate(self, policy: Policy) -> None:
        """Play the held-out seeds and log the result."""
        begun = time.perf_counter()
        episodes = evaluate(policy, _seeds(self._args))
        self.evaluating_seconds += time.perf_counter() - begun
        self.note(episodes)

    def note(self, episodes: Sequence[EpisodeResult]) -> None:
        """Log an evaluation."""
        score, reward = Mean.of(e.score for e in episodes), Mean.of(e.reward / e.steps for e in episodes)
        self.curve.append((self.num_timesteps, score))
        seconds = time.perf_counter() - self._begun
        record = self.logger.record
        record("held_out/score", score.value)
        record("held_out/score_95", score.half_width)
        record("held_out/reward", reward.value)
        record("train/episode_reward", float(np.mean(self._env.returns)) if self._env.returns else np.nan)
        record("time/steps", self.num_timesteps, exclude="tensorboard")
        record("time/seconds", seconds)
        self.logger.dump(self.num_timesteps)
        print(
            f"{self.num_timesteps:>9,} steps {seconds:5.0f} s   held-out score {score.value:.3f} "
            f"± {score.half_width:.3f}   reward a step {reward.value:+.3f}",
            flush=True,
        )


def train(args: Args) -> tuple[Policy, Watch]:
    """Train, and write the policy, the model and the log into ``args.folder``."""
    torch.set_num_threads(1)  # small networks: more threads are slower, and add in another order
    torch.use_deterministic_algorithms(True)
    first_seed = FIRST_TRAINING_SEED + SEEDS_OF_A_RUN * args.seed
    env = SpreadVecEnv(args.env, args.task, args.envs, first_seed)
    model = PPO(
        "MlpPolicy",
        VecNormalize(env, norm_obs=False, norm_reward=True, gamma=args.discount),
        n_steps=args.rollout,
        batch_size=args.envs * args.rollout // args.minibatches,
        n_epochs=args.epochs,
        learning_rate=lambda left: args.learning_rate * left,
        gamma=args.discount,
        gae_lambda=args.gae_lambda,
        ent_coef=args.entropy,
        policy_kwargs={"net_arch": [args.hidden, args.hidden]},
        seed=args.seed,
        device="cpu",
    )
    _start_at_default(model, env.coding)
    args.folder.mkdir(parents=True, exist_ok=True)
    model.set_logger(configure(str(args.folder), ["csv"]))
    model.logger.output_formats += configure(str(args.folder / "tensorboard"), ["tensorboard"]).output_formats
    watch = Watch(args, env)
    begun = time.perf_counter()
    model.learn(args.steps, callback=watch, log_interval=None)
    policy = policy_of(model, args)
    watch.evaluate(policy)
    watch.shares = shares(time.perf_counter() - begun, env.seconds, watch.evaluating_seconds)
    policy.save(args.folder / POLICY_FILE)
    model.save(args.folder / "model.zip")
    model.logger.close()
    env.close()
    return policy, watch


def shares(whole_s: float, environment_s: float, evaluation_s: float) -> dict[str, float]:
    """Parts of a run's time: stepping the environment, evaluating, and PPO's own (network and updates)."""
    own_s = whole_s - environment_s - evaluation_s
    parts = {"environment": environment_s, "evaluation": evaluation_s, "ppo": own_s}
    return {name: seconds / whole_s for name, seconds in parts.items()}


def _start_at_default(model: PPO, coding: Coding) -> None:
    """Make the untrained network prefer where the dials start by a hair, and exploration still tries every
    setting about equally often. That is the default action, so that the curve starts at the baseline, except
    that Serving's dials keep within a task's memory limit."""
    first = np.concatenate([[0], np.cumsum(coding.sizes)[:-1]])
    with torch.no_grad():
        model.policy.action_net.bias[torch.as_tensor(first + coding.start(1)[0])] += DEFAULT_LEAD


def policy_of(model: PPO, args: Args) -> Policy:
    """The actor's network out of a Stable-Baselines3 model."""
    parts = [*model.policy.mlp_extractor.policy_net, model.policy.action_net]
    linear = [part for part in parts if isinstance(part, torch.nn.Linear)]
    layers = tuple((p.weight.detach().numpy().copy(), p.bias.detach().numpy().copy()) for p in linear)
    settings = {name: value for name, value in asdict(args).items() if name != "out"}
    return Policy(args.env, args.task, layers, {**settings, "torch": torch.__version__})


def _seeds(args: Args) -> tuple[int, ...]:
    return tuple(range(DEFAULT_SEEDS[0], DEFAULT_SEEDS[0] + args.held_out))


# --- table and picture -------------------------------------------------------------------------------------


def table(episodes: Sequence[EpisodeResult], lines: Mapping[str, str]) -> Table:
    """Scores and rewards of the trained policy and the reference agents, and differences, paired by seed, to
    each of ``lines`` (agent: its name in words)."""
    seeds = sorted({episode.seed for episode in episodes})
    caption = (
        f"Mean ± half of the 95 % interval over held-out seeds {seeds[0]}-{seeds[-1]}; differences paired."
    )
    rows = Table("agent", box=SIMPLE, caption=caption, caption_justify="left")
    for name in ("score", "reward a step", *(f"− {line}" for line in lines.values())):
        rows.add_column(name, justify="right", no_wrap=True)
    gaps = [{row.agent: row.difference for row in summarise(episodes, other)} for other in lines]
    for row in summarise(episodes, None):
        reward = Mean.of(e.reward / e.steps for e in episodes if e.agent == row.agent)
        differences = (_cell(gap[row.agent], "+") for gap in gaps)
        rows.add_row(row.agent, _cell(row.score), _cell(reward, "+"), *differences)
    return rows


def _cell(mean: Mean | None, sign: str = "") -> str:
    return "" if mean is None else f"{mean.value:{sign}.3f} ± {mean.half_width:.3f}"


def write_scores(episodes: Sequence[EpisodeResult], path: Path) -> None:
    """One line for each episode."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["task", "agent", "seed", "score", "reward", "components"])
        for e in episodes:
            writer.writerow([e.task, e.agent, e.seed, e.score, e.reward, json.dumps(e.components)])


def to_curve(
    policy: Policy, points: Sequence[tuple[int, Mean]], rows: Sequence[AgentSummary], lines: Mapping[str, str]
) -> Curve:
    """The learning curve as a committed result."""
    spec = get_spec(policy.env)
    reached = {row.agent: row.score for row in rows}
    settings = {name: value for name, value in policy.settings.items() if name in Args.__annotations__}
    usual = asdict(replace(Args(env=policy.env, task=policy.task_id).checked(), task=""))
    given = [
        f"--{name.replace('_', '-')} {value}" for name, value in settings.items() if value != usual[name]
    ]
    return Curve(
        command=" ".join(["python -m agents.ppo.demo --env", policy.env, *given]),
        env=spec.id,
        env_version=spec.version,
        seeds=seeds_text(tuple(range(DEFAULT_SEEDS[0], DEFAULT_SEEDS[0] + int(settings["held_out"])))),
        task=policy.task_id,
        settings=policy.settings,
        policy=policy.fingerprint,
        points=tuple(points),
        lines=tuple(Line(agent=agent, name=name, score=reached[agent]) for agent, name in lines.items()),
    )


def draw_curve(
    curve: Sequence[tuple[int, Mean]],
    rows: Sequence[AgentSummary],
    lines: Mapping[str, str],
    title: str,
    path: Path,
) -> None:
    """The learning curve, with the agents of ``lines`` as lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    steps = np.array([at for at, _ in curve])
    score = np.array([mean.value for _, mean in curve])
    half = np.array([mean.half_width for _, mean in curve])
    axes.fill_between(steps, score - half, score + half, color="C0", alpha=0.2, linewidth=0)
    axes.plot(steps, score, color="C0", marker="o", markersize=4, label=f"PPO: {score[-1]:.3f} at the end")
    styles = cycle([("C7", ":"), ("C3", "--"), ("C2", "-."), ("C4", (0, (1, 1)))])
    reached = {row.agent: row.score.value for row in rows}
    for (agent, name), (color, style) in zip(lines.items(), styles):  # noqa: B905 - styles start over
        label = f"{name}: {reached[agent]:.3f}"
        axes.axhline(reached[agent], color=color, linestyle=style, label=label)
    axes.set(xlabel="environment steps", ylabel="score (0 to 1)")
    axes.set(title=title, xlim=(0, steps[-1]), ylim=(0, 1.02))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path)


# --- command line ------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> Args:
    """The settings from a command line; exits with status 2 and a message when one is wrong."""
    parser = OptionParser(
        prog="python -m agents.ppo.demo", description="Train PPO on an environment of InferenceGym."
    )
    for each in fields(Args):
        name = "--" + each.name.replace("_", "-")
        text = f"{each.metadata['help']} (default {each.default})"
        parser.add_argument(name, type=type(each.default), default=each.default, help=text)
    try:
        args = Args(**vars(parser.parse_args(arguments))).checked()
        check_folder("out", args.folder)
    except InferenceGymError as error:
        parser.error(str(error))
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, evaluate, print the table, write the picture."""
    args = parse(arguments)
    coding = coding_of(args.env, args.task)
    name = f"{args.task}, {coding.task.name}"
    print(f"PPO on {args.env}, {name}: {args.steps:,} steps, {args.envs} episodes side by side.")
    begun = time.perf_counter()
    policy, watch = train(args)
    seconds = time.perf_counter() - begun
    parts = ", ".join(f"{name} {part:.0%}" for name, part in watch.shares.items())
    print(f"{seconds:.0f} s, {args.steps / seconds:,.0f} steps/s. Time: {parts}.\n")
    seeds = _seeds(args)
    episodes = [*references(args.env, args.task, seeds), *evaluate(policy, seeds)]
    write_scores(episodes, args.folder / "scores.csv")
    title = f"PPO on {name}\nmean of {len(seeds)} held-out episodes; shaded: its 95 % interval"
    rows = summarise(episodes, None)
    text = to_curve(policy, watch.curve, rows, coding.lines).to_json()
    (args.folder / "curve.json").write_text(text, encoding="utf-8")
    draw_curve(watch.curve, rows, coding.lines, title, args.folder / "curve.png")
    Console(width=120).print(table(episodes, coding.lines))
    print(f"\nLearning curve: {args.folder / 'curve.png'}   policy: {args.folder / POLICY_FILE}")
    again = f"inferencegym compare --env {args.env} --tasks {args.task}"
    print(f"Compare it again: {CHECKPOINT_VARIABLE}={args.out} {again}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
