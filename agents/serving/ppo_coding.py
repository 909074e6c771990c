"""The coding of InferenceGym/Serving-v0.

The network sees the 16 entries of the gymnasium observation (:mod:`inferencegym.gym.serving.codec`) and
where its dials stand. It turns one dial for each knob that the task opens:

===============  ======================================================================================
knob             dial
===============  ======================================================================================
batch_size       11 notches, 8 to 256; turns by one notch a step at most
kv_budget        memory in steps of 1 GB, from 8 GB below the task's limit up to it; one notch a step at
                 most. kv_budget is the largest that keeps within it beside the other knobs
spec_length      0, 1, 2, 4, 8
prefill_disagg   off, on
quant_tier       FP16, INT8, INT4
===============  ======================================================================================

Other codings were tried and learn worse (one to three runs each, scores on seeds 100 to 119):

- kv_budget itself instead of memory: 0.60 instead of 0.84 on task 2 after 50,000 steps. What fits depends on
  batch size, drafts and tier, so exploring runs out of memory, and a careful kv_budget is then never left.
- batch size over 1 to 512 with wide notches: 0.70 to 0.73 instead of 0.74 on task 3. Where the cap does not
  matter it wanders, and the grade counts restless knobs.
- continuous actions (Gaussian, with and without gSDE): 0.69 to 0.71 on task 3.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from agents.ppo.coding import Training
from env.serving.episode import make_env
from env.serving.tasks import get_task
from inferencegym.gym.serving.codec import CODEC
from inferencegym.models.serving import QuantTier, ServeAction
from simulator.packs.trace_sim import shared_simulator

__all__ = ["KNOBS", "Coding"]

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

KNOBS = tuple(ServeAction.model_fields)
"""Order of the dials, and of the columns of knobs."""

BATCH_SIZES = (8, 16, 32, 48, 64, 96, 128, 160, 192, 224, 256)
MEMORY_BELOW_LIMIT_GB = (8, 7, 6, 5, 4, 3, 2, 1, 0)
SPEC_LENGTHS = (0, 1, 2, 4, 8)

KV_STEPS, KV_LEAST = 1000, 101
"""kv_budget is rounded down to thousandths; 0.1 itself lies below the float32 bound of its space."""


_ENTRIES = CODEC.observation_space()
_LOW, _HIGH = _ENTRIES.low, _ENTRIES.high


class _Dial(NamedTuple):
    """Settings of one knob, whether it moves by one notch at a time, and where it stands at first."""

    settings: tuple[Any, ...]
    by_notch: bool
    start: int


_DIALS = {
    "kv_budget": _Dial(MEMORY_BELOW_LIMIT_GB, True, len(MEMORY_BELOW_LIMIT_GB) - 1),
    "spec_length": _Dial(SPEC_LENGTHS, False, 0),
    "batch_size": _Dial(BATCH_SIZES, True, BATCH_SIZES.index(32)),
    "prefill_disagg": _Dial((False, True), False, 0),
    "quant_tier": _Dial(tuple(QuantTier), False, 0),
}


_TRAINING = {
    "task1": Training(50_000, 32),
    "task2": Training(200_000, 64),
    "task3": Training(500_000, 64),
}


class Coding:
    """Dials and observations of one task. All methods take N rows at once and keep no state.

    Args:
        task_id: the task. Knobs that it locks have no dial.
    """

    action_mode: Literal["flat", "dict", "multidiscrete"] = "dict"
    references = ("baseline", "static", "reactive", "adaptive")
    lines: ClassVar[dict[str, str]] = {"baseline": "fixed baseline", "static": "best constant setting"}

    def __init__(self, task_id: str) -> None:
        self.task = get_task(task_id).info
        self.training = _TRAINING[task_id]
        self.open = tuple(name for name in KNOBS if name in self.task.active_actions)
        dials = [_DIALS[name] for name in self.open]
        self.sizes = np.array([len(dial.settings) for dial in dials])
        """(D,): settings of each dial."""
        self.width = len(CODEC.features) + len(dials)
        """Entries of what the network sees."""
        self._by_notch = np.array([dial.by_notch for dial in dials])
        self._start = np.array([dial.start for dial in dials])
        self._table = _knob_table(task_id, self.open)

    def start(self, count: int) -> IntArray:
        """(N, D): where the dials stand when an episode begins."""
        return np.tile(self._start, (count, 1))

    def turn(self, dials: IntArray, wanted: IntArray) -> IntArray:
        """(N, D): the dials after a step towards ``wanted`` (N, D)."""
        moved = dials + np.clip(wanted - dials, -1, 1)
        return np.where(self._by_notch, moved, wanted)

    def see(self, observations: FloatArray, dials: IntArray) -> FloatArray:
        """(N, width): gymnasium observations (N, 16) and the dials, all spread over [-1, 1]."""
        shares = (dials / (self.sizes - 1)).astype(np.float32)
        return 2.0 * np.concatenate([(observations - _LOW) / (_HIGH - _LOW), shares], axis=1) - 1.0

    def knobs(self, dials: IntArray) -> npt.NDArray[np.float64]:
        """(N, 5): the knobs that the dials set, columns as ``KNOBS``, locked ones at their defaults."""
        return self._table[tuple(dials.T)]

    def actions(self, dials: IntArray) -> dict[str, npt.NDArray[Any]]:
        """The knobs as actions of the vector environment's mode "dict"."""
        rows = self.knobs(dials)
        columns = {name: rows[:, column] for column, name in enumerate(KNOBS)}
        return {**columns, "spec_length": np.searchsorted(SPEC_LENGTHS, columns["spec_length"])}

    def action(self, dials: IntArray) -> ServeAction:
        """The action of a single row (1, D)."""
        kv_budget, spec_length, batch_size, disagg, tier = self.knobs(dials)[0].tolist()
        return ServeAction(
            kv_budget=kv_budget,
            spec_length=int(spec_length),  # type: ignore[arg-type]
            batch_size=int(batch_size),
            prefill_disagg=bool(disagg),
            quant_tier=QuantTier(int(tier)),
        )


@cache
def _knob_table(task_id: str, open_knobs: tuple[str, ...]) -> npt.NDArray[np.float64]:
    """The five knobs for every combination of the dials; shape (settings of each dial…, 5)."""
    env = make_env(task_id)
    limit_gb = get_task(task_id).workload.memory_limit_gb or shared_simulator().table.metadata.memory_limit_gb
    settings = [_DIALS[name].settings for name in open_knobs]
    rows: list[list[float]] = []
    for values in product(*settings):
        chosen = dict(zip(open_knobs, values, strict=True))
        below_gb = chosen.pop("kv_budget", None)
        action = ServeAction(**chosen)
        if below_gb is not None:
            action = action.model_copy(update={"kv_budget": _kv_within(env, action, limit_gb - below_gb)})
        rows.append([float(getattr(action, name)) for name in KNOBS])
    return np.array(rows).reshape(*(len(each) for each in settings), len(KNOBS))


def _kv_within(env: Any, action: ServeAction, memory_gb: float) -> float:
    """The largest kv_budget with which an action reserves at most ``memory_gb`` (at least 0.101)."""
    least, most = (
        env.reserved_memory_gb(action.model_copy(update={"kv_budget": share})) for share in (0.1, 1.0)
    )
    share = 0.1 + 0.9 * (memory_gb - least) / (most - least)
    return float(np.clip(np.floor(share * KV_STEPS), KV_LEAST, KV_STEPS) / KV_STEPS)
