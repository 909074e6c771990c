"""A small parametric policy of InferenceGym/Serving-v0: two modes, and every knob linear in a few features.

The policy is quiet until arrivals or the queue reach a threshold, and busy until the queue has gone; that
mode is one feature among those of :mod:`agents.serving.traffic_memory`. A knob is squash(weights ·
features): the
bias sets its quiet value, the weight of ``busy`` its busy one, and the rest bends both to what is observed.
The KV budget is cut to what fits the task's memory limit, or the GPU: arithmetic need not be learnt.

:mod:`agents.serving.evolved` finds the parameters; here they are applied, to one episode or to many at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from agents.serving.traffic_memory import FEATURES, QUEUE, RATE, TrafficMemory, observation_row
from env.serving.tasks import get_task
from grader.serving.policies import Constant, TwoMode
from inferencegym.errors import InferenceGymError, InvalidValueError
from inferencegym.models.serving import QuantTier, ServeAction, ServeObservation
from simulator.packs.physics import GIB, verify_rows
from simulator.packs.trace_sim import shared_simulator

__all__ = [
    "INPUTS",
    "KNOBS",
    "EvolvedAgent",
    "EvolvedPolicy",
    "load_agent",
    "parameter_count",
    "parameters_of",
    "stored_path",
]

FloatArray = npt.NDArray[np.float64]

KNOBS = ("kv_budget", "spec_length", "batch_size", "prefill_disagg", "quant_tier")
"""Columns of an array of actions."""

INPUTS = (*FEATURES, "busy")
"""What a knob is linear in."""

THRESHOLDS = 3
"""Parameters before the weights: logarithms of rate_on / quiet rate, 1 + queue_on, 1 + queue_off."""

KV_SPAN = 0.93
"""A little more than the 0.9 of the knob's range, so that a squashed number can reach its upper end."""

_LOG_512 = float(np.log(512.0))
_DEFAULTS = tuple(float(getattr(ServeAction.model_construct(), name)) for name in KNOBS)
_ACTION_FIELDS = set(ServeAction.model_fields)
_TIERS = tuple(QuantTier)
_BIAS, _BUSY = 0, len(INPUTS) - 1


class EvolvedPolicy:
    """The policy for ``count`` episodes side by side.

    Args:
        task_id: task that is played; its locked knobs stay at their defaults.
        parameters: shape (count, :func:`parameter_count`), one policy a row.
    """

    def __init__(self, task_id: str, parameters: FloatArray) -> None:
        self.knobs = get_task(task_id).info.active_actions
        count, size = parameters.shape
        if size != parameter_count(task_id) or not np.isfinite(parameters).all():
            raise InvalidValueError(
                "parameters", parameters.shape, f"{parameter_count(task_id)} finite numbers a policy"
            )
        self._memory = TrafficMemory(task_id, count)
        thresholds = np.exp(np.clip(parameters[:, :THRESHOLDS], -5.0, 10.0))
        self._rate_on_rps = self._memory.rate_rps * thresholds[:, 0]
        self._queue_on, self._queue_off = thresholds[:, 1] - 1.0, thresholds[:, 2] - 1.0
        self._weights = parameters[:, THRESHOLDS:].reshape(count, len(self.knobs), len(INPUTS))
        self._memory_room = _MemoryRoom(task_id)
        self._inputs = np.empty((count, len(INPUTS)))
        self._actions = np.tile(np.array(_DEFAULTS), (count, 1))
        self._busy = np.zeros(count, dtype=np.bool_)

    def reset(self) -> None:
        """Start new episodes."""
        self._memory.reset()
        self._busy[:] = False

    def act(self, seen: FloatArray, now: int) -> FloatArray:
        """Actions for the observations of second ``now``.

        Args:
            seen: see :meth:`TrafficMemory.features`.
            now: ``timestep`` of the observations.

        Returns:
            shape (count, 5), columns as in ``KNOBS``; valid until the next call.
        """
        on = (seen[:, RATE] >= self._rate_on_rps) | (seen[:, QUEUE] >= self._queue_on)
        self._busy = on | (self._busy & (seen[:, QUEUE] > self._queue_off))
        self._inputs[:, :_BUSY] = self._memory.features(seen, now)
        self._inputs[:, _BUSY] = self._busy
        totals = (self._weights @ self._inputs[:, :, None])[:, :, 0]
        shares = 1.0 / (1.0 + np.exp(-np.clip(totals, -30.0, 30.0)))
        for row, knob in enumerate(self.knobs):
            self._actions[:, KNOBS.index(knob)] = _value(knob, shares[:, row])
        self._actions[:, 0] = np.minimum(self._actions[:, 0], self._memory_room.kv_budget(self._actions))
        return self._actions


