"""InferenceGym/Serving-v0 as a vector environment: N episodes stepped by machine code in a few threads."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any, cast

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from env.serving import make_env
from env.serving_batch import OBSERVATION_COLUMNS, ServingBatch
from inferencegym.errors import EpisodeDoneError, EpisodeNotStartedError, InvalidValueError
from inferencegym.gym.base import SEED_RANGE
from inferencegym.gym.codec import ActionMode
from inferencegym.gym.codecs.serving import CODEC
from inferencegym.gym.team import Team, available_cores
from inferencegym.gym.vector_codec import VectorCodec
from inferencegym.gym.vector_info import InfoWriter, add_rows

__all__ = ["ServingVectorEnv"]

BoolArray = npt.NDArray[np.bool_]
Observations = npt.NDArray[np.float32]
Infos = dict[str, Any]


class ServingVectorEnv(gymnasium.vector.VectorEnv[Observations, Any, npt.NDArray[Any]]):
    """N serving episodes at once; see :class:`inferencegym.gym.env.ServingGymEnv` for spaces and rewards.

    Sub-environment i plays exactly what a ``ServingGymEnv`` plays that was reset with its seed, in the first
    and in every later episode: the same observations and rewards, bit by bit.

    ``infos`` of a step hold ``metrics``, ``reward_terms``, ``timestep`` and ``action_mask``, with gymnasium's
    ``_name`` masks. Texts and lists of the single environment's info are left out.

    Args:
        num_envs: episodes side by side.
        task_id: "task1", "task2" or "task3".
        action_mode: "flat", "dict" or "multidiscrete".
        config: reward weights.
        autoreset_mode: "SameStep" (the step that ends an episode returns the next one's first observation,
            and ``final_obs`` and ``final_info`` in ``infos``), "NextStep" (the step after it resets; its
            action is ignored and its reward 0) or "Disabled" (``reset(options={"reset_mask": …})`` does it).
        threads: default the cores that this process may use.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        task_id: str = "task1",
        action_mode: str = "flat",
        config: Mapping[str, Any] | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.SAME_STEP,
        threads: int | None = None,
        render_mode: None = None,
    ) -> None:
        if num_envs < 1:
            raise InvalidValueError("num_envs", num_envs, "a whole number from 1")
        if render_mode is not None:
            raise InvalidValueError("render_mode", render_mode, "None; render a single environment instead")
        env = make_env(task_id, config=config)
        self.task = env.task
        self.num_envs = num_envs
        self.action_mode: ActionMode = cast("ActionMode", action_mode)
        self.single_action_space: Any = CODEC.action_space(action_mode)
        self.single_observation_space = CODEC.observation_space()
        self.action_space: Any = batch_space(self.single_action_space, num_envs)
        self.observation_space: Any = batch_space(self.single_observation_space, num_envs)
        self.autoreset_mode = _mode(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self._batch = ServingBatch(env, num_envs)
        self._codec = VectorCodec(CODEC, OBSERVATION_COLUMNS)
        self._info = InfoWriter(num_envs, CODEC.action_mask(env.task.active_actions))
        self._team = Team(threads or available_cores())
        weakref.finalize(self, self._team.close)
        self._rngs: list[np.random.Generator | None] = [None] * num_envs
        self._seeds: list[int | None] = [None] * num_envs
        self._episode_seeds = np.zeros(num_envs, dtype=np.int64)
        self._ended = np.zeros(num_envs, dtype=np.bool_)
        self._all = np.ones(num_envs, dtype=np.bool_)
        self._started = False

    # --- gymnasium -----------------------------------------------------------------------------------------

    def reset(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, Infos]:
        """Start episodes: all, or those that ``options["reset_mask"]`` (N booleans) names.

        ``seed`` is one number s (sub-environment i gets s + i), one for each, or None: then each draws its
        next one as a single environment would.
        """
        mask = _reset_mask(options, self.num_envs)
        rows = list(range(self.num_envs)) if mask is None else np.flatnonzero(mask).tolist()
        if mask is not None and not self._started:
            raise EpisodeNotStartedError("No episode has been reset yet.", "Reset all of them first.")
        seeds = self._spread_seeds(seed)
        for row in rows:
            if seeds[row] is not None:
                self._seeds[row], self._rngs[row] = seeds[row], None
        self._restart(rows, seeds)
        self._started = True
        observations = np.empty((self.num_envs, len(CODEC.features)), dtype=np.float32)
        self._encode(0, self.num_envs, observations)
        return observations, self._info.after_reset(self._all if mask is None else mask, self._episode_seeds)

    def step(self, actions: Any) -> tuple[Observations, npt.NDArray[np.float64], BoolArray, BoolArray, Infos]:
        """Play one step of every episode.

        Raises:
            InvalidValueError: actions outside the action space; no episode was changed.
            EpisodeNotStartedError: before the first reset.
            EpisodeDoneError: with autoreset disabled, an episode that is over; no episode was changed.
        """
        if not self._started:
            raise EpisodeNotStartedError("No episode has been reset yet.", "Call reset() first.")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            raise EpisodeDoneError(
                f"Episode {int(self._ended.argmax())} is over.", "Reset it with options={'reset_mask': …}."
            )
        rows = self._codec.rows_of(self.action_mode, actions, self.num_envs)
        skipped = self._ended if self.autoreset_mode is AutoresetMode.NEXT_STEP else None
        resting = skipped is not None and bool(skipped.any())
        stepped = ~skipped if skipped is not None and resting else self._all
        observations = np.empty((self.num_envs, len(CODEC.features)), dtype=np.float32)
        numbers = self._info.new_numbers()

        def play(low: int, high: int) -> None:
            self._codec.decode(low, high, self.action_mode, rows)
            self._batch.advance(low, high, rows, stepped)
            self._encode(low, high, observations)
            self._info.write(low, high, self._batch.results, self._batch.episodes.terms, numbers)

        self._team.spread(play, self.num_envs)
        rewards = self._batch.episodes.reward.copy()
        steps = self._batch.steps
        truncated = steps >= self._batch.episode_length
        infos = self._info.after_step(numbers, steps, stepped)
        if resting:
            truncated &= stepped
            rewards[~stepped] = 0.0
            infos = self._reset_some(~stepped, observations, self._info.only(infos, stepped))
        self._ended = truncated.copy()
        if self.autoreset_mode is AutoresetMode.SAME_STEP and truncated.any():
            infos = self._finish(truncated, observations, infos)
        return observations, rewards, np.zeros(self.num_envs, dtype=np.bool_), truncated, infos

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads."""
        self._team.close()

    @property
    def np_random_seed(self) -> tuple[int | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The seed that each sub-environment was last given (None: never)."""
        return tuple(self._seeds)

    # --- parts ---------------------------------------------------------------------------------------------

    def _spread_seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            return [int(seed) + index for index in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise InvalidValueError("seed", f"{len(seed)} seeds", f"{self.num_envs} seeds")
        return [None if one is None else int(one) for one in seed]

    def _restart(self, rows: list[int], seeds: Sequence[int | None]) -> None:
        """Start episodes over; those without a seed draw theirs."""
        drawn = [self._next_seed(row) if (seed := seeds[row]) is None else seed for row in rows]
        self._batch.restart(rows, drawn, self._team.spread)
        self._episode_seeds[rows] = drawn
        self._ended[rows] = False

    def _next_seed(self, row: int) -> int:
        """As ``gymnasium.Env.np_random`` of a single environment draws it."""
        rng = self._rngs[row]
        if rng is None:
            rng, _ = seeding.np_random(self._seeds[row])
            self._rngs[row] = rng
        return int(rng.integers(SEED_RANGE))

    def _encode(self, low: int, high: int, out: Observations) -> None:
        episodes = self._batch.episodes
        self._codec.encode(low, high, episodes.observation, episodes.previous, out)

    def _reset_some(self, mask: BoolArray, observations: Observations, infos: Infos) -> Infos:
        """Start the episodes of ``mask`` over and put their first observation and info in."""
        self._restart(np.flatnonzero(mask).tolist(), [None] * self.num_envs)
        self._encode(0, self.num_envs, observations)
        return add_rows(infos, self._info.after_reset(mask, self._episode_seeds))

    def _finish(self, ended: BoolArray, observations: Observations, infos: Infos) -> Infos:
        """Same-step autoreset: hand out the last observation and info of the episodes that ended."""
        final_obs = np.full(self.num_envs, None, dtype=object)
        for row in np.flatnonzero(ended):
            final_obs[row] = observations[row].copy()
        final: Infos = {"final_obs": final_obs, "_final_obs": ended.copy()}
        final["final_info"] = self._info.only(infos, ended)
        final["_final_info"] = ended.copy()
        return {**self._reset_some(ended, observations, self._info.only(infos, ~ended)), **final}


def _mode(mode: str | AutoresetMode) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError:
        allowed = ", ".join(repr(known.value) for known in AutoresetMode)
        raise InvalidValueError("autoreset_mode", mode, allowed) from None


def _reset_mask(options: dict[str, Any] | None, count: int) -> BoolArray | None:
    given: Any = (options or {}).get("reset_mask")
    if given is None:
        return None
    mask: npt.NDArray[Any] = np.asarray(given)
    if mask.shape != (count,) or mask.dtype != np.bool_ or not mask.any():
        raise InvalidValueError("options.reset_mask", given, f"{count} booleans, one of them true")
    return mask
