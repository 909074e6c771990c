"""An episode of a routing stream: a drawn day, seen and played query by query."""

from __future__ import annotations

from typing import Any

import numpy as np

from env.protocols import TaskInfo
from inferencegym.models.base import construct
from inferencegym.models.routing import (
    CATEGORIES,
    PerModel,
    Region,
    RoutingAction,
    RoutingObservation,
    UpModels,
)
from simulator.routing.cache import nearest_cached, stores
from simulator.routing.kernel import LOAD_START, MODELS, Outcome, answer, commit, load_of, queued
from simulator.routing.stream import STREAM_HOURS, StreamConfig, accuracy_of, draw_stream

__all__ = ["StreamPlay", "seen_up"]

Row = list[float]

_TEXTS = {
    "instruction": "Rewrite the note of case {} as a polite mail of three sentences.",
    "knowledge": "What does the handbook's field of knowledge say about subject {}?",
    "maths": "Solve word problem {} and show the steps.",
    "science": "Answer graduate-level science question {} and give the reason.",
    "code": "Write the function that ticket {} asks for, with its tests.",
    "multilingual": "Solve problem {}, which is not written in English, in its own language.",
}
_SHARES = {
    name: PerModel(**dict(zip(("small", "medium", "large"), accuracy_of(name), strict=True)))
    for name in CATEGORIES
}
_UP = {
    bits: UpModels(small=not bits & 1, medium=not bits & 2, large=not bits & 4) for bits in range(1 << MODELS)
}
_ID = "n{}"
_NO_BONUS = (0.0, 0.0, 0.0)
TERMS: tuple[str, ...] = (
    "score",
    "carbon_penalty",
    "latency_penalty",
    "cache_bonus",
    "early_exit_bonus",
    "large_fee",
)


def seen_up(model: int, now: float, down: Any, state: Any) -> bool:
    """Whether a model was alive when last looked at: a probe of the last full quarter of an hour, or a
    timeout since."""
    slot = int(now * 4.0)
    if state[3 + model] >= 0.25 * slot:
        return False
    return slot == 0 or down[slot - 1][model] == 0.0


