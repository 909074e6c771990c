"""Controllers with the faults that operators know, and the cure for one of them.

They are what the scenarios of InferenceGym/Autoscaling-v0 are for: each scenario brings out one fault. Each
controller is a sound one but for its fault. They are no reference agents.
"""

from __future__ import annotations

from typing import Protocol

from agents.autoscaling.controllers import HPA, to_total
from inferencegym.models.autoscaling import AutoscalingAction, AutoscalingObservation

__all__ = ["ByHand", "CountsSurge", "ForgetsPending", "ReadsNothingAsZero"]


class ForgetsPending(HPA):
    """Its last order is forgotten: every replica asked for counts as if it carried load already."""

    def act(self, observation: AutoscalingObservation) -> AutoscalingAction:
        """The total it wants."""
        if observation.metrics_missing:
            return AutoscalingAction()
        return self.steer(observation.replicas_target, observation.replicas_target, 0, observation.cpu)


class CountsSurge(HPA):
    """In a rolling update it takes all replicas that there are, the surge included, for its fleet."""

    def act(self, observation: AutoscalingObservation) -> AutoscalingAction:
        """The total it wants."""
        if observation.metrics_missing:
            return AutoscalingAction()
        if not observation.update_in_progress:
            return super().act(observation)
        replicas = observation.replicas_ready + observation.replicas_pending
        return self.steer(replicas, replicas, 0, observation.cpu)


class ReadsNothingAsZero(HPA):
    """Without metrics it takes the load for zero."""

    def act(self, observation: AutoscalingObservation) -> AutoscalingAction:
        """The total it wants."""
        cpu = 0.0 if observation.metrics_missing else observation.cpu
        return self.steer(
            observation.replicas_target, observation.replicas_ready, observation.replicas_pending, cpu
        )


class _Controller(Protocol):
    def reset(self) -> None: ...

    def act(self, observation: AutoscalingObservation) -> AutoscalingAction: ...


class ByHand:
    """Looks whether a move can have an effect, and sets the total by hand when it cannot: what ends a pause.

    Args:
        controller: one that thinks in moves.
    """

    def __init__(self, controller: _Controller) -> None:
        self._controller = controller

    def reset(self) -> None:
        """Start an episode."""
        self._controller.reset()

    def act(self, observation: AutoscalingObservation) -> AutoscalingAction:
        """The controller's action, in the form that works."""
        action = self._controller.act(observation)
        paused = observation.available_actions == ("no_op",)
        if not paused or action.action == "no_op":
            return action
        step = 1 if action.action == "scale_up" else -1
        return to_total(observation.replicas_target + step)
