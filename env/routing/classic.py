"""An episode of a classic routing task: a fixed game, seen and played query by query."""

from __future__ import annotations

from typing import Any

from env.protocols import TaskInfo
from inferencegym.models.base import construct
from inferencegym.models.routing import ModelChoice, PerModel, RoutingAction, RoutingObservation, UpModels
from simulator.routing.classic import ClassicGame, ClassicState, after, decide
from simulator.routing.classic_games import CATEGORY_OF
from simulator.routing.kernel import ANSWER_TOKENS

__all__ = ["REGION", "ClassicPlay"]

REGION = "classic"
_DIFFICULTY = {ModelChoice.SMALL: 0.2, ModelChoice.MEDIUM: 0.5, ModelChoice.LARGE: 0.85}
_NO_LOAD = PerModel(small=0.0, medium=0.0, large=0.0)
_ALL_UP = UpModels(small=True, medium=True, large=True)
# What a model can do stands in the difficulty; shares of benchmarks say nothing about one query.
_ABLE = {
    needs: PerModel(**{m.name.lower(): 1.0 if m >= needs else 0.0 for m in ModelChoice})
    for needs in ModelChoice
}


class ClassicPlay:
    """See :mod:`simulator.routing.classic` for the rules."""

    region = REGION
    start_hour = 0

    def __init__(self, task: TaskInfo, game: ClassicGame, seed: int) -> None:
        self.task = task
        self.game = game
        self.seed = seed
        self.state = ClassicState(0, 0, game.cached)
        self.correct = 0
        self.energy_wh = 0.0
        self.co2_g = 0.0

    def play(self, action: RoutingAction) -> tuple[float, dict[str, float], dict[str, Any]]:
        """Decide the query at hand; returns reward, its terms, and metrics."""
        outcome = decide(self.game, self.state, action)
        self.state = after(self.game, self.state, action, outcome)
        self.correct += int(outcome.score)
        self.energy_wh += outcome.energy
        self.co2_g += outcome.carbon
        terms = dict(zip(outcome._fields[:6], outcome[:6], strict=True))
        metrics = {
            "correct": bool(outcome.score),
            "energy_wh": outcome.energy,
            "co2_g": outcome.carbon,
            "latency_s": outcome.latency,
            "late": False,
            "may_wait": False,
            "cache_hit": outcome.cache_bonus > 0.0,
            "cache_wrong": False,
            "kb_used": False,
            "timeouts": 0,
        }
        return outcome.reward, terms, metrics

    def workload(self) -> dict[str, Any]:
        """What the world looks like now."""
        return {
            "region": REGION,
            "hour": 0.0,
            "carbon_intensity": self._carbon(self.state.slot),
            "waiting": 0,
        }

    def observe(self, last_reward: float, terms: dict[str, float]) -> RoutingObservation:
        """What the agent sees before the next decision."""
        left = len(self.game.queries) - self.state.position
        query = self.game.queries[min(self.state.position, len(self.game.queries) - 1)]
        cached = query.id in self.state.cached
        return construct(
            RoutingObservation,
            {
                "task_id": self.task.id,
                "queries_left": left,
                "query_id": query.id if left else "",
                "query_text": query.text if left else "",
                "category": CATEGORY_OF[query.id],
                "category_accuracy": _ABLE[query.needs],
                "difficulty_estimate": _DIFFICULTY[query.needs],
                "answer_tokens_estimate": ANSWER_TOKENS,
                "deadline_h": 0.0,
                "hour": 0.0,
                "region": REGION,
                "carbon_intensity": self._carbon(self.state.slot),
                "carbon_if_wait": self._carbon(self.state.slot + 1),
                "wait_h": 1.0,
                "waiting": 0,
                "cache_contents": tuple(sorted(self.state.cached)),
                "cache_similarity": 1.0 if cached else 0.0,
                "cache_age_h": 0.0,
                "kb_available": query.in_kb,
                "kb_age_h": 0.0,
                "model_load": _NO_LOAD,
                "models_up": _ALL_UP,
                "last_reward": last_reward,
                "reward_breakdown": terms,
            },
        )

    def snapshot(self) -> Any:
        """Everything that changes."""
        return self.state, self.correct, self.energy_wh, self.co2_g

    def restore(self, snapshot: Any) -> None:
        """Back to a snapshot."""
        self.state, self.correct, self.energy_wh, self.co2_g = snapshot

    def _carbon(self, slot: int) -> float:
        return self.game.carbon[min(slot, len(self.game.carbon) - 1)]
