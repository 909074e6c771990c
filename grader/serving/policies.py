"""Small policies that calibration searches over and agents are built from.

A policy is called with an observation and returns an action; ``reset`` starts a new episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from inferencegym.models.serving import ServeAction, ServeObservation

__all__ = ["Constant", "Policy", "TwoMode", "policy_from_dict"]


class Policy(Protocol):
    """Maps observations to actions."""

    def reset(self) -> None: ...

    def act(self, observation: ServeObservation) -> ServeAction: ...

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(slots=True)
class Constant:
    """The same action every step."""

    action: ServeAction = field(default_factory=ServeAction)

    def reset(self) -> None:
        """Nothing to forget."""

    def act(self, observation: ServeObservation) -> ServeAction:
        """The action, whatever is observed."""
        return self.action

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready description."""
        return {"kind": "constant", "action": self.action.model_dump(mode="json")}


@dataclass(slots=True)
class TwoMode:
    """One action while quiet, another from the first sign of a burst until its backlog is gone.

    Enters the busy mode when arrivals (10-step EMA, req/s) or the queue reach their thresholds; leaves it
    when arrivals are below theirs again and the queue is at most ``queue_off``.
    """

    quiet: ServeAction
    busy: ServeAction
    rate_on_rps: float
    queue_on: int
    queue_off: int
    is_busy: bool = False

    def reset(self) -> None:
        """Start quiet."""
        self.is_busy = False

    def act(self, observation: ServeObservation) -> ServeAction:
        """Switch mode if due and return its action."""
        surge = observation.arrival_rate >= self.rate_on_rps
        if surge or observation.queue_depth >= self.queue_on:
            self.is_busy = True
        elif self.is_busy and observation.queue_depth <= self.queue_off:
            self.is_busy = False
        return self.busy if self.is_busy else self.quiet

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready description."""
        return {
            "kind": "two_mode",
            "quiet": self.quiet.model_dump(mode="json"),
            "busy": self.busy.model_dump(mode="json"),
            "rate_on_rps": self.rate_on_rps,
            "queue_on": self.queue_on,
            "queue_off": self.queue_off,
        }


def policy_from_dict(raw: Mapping[str, Any]) -> Constant | TwoMode:
    """The policy that ``to_dict`` described."""
    if raw["kind"] == "constant":
        return Constant(ServeAction.model_validate(raw["action"]))
    return TwoMode(
        ServeAction.model_validate(raw["quiet"]),
        ServeAction.model_validate(raw["busy"]),
        raw["rate_on_rps"],
        raw["queue_on"],
        raw["queue_off"],
    )
