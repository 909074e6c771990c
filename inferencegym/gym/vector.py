"""Vector environments: N episodes of one task that a :class:`Batch` steps in arrays, in a few threads.

An environment brings a batch (arrays and compiled loops, see ``env/serving/batch.py``), a codec, and a class
of a few lines that joins them (``inferencegym/gym/serving/vector.py``). Seeds, autoreset, masks and infos
are the same for all.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, Protocol, TypedDict, cast

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from env.checks import SEED_LIMIT, checked_seed, checked_whole
from env.protocols import TaskInfo
from inferencegym.errors import EpisodeDoneError, EpisodeNotStartedError, InvalidValueError
from inferencegym.gym.base import SEED_RANGE
from inferencegym.gym.codec import ActionMode, GymCodec
from inferencegym.gym.team import THREADS_MAX, Team, available_cores
from inferencegym.gym.vector_codec import VectorCodec
from inferencegym.gym.vector_info import InfoColumns, InfoWriter, add_rows

__all__ = ["Batch", "BatchVectorEnv", "VectorOptions"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Spread = Callable[[Callable[[int, int], None], int], None]
Observations = npt.NDArray[np.float32]
Infos = dict[str, Any]

NUM_ENVS_MAX = 1_000_000
"""Some GB of state; far beyond any use."""


class Batch(Protocol):
    """N episodes of one task in arrays. All arrays have one row an episode."""

    @property
    def observation(self) -> FloatArray:
        """(N, C): numbers of the last observation; what the columns are is for the codec to know."""
        ...

    @property
    def previous(self) -> FloatArray:
        """(N, C): those of the observation one step ago; of the same one right after a restart."""
        ...

    @property
    def reward(self) -> FloatArray:
        """(N,): of the last step."""
        ...

    @property
    def terms(self) -> FloatArray:
        """(N, T): named parts of the last reward."""
        ...

    @property
    def results(self) -> FloatArray:
        """(N, K): numbers of the last step that ``info["metrics"]`` is made from."""
        ...

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """(N,): steps taken in each episode."""
        ...

    @property
    def terminated(self) -> BoolArray:
        """(N,): episodes that ended by what happened in them."""
        ...

    @property
    def truncated(self) -> BoolArray:
        """(N,): episodes that reached their length."""
        ...

    def restart(self, rows: Sequence[int], seeds: Sequence[int], spread: Spread) -> None:
        """Start the episodes of ``rows`` over, each with its seed."""
        ...

    def advance(self, low: int, high: int, knobs: FloatArray, stepped: BoolArray) -> None:
        """Step those episodes from ``low`` to ``high - 1`` for which ``stepped`` is true. Ranges that do not
        overlap may be advanced by different threads."""
        ...


class VectorOptions(TypedDict, total=False):
    """What every vector environment takes by keyword; see :class:`BatchVectorEnv`."""

    autoreset_mode: str | AutoresetMode
    threads: int | None
    render_mode: None


class BatchVectorEnv(gymnasium.vector.VectorEnv[Observations, Any, npt.NDArray[Any]]):
    """N episodes of one task at once.

    Sub-environment i plays exactly what the single environment plays that was reset with its seed, in the
    first and in every later episode: the same observations and rewards, bit by bit.

    ``infos`` of a step hold ``metrics``, ``reward_terms``, ``timestep`` and ``action_mask``, with gymnasium's
    ``_name`` masks. Texts and lists of the single environment's info are left out.

    Args:
        make_batch: makes the episodes for their number.
        task: the task that they play.
        codec: observation vectors and action spaces.
        columns: path of each column of the batch's observations, as the codec names them.
        info: which numbers become ``metrics`` and ``reward_terms``.
        num_envs: episodes side by side.
        action_mode: "flat", "dict" or "multidiscrete".
        autoreset_mode: "SameStep" (the step that ends an episode returns the next one's first observation,
            and ``final_obs`` and ``final_info`` in ``infos``), "NextStep" (the step after it resets; its
            action is ignored and its reward 0) or "Disabled" (``reset(options={"reset_mask": …})`` does it).
        threads: default the cores that this process may use.
        render_mode: None only.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        make_batch: Callable[[int], Batch],
        task: TaskInfo,
        codec: GymCodec,
        columns: Sequence[str],
        info: InfoColumns,
        num_envs: int,
        action_mode: str = "flat",
        autoreset_mode: str | AutoresetMode = AutoresetMode.SAME_STEP,
        threads: int | None = None,
        render_mode: None = None,
    ) -> None:
        num_envs = checked_whole("num_envs", num_envs, 1, NUM_ENVS_MAX)
        threads = available_cores() if threads is None else checked_whole("threads", threads, 1, THREADS_MAX)
        if render_mode is not None:
            raise InvalidValueError("render_mode", render_mode, "None; render a single environment instead")
        self.task = task
        self.num_envs = num_envs
        self.codec = codec
        self.action_mode: ActionMode = cast("ActionMode", action_mode)
        self.single_action_space: Any = codec.action_space(action_mode)
        self.single_observation_space = codec.observation_space()
        self.action_space: Any = batch_space(self.single_action_space, num_envs)
        self.observation_space: Any = batch_space(self.single_observation_space, num_envs)
        self.autoreset_mode = _mode(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset_mode}
        self._batch = make_batch(num_envs)
        self._codec = VectorCodec(codec, columns)
        self._info = InfoWriter(num_envs, codec.action_mask(task.active_actions), info)
        self._team = Team(threads)
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

        Raises:
            InvalidValueError: seeds that are no whole numbers from 0 to 2**63 - 1, or other options; no
                episode was changed.
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
        observations = self._room()
        self._encode(0, self.num_envs, observations)
        return observations, self._info.after_reset(self._all if mask is None else mask, self._episode_seeds)

    def step(self, actions: Any) -> tuple[Observations, npt.NDArray[np.float64], BoolArray, BoolArray, Infos]:
        """Play one step of every episode.

        Raises:
            InvalidValueError: actions outside the action space; no episode was changed. Only flat entries
                beyond [-1, 1] are held at the bound, as the single environment does.
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
        observations = self._room()
        numbers = self._info.new_numbers()

        def play(low: int, high: int) -> None:
            self._codec.decode(low, high, self.action_mode, rows)
            self._batch.advance(low, high, rows, stepped)
            self._encode(low, high, observations)
            self._info.write(low, high, self._batch.results, self._batch.terms, numbers)

        self._team.spread(play, self.num_envs)
        rewards = self._batch.reward.copy()
        terminated, truncated = self._batch.terminated & stepped, self._batch.truncated & stepped
        infos = self._info.after_step(numbers, self._batch.steps, stepped)
        if resting:
            rewards[~stepped] = 0.0
            infos = self._reset_some(~stepped, observations, self._info.only(infos, stepped))
        self._ended = terminated | truncated
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._ended.any():
            infos = self._finish(self._ended.copy(), observations, infos)
        return observations, rewards, terminated, truncated, infos

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads."""
        self._team.close()

    @property
    def np_random_seed(self) -> tuple[int | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The seed that each sub-environment was last given (None: never)."""
        return tuple(self._seeds)

    # --- parts ---------------------------------------------------------------------------------------------

    def _spread_seeds(self, seed: object) -> list[int | None]:
        count = self.num_envs
        if seed is None:
            return [None] * count
        if isinstance(seed, Integral):
            first = checked_whole("seed", seed, 0, SEED_LIMIT - count)
            return list(range(first, first + count))
        given: object = cast("object", seed.tolist() if isinstance(seed, np.ndarray) and seed.ndim else seed)
        if not isinstance(given, Sequence) or isinstance(given, str | bytes):
            raise InvalidValueError("seed", given, f"a whole number, a list of {count}, or None")
        each = cast("Sequence[object]", given)
        if len(each) != count:
            raise InvalidValueError("seed", f"{len(each)} seeds", f"{count} seeds")
        return [None if one is None else checked_seed(one, f"seed[{row}]") for row, one in enumerate(each)]

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

    def _room(self) -> Observations:
        return np.empty((self.num_envs, len(self.codec.features)), dtype=np.float32)

    def _encode(self, low: int, high: int, out: Observations) -> None:
        self._codec.encode(low, high, self._batch.observation, self._batch.previous, out)

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


def _reset_mask(options: object, count: int) -> BoolArray | None:
    if options is None:
        return None
    settings = cast("Mapping[str, Any]", options if isinstance(options, Mapping) else {"": options})
    if set(settings) - {"reset_mask"}:
        raise InvalidValueError("options", cast("object", options), "None or {'reset_mask': …}")
    given: Any = settings.get("reset_mask")
    if given is None:
        return None
    mask: npt.NDArray[Any] = np.asarray(given)
    if mask.shape != (count,) or mask.dtype != np.bool_ or not mask.any():
        raise InvalidValueError("options.reset_mask", given, f"{count} booleans, one of them true")
    return mask
