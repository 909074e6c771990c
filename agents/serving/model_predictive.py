"""Model-predictive control of InferenceGym/Serving-v0: a few actions tried on copied simulators, best kept.

The agent knows the task as its description gives it (traffic's distributions, period of the bursts, the
engine) but neither the seed of its episode nor anything that has not been observed. Its model is a handful
of *shadows*: episodes of the same task with seeds of its own, played in step with the real one by the same
actions. Evidence chooses among them:

- a surge of the observed arrivals gives away the phase of the bursts: shadows whose bursts begin at another
  second are replaced by ones that agree, and until a surge is seen, ones whose burst has begun are replaced
  by ones whose burst is still to come;
- of those, the ones whose queue and KV occupancy have lately been nearest to what is observed are planned
  with.

A plan holds an action for a few seconds and goes on with the reactive rule to the horizon, on snapshots of
those shadows; what the task's grade counts is summed on the way (:func:`_worth`). The rule's own action is
one of the candidates and wins ties. A plan is made every few seconds, and when the rule changes its mode.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from agents.serving.agents import reactive_agent
from agents.serving.traffic_memory import TrafficMemory, observation_row
from env.serving.episode import InferenceEnv, make_env
from env.serving.tasks import get_task, load_calibration
from grader.serving.policies import TwoMode
from grader.serving.scoring import COST_BUDGET, TTFT_SCALE_MS, WEIGHTS
from inferencegym.models.serving import QuantTier, ServeAction, ServeObservation
from simulator.serving.traffic.workload import BURST, WorkloadGenerator

__all__ = ["SHADOW_SEED", "ModelPredictive", "shadow_library"]

SHADOW_SEED = 2**40
"""First seed of the shadows: far from the seeds that episodes are given, so that none is the real one."""

SHADOWS = 5
PLANNED = 4
"""Shadows that are kept, and the nearest of them, on which a plan's worth is averaged: one alone has
arrivals to come that the real episode will not have, and a plan made for them is worth little."""

HOLD_STEPS = 4
HORIZON_STEPS = 16
MARGIN = 0.003
"""Predicted worth a step by which another action must beat the rule's; less is noise of the model."""

ERROR_MEMORY_STEPS = 8
RENEW_STEPS = 10
"""Every so many steps the worst shadow makes room for a new one."""


@dataclass(slots=True)
class _Shadow:
    """An episode that could be the real one, and how far from it it has lately been."""

    env: InferenceEnv
    onset: int
    observation: ServeObservation
    errors: deque[float] = field(default_factory=lambda: deque[float](maxlen=ERROR_MEMORY_STEPS))

    @property
    def error(self) -> float:
        return float(np.mean(self.errors)) if self.errors else 0.0

    def follow(self, action: ServeAction, seen: ServeObservation) -> None:
        """Take the step that the real episode took, and compare."""
        self.observation = self.env.step(action)[0]
        self.compare(seen)

    def compare(self, seen: ServeObservation) -> None:
        mine = self.observation
        queue = abs(np.log1p(mine.queue_depth) - np.log1p(seen.queue_depth))
        self.errors.append(queue + 3.0 * abs(mine.kv_cache_occupancy - seen.kv_cache_occupancy))


