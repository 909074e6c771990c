"""The coding of InferenceGym/Routing-v0: one dial, whose settings are the actions that differ in effect.

Strategy, model and flag belong together (a model that is right after a missed cache is wrong for waiting), so
that they are chosen together and not by three dials that know nothing of each other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from agents.ppo.coding import PlainCoding, Training
from env.routing.tasks import get_task
from grader.routing.anchors import STREAM_ACTIONS
from inferencegym.models.routing import RoutingAction

__all__ = ["Coding"]

IntArray = npt.NDArray[np.int64]

_LEVELS = np.array([[a.strategy, a.model_choice, int(a.exit_flag)] for a in STREAM_ACTIONS])
_DEFAULT = STREAM_ACTIONS.index(RoutingAction())


class Coding(PlainCoding):
    """See the module's docstring."""

    def __init__(self, task_id: str) -> None:
        streams = get_task(task_id).stream is not None
        super().__init__("routing", task_id, Training(1_000_000, 64) if streams else Training(100_000, 32))
        self.sizes = np.array([len(STREAM_ACTIONS)])
        self.references = (
            "baseline",
            "always_small",
            "always_large",
            "always_cache",
            "heuristic",
            "lookahead",
        )
        self.lines = {"always_cache": "always the cache", "heuristic": "rules", "lookahead": "look-ahead"}

    def start(self, count: int) -> IntArray:
        """(N, 1): the default action."""
        return np.full((count, 1), _DEFAULT)

    def actions(self, dials: IntArray) -> IntArray:
        """(N, 3): strategy, model and flag."""
        return _LEVELS[dials[:, 0]]
