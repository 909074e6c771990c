"""How PPO plays InferenceGym/Market-v0: one dial, the relative change of the price.

The plain coding does, with a longer training and the agents that it has to beat. The committed policies were
made with ``--learning-rate 4e-4 --discount 0.97``: with the usual 1e-3 the last third of a run undid what the
second had learned.
"""

from __future__ import annotations

from agents.ppo.coding import PlainCoding, Training

__all__ = ["Coding"]


class Coding(PlainCoding):
    """The plain coding with this environment's references."""

    def __init__(self, task_id: str) -> None:
        super().__init__("market", task_id, Training(500_000, 64))
        self.references = ("baseline", "static", "evolved")
        self.lines = {"baseline": "rule", "static": "best constant price", "evolved": "evolved"}