class ModelPredictive:
    """See the module's description.

    Args:
        task_id: task that is played.
        seed: seeds the choice of shadows.
    """

    def __init__(self, task_id: str, seed: int) -> None:
        self._task_id = task_id
        self._seed = seed
        self._rule = reactive_agent(task_id, seed)
        self._memory = TrafficMemory(task_id)
        self._candidates = _candidates(task_id)
        self.reset()

    def reset(self) -> None:
        """Start an episode with fresh shadows."""
        self._rng = np.random.default_rng(self._seed)
        self._rule.reset()
        self._memory.reset()
        self._actions: list[ServeAction] = []
        self._shadows: list[_Shadow] = []
        self._plan: list[ServeAction] = []

    def act(self, observation: ServeObservation) -> ServeAction:
        """The action for the next second."""
        self._memory.features(observation_row(observation), observation.timestep)
        self._follow(observation)
        before = replace(self._rule)
        action = self._rule.act(observation)
        if not self._plan or self._rule.is_busy != before.is_busy:
            self._plan = [self._best(action, before)] * HOLD_STEPS
        action = self._plan.pop()
        self._actions.append(action)
        return action

    # The model

    def _follow(self, seen: ServeObservation) -> None:
        """Bring every shadow to the present; replace those that the evidence speaks against."""
        if self._actions:
            for shadow in self._shadows:
                shadow.follow(self._actions[-1], seen)
        now = seen.timestep
        self._shadows = [shadow for shadow in self._shadows if self._agrees(shadow.onset, now)]
        if now and now % RENEW_STEPS == 0 and len(self._shadows) == SHADOWS:
            self._shadows.remove(max(self._shadows, key=lambda shadow: shadow.error))
        while len(self._shadows) < SHADOWS:
            self._shadows.append(self._new_shadow(now, seen))

    def _new_shadow(self, now: int, seen: ServeObservation) -> _Shadow:
        """An episode that agrees with the bursts seen so far, played with the agent's own actions."""
        library = shadow_library(self._task_id)
        fitting = [pair for pair in library if self._agrees(pair[1], now)] or library
        seed, its_onset = fitting[int(self._rng.integers(len(fitting)))]
        env = make_env(self._task_id, seed)
        shadow = _Shadow(env, its_onset, env.reset())
        for action in self._actions:
            shadow.observation = env.step(action)[0]
        shadow.compare(seen)
        return shadow

    def _agrees(self, shadow_onset: int, now: int) -> bool:
        """Whether a shadow's first burst fits what was seen: in phase with the last one, or still to come."""
        onset = int(self._memory.onset[0])
        if onset < 0:
            return shadow_onset > now
        return (shadow_onset - onset + 1) % self._memory.period_s <= 2

    # The plan

    def _best(self, rule_action: ServeAction, rule: TwoMode) -> ServeAction:
        """The candidate with the highest predicted worth; the rule's own action unless beaten by MARGIN."""
        likely = sorted(self._shadows, key=lambda shadow: shadow.error)[:PLANNED]
        candidates = [rule_action, *(action for action in self._candidates if action != rule_action)]
        steps = min(HORIZON_STEPS, likely[0].env.task.episode_length - len(self._actions))
        worth = np.zeros(len(candidates))
        for shadow in likely:
            start = shadow.env.snapshot()
            worth += [self._predict(shadow, start, action, rule, steps) for action in candidates]
            shadow.env.restore(start)
        worth /= len(likely)
        worth[0] += MARGIN
        return candidates[int(np.argmax(worth))]

    def _predict(
        self, shadow: _Shadow, start: dict[str, Any], action: ServeAction, rule: TwoMode, steps: int
    ) -> float:
        """Mean worth of holding an action and then following the rule, on a copy of a shadow."""
        env, rule, observation = shadow.env, replace(rule), shadow.observation
        env.restore(start)
        total = 0.0
        for step in range(steps):
            chosen = rule.act(observation)
            observation, _, _, info = env.step(action if step < HOLD_STEPS else chosen)
            total += _worth(self._task_id, info["metrics"])
        return total / max(steps, 1)


def _worth(task_id: str, metrics: dict[str, Any]) -> float:
    """What the task's grade counts of one step, before clipping."""
    weights = WEIGHTS[task_id]
    if task_id == "task2":
        return -weights["ttft"] * metrics["ttft_p50_ms"] / TTFT_SCALE_MS
    measured = load_calibration()["tasks"][task_id]
    span = measured["optimum_tokens_per_s"] - measured["floor_tokens_per_s"]
    worth = weights["throughput"] * metrics["tokens_per_sec"] / span
    if task_id == "task3":
        worth -= weights["slo_compliance"] * metrics["slo_violation_rate"]
        worth -= weights["cost"] * metrics["cost_per_1k"] * 200 / COST_BUDGET
    return worth


def _candidates(task_id: str) -> list[ServeAction]:
    """Actions that are tried beside the rule's own, each with the KV budget that the memory limit leaves."""
    if task_id == "task1":
        return [ServeAction(batch_size=batch) for batch in (180, 200, 235)]
    if task_id == "task2":
        return [
            ServeAction(kv_budget=0.81, batch_size=110),
            ServeAction(kv_budget=0.80, batch_size=150),
            ServeAction(kv_budget=0.77, batch_size=150, spec_length=1),
        ]
    shared = ServeAction(kv_budget=0.9, batch_size=128, quant_tier=QuantTier.INT8)
    return [
        shared.model_copy(update={"spec_length": 1, "prefill_disagg": True}),
        shared.model_copy(update={"spec_length": 1}),
        shared.model_copy(update={"prefill_disagg": True}),
    ]


@cache
def shadow_library(task_id: str) -> tuple[tuple[int, int], ...]:
    """Seeds of possible shadows with the second of their first burst (beyond the end without bursts)."""
    task = get_task(task_id)
    steps = task.info.episode_length
    generator = WorkloadGenerator(task.workload, steps)
    low, high = task.workload.arrivals.first_burst_s
    pairs: list[tuple[int, int]] = []
    for seed in range(SHADOW_SEED, SHADOW_SEED + 6 * (high - low + 1)):
        phase = generator.episode(np.random.default_rng(seed)).phase_index
        bursts = np.flatnonzero(phase == BURST)
        pairs.append((seed, int(bursts[0]) if len(bursts) else steps + 1))
    return tuple(pairs)