class _MemoryRoom:
    """The largest KV budget that fits beside the other knobs."""

    def __init__(self, task_id: str) -> None:
        pack = shared_simulator().table.metadata
        limit_gb = get_task(task_id).workload.memory_limit_gb
        self._free_bytes = (pack.memory_limit_gb if limit_gb is None else limit_gb) * GIB - pack.fixed_bytes
        self._weights_bytes = np.array(pack.weights_bytes, dtype=np.float64)
        self._pool_bytes = np.array(pack.kv_pool_tokens, dtype=np.float64) * pack.kv_bytes_per_token
        self._row_bytes = pack.sampler_bytes_per_row

    def kv_budget(self, actions: FloatArray) -> FloatArray:
        """For actions of shape (count, 5); three decimals, rounded down, at least 0.1."""
        tier = actions[:, 4].astype(np.int64)
        rows = verify_rows(actions[:, 2], actions[:, 1])
        room = self._free_bytes - self._weights_bytes[tier] - self._row_bytes * rows
        return np.maximum(0.1, np.floor(room / self._pool_bytes[tier] * 1000.0 - 1e-6) / 1000.0)


class EvolvedAgent:
    """The policy as an agent of one episode."""

    def __init__(self, task_id: str, parameters: Sequence[float]) -> None:
        self._policy = EvolvedPolicy(task_id, np.array([parameters], dtype=np.float64))

    def reset(self) -> None:
        """Start an episode."""
        self._policy.reset()

    def act(self, observation: ServeObservation) -> ServeAction:
        """The action for an observation; observations must come in order, one a step."""
        row = self._policy.act(observation_row(observation), observation.timestep)
        kv, spec, batch, disagg, tier = row.tolist()[0]
        return ServeAction.model_construct(
            _ACTION_FIELDS,
            kv_budget=kv,
            spec_length=int(spec),
            batch_size=int(batch),
            prefill_disagg=bool(disagg),
            quant_tier=_TIERS[int(tier)],
        )


def stored_path(task_id: str) -> Path:
    """Where the parameters of a task's policy are kept, with how they were made."""
    return Path(__file__).parents[1] / "data" / f"evolved_{task_id}.json"


def load_agent(task_id: str) -> EvolvedAgent:
    """The committed policy of a task. Raises InferenceGymError when it has none, or one of other inputs."""
    task_id = get_task(task_id).info.id
    path = stored_path(task_id)
    if not path.is_file():
        raise InferenceGymError(
            f"There is no evolved policy of {task_id} yet.",
            f"Make one: python -m agents.serving.evolved --task {task_id}.",
        )
    stored = json.loads(path.read_text())
    if stored["inputs"] != list(INPUTS):
        raise InferenceGymError(
            f"The evolved policy of {task_id} was made for other inputs.",
            f"Make it again: python -m agents.serving.evolved --task {task_id}.",
        )
    return EvolvedAgent(task_id, stored["parameters"])


def parameter_count(task_id: str) -> int:
    """Numbers that a policy for the task has."""
    return THRESHOLDS + len(get_task(task_id).info.active_actions) * len(INPUTS)


def parameters_of(task_id: str, policy: Constant | TwoMode) -> FloatArray:
    """Parameters that play (up to rounding) as a policy of the calibration does."""
    task = get_task(task_id)
    if isinstance(policy, Constant):
        policy = TwoMode(policy.action, policy.action, 1.5 * task.workload.arrivals.rate_rps, 16, 1)
    thresholds = [
        policy.rate_on_rps / task.workload.arrivals.rate_rps,
        1 + policy.queue_on,
        1 + policy.queue_off,
    ]
    weights = np.zeros((len(task.info.active_actions), len(INPUTS)))
    for row, knob in enumerate(task.info.active_actions):
        quiet, busy = (_logit(knob, float(getattr(mode, knob))) for mode in (policy.quiet, policy.busy))
        weights[row, _BIAS], weights[row, _BUSY] = quiet, busy - quiet
    return np.concatenate([np.log(thresholds), weights.ravel()])


def _logit(knob: str, value: float) -> float:
    share = min(0.97, max(0.03, _share(knob, value)))
    return float(np.log(share / (1.0 - share)))


def _value(knob: str, share: FloatArray) -> FloatArray:
    """A knob's values from shares of [0, 1]."""
    if knob == "kv_budget":
        return np.minimum(1.0, np.round(0.1 + KV_SPAN * share, 3))
    if knob == "batch_size":
        return np.maximum(1.0, np.rint(np.exp(_LOG_512 * share)))
    if knob == "prefill_disagg":
        return (share > 0.5).astype(np.float64)
    values = _CHOICES[knob]
    return values[np.minimum(len(values) - 1, (len(values) * share).astype(np.int64))]


def _share(knob: str, value: float) -> float:
    """The middle of the shares that give a value."""
    if knob == "kv_budget":
        return (value - 0.1) / KV_SPAN
    if knob == "batch_size":
        return float(np.log(value)) / _LOG_512
    if knob == "prefill_disagg":
        return 0.65 if value else 0.35
    values = _CHOICES[knob].tolist()
    return (values.index(value) + 0.5) / len(values)


_CHOICES: Mapping[str, FloatArray] = {
    "spec_length": np.array([0.0, 1.0, 2.0, 4.0, 8.0]),
    "quant_tier": np.array([float(tier) for tier in QuantTier]),
}
