"""InferenceGym/Routing-v0: which model answers each query, when, or whether a cache or knowledge base does.

The core environment: no web framework, no OpenEnv. See :class:`RoutingEnv`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from env.checks import check_alike, checked_progress, checked_seed, checked_snapshot, invalid_value
from env.protocols import TaskInfo, TaskName
from env.routing.classic import ClassicPlay
from env.routing.stream import StreamPlay
from env.routing.tasks import TASKS, get_task
from inferencegym.errors import EpisodeDoneError, EpisodeNotStartedError, InvalidValueError
from inferencegym.models.routing import RoutingAction, RoutingConfig, RoutingObservation
from simulator.routing import classic as routing_classic
from simulator.routing import kernel as routing_fleet
from simulator.routing.grid import GRIDS
from simulator.routing.stream import ACCURACY

__all__ = ["RoutingEnv", "describe", "make_env", "parse_action", "parse_config"]

Play = ClassicPlay | StreamPlay

_CHANGING = ("seed", "play", "step_count", "cumulative_reward")
"""Parts of a snapshot that change as the episode goes on."""


class RoutingEnv:
    """One episode of query routing.

    **Description.** Queries come one by one. For each the agent chooses a strategy (a model alone, the
    cache, a cascade, an early exit, waiting for cleaner electricity, the knowledge base) and a model. One
    step decides one query. The classic tasks are short fixed games with the contract's arithmetic; the
    streams are drawn days of hundreds of queries on a fleet of three models.

    **Action space.** :class:`~inferencegym.models.routing.RoutingAction`: strategy, model_choice, exit_flag.

    **Observation space.** :class:`~inferencegym.models.routing.RoutingObservation`.

    **Rewards.** score − carbon penalty − latency penalty + bonuses; ``info["reward_terms"]`` holds the
    signed terms. Streams: in [-1, 1]. Classic tasks: in [-2, 1.5], as the contract has it.

    **Starting state.** The first query, an empty cache (or the game's), an even mix of loads.

    **Episode end.** Terminated with the last query: nothing is left to be decided. A further step raises.

    **Arguments.** ``task_id`` (id or alias), ``seed`` (int, 0 to 2**63 - 1; classic tasks: picks the game,
    seed modulo their number) and ``config`` (a :class:`~inferencegym.models.routing.RoutingConfig` or
    mapping: region and start hour of a stream; classic tasks refuse one).

    **Version history.** v0: first release.
    """

    def __init__(
        self,
        task_id: TaskName,
        seed: int = 42,
        config: RoutingConfig | Mapping[str, Any] | None = None,
    ) -> None:
        self._task = get_task(task_id)
        self.task: TaskInfo = self._task.info
        self.episode_id = ""
        self.config = parse_config(config)
        if self._task.stream is None and self.config != RoutingConfig():
            raise InvalidValueError(
                "config",
                self.config.model_dump(exclude_none=True),
                f"nothing: {self.task.id} is a fixed game",
            )
        self._seed = checked_seed(seed)
        self.play: Play | None = None
        """The episode's world; None before the first reset."""
        self._step_count = 0
        self._cumulative_reward = 0.0

    def reset(self, seed: int | None = None) -> RoutingObservation:
        """Start over with ``seed`` (``None``: the current one) and return the first observation."""
        if seed is not None:
            self._seed = checked_seed(seed)
        self.play = self._new_play(self._seed)
        self._step_count = 0
        self._cumulative_reward = 0.0
        return self.play.observe(0.0, {})

    def step(
        self, action: RoutingAction | Mapping[str, Any]
    ) -> tuple[RoutingObservation, float, bool, dict[str, Any]]:
        """Decide the query at hand.

        Raises:
            InvalidValueError: a mapping with a bad field; nothing changed.
            EpisodeNotStartedError, EpisodeDoneError: wrong time to step; nothing changed.
        """
        play = self._started()
        if self.done:
            raise EpisodeDoneError(
                f"The episode ended after {self._step_count} steps.", "Call reset() to start a new one."
            )
        if not isinstance(action, RoutingAction):
            action = parse_action(action)
        reward, terms, metrics = play.play(action)
        self._step_count += 1
        self._cumulative_reward += reward
        metrics["seed"] = self._seed
        metrics["start_hour"] = play.start_hour
        metrics["region"] = play.region
        info: dict[str, Any] = {
            "timestep": self._step_count,
            "action": {
                "strategy": action.strategy.name,
                "model_choice": action.model_choice.name,
                "exit_flag": action.exit_flag,
            },
            "metrics": metrics,
            "workload": play.workload(),
            "masked_actions": [],
            "reward_terms": terms,
            "terminated": self.done,
        }
        return play.observe(reward, terms), reward, self.done, info

    @property
    def done(self) -> bool:
        """Whether the last query is decided."""
        return self._step_count >= self.task.episode_length

    def state(self) -> dict[str, Any]:
        """Episode metadata: the fields of :class:`~inferencegym.models.routing.RoutingState`."""
        play = self._started()
        return {
            "session_id": "",
            "episode_id": self.episode_id or f"{self.task.id}-{self._seed}",
            "task_id": self.task.id,
            "seed": self._seed,
            "step_count": self._step_count,
            "cumulative_reward": self._cumulative_reward,
            "done": self.done,
            "region": play.region,
            "config": self.config.model_dump(),
            "correct": play.correct,
            "energy_wh": play.energy_wh,
            "co2_g": play.co2_g,
        }

    def snapshot(self) -> dict[str, Any]:
        """Copy of the whole episode; keep it as long as you like."""
        play = self._started()
        return {
            **self._settings(),
            "seed": self._seed,
            "play": play.snapshot(),
            "step_count": self._step_count,
            "cumulative_reward": self._cumulative_reward,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Back to a snapshot of an episode of the same task and config; what follows is byte-identical.

        Raises InvalidValueError for anything else; nothing is changed then.
        """
        checked_snapshot(snapshot, {**dict.fromkeys(_CHANGING), **self._settings()})
        seed, steps, total = checked_progress(snapshot, self.task.episode_length)
        play = self.play if self.play is not None and self._seed == seed else self._new_play(seed)
        check_alike("snapshot.play", snapshot["play"], play.snapshot())
        play.restore(snapshot["play"])
        self.play, self._seed = play, seed
        self._step_count, self._cumulative_reward = steps, total

    def _settings(self) -> dict[str, Any]:
        """What a snapshot must share with the episode that goes back to it."""
        return {"task_id": self.task.id, "config": self.config}

    def _started(self) -> Play:
        if self.play is None:
            raise EpisodeNotStartedError("This episode has not been reset.", "Call reset() first.")
        return self.play

    def _new_play(self, seed: int) -> Play:
        stream = self._task.stream
        if stream is None:
            games = self._task.games
            return ClassicPlay(self.task, games[seed % len(games)], seed)
        return StreamPlay(self.task, stream, seed, self.config.region, self.config.start_hour)


def parse_action(action: Any, where: str = "action") -> RoutingAction:
    """Validate a mapping. Raises InvalidValueError that names the first bad field, after ``where``."""
    try:
        return RoutingAction.model_validate(action)
    except ValidationError as error:
        raise invalid_value(where, error, RoutingAction) from None


def parse_config(config: RoutingConfig | Mapping[str, Any] | None, where: str = "config") -> RoutingConfig:
    """Validate a config. Raises InvalidValueError that names the first bad field, after ``where``."""
    if isinstance(config, RoutingConfig):
        return config
    try:
        return RoutingConfig.model_validate({} if config is None else config)
    except ValidationError as error:
        raise invalid_value(where, error, RoutingConfig) from None


def make_env(task_id: TaskName, seed: int = 42, config: Mapping[str, Any] | None = None) -> RoutingEnv:
    """The registry's factory. Call ``reset()`` next."""
    return RoutingEnv(task_id, seed, config)


def describe() -> dict[str, Any]:
    """This environment's part of GET /info: the rules' constants and where the figures come from."""
    return {
        "classic_rules": {
            "energy": list(routing_classic.ENERGY),
            "latency": list(routing_classic.LATENCY),
            "knowledge_base": [routing_classic.KB_ENERGY, routing_classic.KB_LATENCY],
            "carbon_cap": routing_classic.CARBON_CAP,
            "latency_price": routing_classic.LATENCY_PRICE,
            "early_exit_share": routing_classic.EARLY_EXIT_SHARE,
            "wait_latency": routing_classic.WAIT_LATENCY,
        },
        "stream_reward": {
            "carbon_price_per_g": routing_fleet.CARBON_PRICE_PER_G,
            "carbon_cap": routing_fleet.CARBON_CAP,
            "latency_price_per_s": routing_fleet.LATENCY_PRICE_PER_S,
            "latency_knee_s": routing_fleet.LATENCY_KNEE_S,
            "latency_cap": routing_fleet.LATENCY_CAP,
            "latency_cap_from_s": routing_fleet.LATENCY_GONE_S,
            "wait_price": routing_fleet.WAIT_PRICE,
        },
        "energy_wh": {
            "batch_8": list(routing_fleet.ENERGY_BATCH_8_WH),
            "large_batch": list(routing_fleet.ENERGY_LARGE_BATCH_WH),
            "source": "ML.ENERGY leaderboard, chat, H100: Llama-3.1-8B, -70B, -405B FP8",
        },
        "accuracy": {
            "by_category": {name: list(shares) for name, shares in ACCURACY.items()},
            "source": "The Llama 3 Herd of Models (arXiv 2407.21783), table 2",
        },
        "carbon_g_per_kwh": {
            "by_region": {name: grid.mean_g_per_kwh for name, grid in GRIDS.items()},
            "source": "Google Cloud regions 2024; hourly shapes ENTSO-E 2020 (arXiv 2110.13234)",
        },
        "task_kinds": {task_id: info.facts["kind"] for task_id, info in TASKS.items()},
    }