class StreamPlay:
    """See :mod:`simulator.routing.kernel` for what decisions bring, :mod:`simulator.routing.stream` for the
    day."""

    def __init__(
        self,
        task: TaskInfo,
        config: StreamConfig,
        seed: int,
        region: Region | None = None,
        start_hour: int | None = None,
    ) -> None:
        self.task = task
        self.seed = seed
        self.capacity = config.cache_capacity
        stream = draw_stream(config, np.random.default_rng(seed), region, start_hour)
        self.region = stream.region
        self.start_hour = stream.start_hour
        self.queries: list[Row] = stream.queries.tolist()
        self.hours: list[Row] = stream.hours.tolist()
        self.down: list[Row] = stream.down.tolist()
        self.held = [0.0] * len(self.hours)
        self.cached_h = [-1.0] * config.topics
        self.cached_right = [0.0] * config.topics
        self.cached_by = [0] * config.topics
        self.state = [LOAD_START] * MODELS + [-1.0] * MODELS + [0.0]
        self.index = 0
        self.correct = 0
        self.energy_wh = 0.0
        self.co2_g = 0.0
        self._out = [0.0] * len(Outcome)

    def preview(self, action: RoutingAction) -> Row:
        """The outcome (columns of Outcome) that an action would have now; nothing is changed. The list is
        used again by the next call."""
        answer(
            self.queries[self.index],
            self.hours,
            self.down,
            self.held,
            self.cached_h,
            self.cached_right,
            self.state,
            action.strategy,
            action.model_choice,
            action.exit_flag,
            self._out,
        )
        return self._out

    def play(self, action: RoutingAction) -> tuple[float, dict[str, float], dict[str, Any]]:
        """Decide the query at hand; returns reward, its terms, and metrics."""
        out = self.preview(action)
        query = self.queries[self.index]
        if stores(query, self.cached_h, out):
            self.cached_by[int(query[1])] = self.index
        commit(query, self.held, self.cached_h, self.cached_right, self.state, self.capacity, out)
        self.index += 1
        self.correct += int(out[18])
        self.energy_wh += out[1]
        self.co2_g += out[2]
        terms: dict[str, float] = dict(zip(TERMS, (out[18], out[19], out[20], *_NO_BONUS), strict=True))
        metrics = {
            "correct": out[18] > 0.0,
            "energy_wh": out[1],
            "co2_g": out[2],
            "latency_s": out[3],
            "late": out[4] > 0.0,
            "may_wait": query[8] > 0.0,
            "cache_hit": out[5] > 0.0,
            "cache_wrong": out[6] > 0.0,
            "kb_used": out[7] > 0.0,
            "timeouts": int(out[8]),
        }
        return out[21], terms, metrics

    def workload(self) -> dict[str, Any]:
        """What the world looks like now."""
        query = self.queries[min(self.index, len(self.queries) - 1)]
        return {
            "region": self.region,
            "hour": (self.start_hour + query[0]) % STREAM_HOURS,
            "carbon_intensity": query[22],
            "waiting": self._waiting(query),
        }

    def observe(self, last_reward: float, terms: dict[str, float]) -> RoutingObservation:
        """What the agent sees before the next decision; after the last one, the last query without its
        text."""
        left = len(self.queries) - self.index
        query = self.queries[self.index] if left else self.queries[-1]
        now = query[0]
        near = nearest_cached(query, self.cached_h)
        own = near == int(query[1])
        category = CATEGORIES[int(query[24])]
        return construct(
            RoutingObservation,
            {
                "task_id": self.task.id,
                "queries_left": left,
                "query_id": _ID.format(self.index) if left else "",
                "query_text": _TEXTS[category].format(int(query[1])) if left else "",
                "category": category,
                "category_accuracy": _SHARES[category],
                "difficulty_estimate": query[19],
                "answer_tokens_estimate": query[20],
                "deadline_h": query[8],
                "hour": (self.start_hour + now) % STREAM_HOURS,
                "region": self.region,
                "carbon_intensity": query[22],
                "carbon_if_wait": query[23],
                "wait_h": int(now) + query[9] - now,
                "waiting": self._waiting(query),
                "cache_contents": () if near < 0 else (_ID.format(self.cached_by[near]),),
                "cache_similarity": 0.0 if near < 0 else (query[10] if own else query[11]),
                "cache_age_h": 0.0 if near < 0 else now - self.cached_h[near],
                "kb_available": query[21] > 0.0,
                "kb_age_h": now - query[16],
                "model_load": self._loads(now),
                "models_up": self._up(now),
                "last_reward": last_reward,
                "reward_breakdown": terms,
            },
        )

    def snapshot(self) -> Any:
        """Everything that changes."""
        lists = (self.held, self.cached_h, self.cached_right, self.cached_by, self.state)
        return [list[Any](values) for values in lists], self.index, self.correct, self.energy_wh, self.co2_g

    def restore(self, snapshot: Any) -> None:
        """Back to a snapshot."""
        lists, self.index, self.correct, self.energy_wh, self.co2_g = snapshot
        self.held, self.cached_h, self.cached_right, self.cached_by, self.state = map(list, lists)

    def _waiting(self, query: Row) -> int:
        return queued(self.held, int(query[0]) + int(query[9]))

    def _loads(self, now: float) -> PerModel:
        hour, state = self.hours[int(now)], self.state
        return construct(
            PerModel,
            {
                "small": load_of(0, hour, state[0], 0.0),
                "medium": load_of(1, hour, state[1], 0.0),
                "large": load_of(2, hour, state[2], 0.0),
            },
        )

    def _up(self, now: float) -> UpModels:
        bits = 0
        for model in range(MODELS):
            if not seen_up(model, now, self.down, self.state):
                bits |= 1 << model
        return _UP[bits]
